package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"

	"sidequest/oauth/signin"
)

//go:embed templates/*.html
var templates embed.FS

// Pages renders the pages. Make one with [NewPages].
type Pages struct {
	log    *slog.Logger
	byName map[string]*template.Template // "error" is that of templates/error.html
}

// A page is one answer to a person: what the layout needs to know about it.
type page struct {
	Name   string // of its template
	Status int    // of HTTP; 0 for 200
	Title  string
	Class  string          // of main: "", "wide" or "reading"
	Who    *signin.Session // nil while nobody is signed in
	Waits  int             // questions to whoever is signed in
	Path   string          // to mark where the reader is
	Public bool            // shows the way to sign in to those who are not
	Docs   bool            // is one of the documents, which know nobody
	Alone  bool            // leads nowhere else: the reader has something to decide
	Script string          // the one script it needs, "" for none
	Body   any
}

// A link is somewhere to go.
type link struct {
	Name, Path string
	Here       bool
	Count      int // of what waits there
}

// Nav is what an operator can go to from everywhere.
func (p page) Nav() []link {
	links := []link{{Name: "Connections", Path: "/connections"}, {Name: "Agents", Path: "/agents"}, {Name: "Approvals", Path: "/approvals", Count: p.Waits}, {Name: "Deliveries", Path: "/deliveries"}, {Name: "Docs", Path: "/docs"}}
	for i, l := range links {
		links[i].Here = p.Path == l.Path || strings.HasPrefix(p.Path, l.Path+"/")
	}
	return links
}

// NewPages parses the templates.
func NewPages(log *slog.Logger) (*Pages, error) {
	p := &Pages{log: log, byName: map[string]*template.Template{}}
	names, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("list the templates: %w", err)
	}
	for _, file := range names {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		t, err := template.New(name).Funcs(functions()).ParseFS(templates, "templates/layout.html", "templates/parts.html", file)
		if err != nil {
			return nil, fmt.Errorf("parse the template %s: %w", name, err)
		}
		p.byName[name] = t
	}
	return p, nil
}

// show answers with a page. Nothing is sent before all of it has been rendered.
func (p *Pages) show(w http.ResponseWriter, r *http.Request, pg page) {
	var body bytes.Buffer
	if pg.Path == "" {
		pg.Path = r.URL.Path
	}
	if err := p.byName[pg.Name].ExecuteTemplate(&body, "layout", pg); err != nil {
		p.log.ErrorContext(r.Context(), "render a page", "page", pg.Name, "error", err)
		http.Error(w, "This page cannot be shown at the moment.", http.StatusInternalServerError)
		return
	}
	guard(w.Header(), pg)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if pg.Status != 0 {
		w.WriteHeader(pg.Status)
	}
	_, _ = w.Write(body.Bytes())
}

// guard sets the headers that keep a page from being framed, scripted, cached or
// told on. There is no form-action: browsers apply it to the redirects that follow
// a form, and the consent form ends at the client.
func guard(h http.Header, pg page) {
	policy := "default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'"
	if pg.Script != "" {
		policy += "; script-src 'self'"
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
}
