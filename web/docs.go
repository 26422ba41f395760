package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/util"

	"sidequest/docs"
	"sidequest/domain"
	"sidequest/public"
)

// A document is one page of the documentation in the forms it can be asked for.
type document struct {
	html, markdown *public.Document
}

// documents has every page by its slug, "" for the index.
type documents map[string]document

// drawDocuments makes all pages of the documentation, once: they change with the
// program alone.
func (s *Server) drawDocuments() (documents, error) {
	book, err := docs.Load()
	if err != nil {
		return nil, err
	}
	all := documents{}
	for _, p := range append(book.Pages, book.Index(true)) {
		html, err := s.draw(book, p)
		if err != nil {
			return nil, fmt.Errorf("draw the page %s: %w", p.Slug, err)
		}
		slug := p.Slug
		if slug == "index" {
			slug = ""
		}
		all[slug] = document{html, public.New("text/markdown; charset=utf-8", []byte(p.Markdown(s.cfg.Origin)))}
	}
	return all, nil
}

// documentRoutes adds the documentation and the pictures that go with it.
func (s *Server) documentRoutes(mux *http.ServeMux) {
	mux.Handle("/start.md", s.documents["start"].markdown)
	mux.Handle("/docs.md", s.documents[""].markdown)
	mux.HandleFunc("/docs", s.serveDocument)
	mux.HandleFunc("/docs/{slug...}", s.serveDocument)
	mux.Handle("/icon.svg", asset("image/svg+xml", "static/icon.svg"))
	mux.Handle("/icon.png", asset("image/png", "static/icon.png"))
	mux.Handle("/favicon.ico", asset("image/png", "static/icon.png")) // browsers go by what it is, not by its name
	mux.Handle("/robots.txt", public.New("text/plain; charset=utf-8", []byte(robots)))
}

// robots keeps crawlers from the pages of operators, where they can do nothing.
const robots = `User-agent: *
Disallow: /sign-in
Disallow: /account
Disallow: /consent/
Disallow: /connections
Disallow: /agents
Disallow: /approvals
Disallow: /approve/
Disallow: /deliveries
Disallow: /authorize
`

// asset is a picture that other sites show, such as the icon in a list of servers.
func asset(mediaType, name string) *public.Document {
	content, err := static.ReadFile(name)
	if err != nil {
		panic(err) // what is embedded above is there
	}
	return public.New(mediaType, content)
}

func (s *Server) serveDocument(w http.ResponseWriter, r *http.Request) {
	slug := r.PathValue("slug")
	if picture, found := docs.Picture(slug); found {
		public.New("image/svg+xml", picture).ServeHTTP(w, r)
		return
	}
	bare, named := strings.CutSuffix(strings.TrimSuffix(slug, "/"), ".md") // people write addresses by hand
	if bare == "index" {
		bare = ""
	}
	d, found := s.documents[bare]
	wantsHTML := !named && !prefersMarkdown(r.Header.Values("Accept"))
	w.Header().Add("Vary", "Accept")
	switch {
	case !found && wantsHTML && strings.Contains(r.Header.Get("Accept"), "text/html"):
		status, title := headline(domain.NotFound)
		s.pages.showFault(w, r, s.who(r), status, fault{Title: title, Message: "There is no such page.", Action: &link{Name: "See all pages", Path: "/docs"}})
	case !found:
		public.NotFound(w, r, "There is no such page; /docs.md lists those there are.")
	case wantsHTML:
		guard(w.Header(), page{})
		d.html.ServeHTTP(w, r)
	default:
		d.markdown.ServeHTTP(w, r)
	}
}

// prefersMarkdown says whether a client likes Markdown at least as well as HTML
// (RFC 9110 §12.5.1). Ranges such as */* count for HTML.
func prefersMarkdown(accept []string) bool {
	markdown, html := 0.0, 0.0
	for entry := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		kind, params, _ := strings.Cut(entry, ";")
		weight := 1.0
		if _, q, found := strings.Cut(strings.ReplaceAll(params, " ", ""), "q="); found {
			var err error
			if weight, err = strconv.ParseFloat(q, 64); err != nil {
				continue
			}
		}
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "text/markdown":
			markdown = max(markdown, weight)
		case "text/html", "application/xhtml+xml":
			html = max(html, weight)
		}
	}
	return markdown > 0 && markdown >= html
}

// drawn is a page as its template shows it.
type drawn struct {
	Text     template.HTML
	Markdown string // its address as Markdown
	Others   []link // the pages for everyone
	Inside   []link // its own headings of the second level, where there are several
}

// draw renders a page in the layout of those that nobody has to sign in for.
func (s *Server) draw(book *docs.Book, p docs.Page) (*public.Document, error) {
	text, err := toHTML(p.Text(s.cfg.Origin))
	if err != nil {
		return nil, err
	}
	body := drawn{Text: text, Markdown: "/docs/" + p.Slug + ".md", Others: contents(book, p)}
	for _, section := range p.Sections() {
		if section.Second() {
			body.Inside = append(body.Inside, link{Name: strings.ReplaceAll(section.Title, "`", ""), Path: "#" + section.Anchor})
		}
	}
	var b bytes.Buffer
	pg := page{Name: "document", Title: p.Title, Class: "reading", Path: "/docs/" + p.Slug, Public: true, Docs: true, Body: body}
	if err := s.pages.byName[pg.Name].ExecuteTemplate(&b, "layout", pg); err != nil {
		return nil, err
	}
	return public.New("text/html; charset=utf-8", b.Bytes()), nil
}

// contents are the pages that a reader of one can go on to.
func contents(book *docs.Book, reading docs.Page) []link {
	all := []link{{Name: "All pages", Path: "/docs", Here: reading.Slug == "index"}}
	for _, p := range book.Pages {
		if !p.Engineers && !p.Part {
			here := p.Slug == reading.Slug || reading.Part && path.Dir(reading.Slug) == p.Slug
			all = append(all, link{Name: p.Title, Path: "/docs/" + p.Slug, Here: here})
		}
	}
	return all
}

// toHTML draws Markdown. HTML in it is left out, and headings get the ids that links
// name. What may be wider than the page can be scrolled, by keyboard too.
func toHTML(markdown string) (template.HTML, error) {
	md := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(
		parser.WithAutoHeadingID(), parser.WithASTTransformers(util.Prioritized(tables{}, 1000)),
	))
	var b strings.Builder
	if err := md.Convert([]byte(markdown), &b, parser.WithContext(parser.NewContext(parser.WithIDs(&ids{})))); err != nil {
		return "", err
	}
	return template.HTML(strings.NewReplacer( //nolint:gosec // text of our own, escaped by the renderer
		`<table role="table">`, `<div class="scroll" role="group" aria-label="Table" tabindex="0"><table role="table">`,
		"</table>", "</table></div>",
		"<th></th>", "<td></td>", // a heading that says nothing is none
		"<pre>", `<pre tabindex="0">`,
	).Replace(b.String())), nil
}

// ids names headings as the rest of the program does.
type ids struct{ anchors docs.Anchors }

// Generate implements [parser.IDs].
func (i *ids) Generate(heading []byte, _ ast.NodeKind) []byte {
	return []byte(i.anchors.Next(string(heading)))
}

// Put implements [parser.IDs].
func (*ids) Put([]byte) {}
