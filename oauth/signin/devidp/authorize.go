package devidp

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A request is what a client asked for, and who was chosen.
type request struct {
	Challenge string `json:"challenge"`
	Nonce     string `json:"nonce"`
	State     string `json:"-"`
	Subject   string `json:"subject"`
}

// read returns the request, or what is wrong with it. Nothing is ever sent to
// another redirect URI than the one.
func (p *Provider) read(q url.Values) (request, string) {
	switch {
	case q.Get("client_id") != ClientID || q.Get("redirect_uri") != p.cfg.RedirectURI:
		return request{}, "This is not the client or the address this page signs in for."
	case q.Get("response_type") != "code" || !slices.Contains(strings.Fields(q.Get("scope")), "openid"):
		return request{}, "The client asked for something else than a sign-in by code."
	case q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43:
		return request{}, "The client did not prove itself as PKCE by S256 wants it."
	}
	return request{Challenge: q.Get("code_challenge"), Nonce: q.Get("nonce"), State: q.Get("state")}, ""
}

// choose shows the people.
func (p *Provider) choose(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	_, wrong := p.read(q)
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; font-src 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/html; charset=utf-8")
	if wrong != "" {
		w.WriteHeader(http.StatusBadRequest)
	}
	err := chooser.Execute(w, map[string]any{"Wrong": wrong, "People": People(), "Query": q})
	if err != nil {
		p.cfg.Log.DebugContext(r.Context(), "the reader of a page went away", "error", err)
	}
}

// chosen sends the browser back with a code.
func (p *Provider) chosen(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "The form cannot be read.", http.StatusBadRequest)
		return
	}
	req, wrong := p.read(r.PostForm)
	req.Subject = r.PostForm.Get("person")
	if _, found := person(req.Subject); wrong != "" || !found {
		http.Error(w, "This form is not the one this page made.", http.StatusBadRequest)
		return
	}
	body, err := json.Marshal(req)
	if err != nil {
		p.fail(w, "encode a development sign-in", err)
		return
	}
	code := rand.Text()
	_, err = p.cfg.DB.Exec(r.Context(), `
		INSERT INTO signin.development_codes (code_hash, request, expires_at)
		VALUES ($1, $2, $3)`, digest(code), body, p.cfg.Now().Add(codeLife))
	if err != nil {
		p.fail(w, "keep the code of a development sign-in", err)
		return
	}
	answer := url.Values{"code": {code}, "state": {req.State}, "iss": {p.Issuer()}}
	http.Redirect(w, r, p.cfg.RedirectURI+"?"+answer.Encode(), http.StatusSeeOther)
}

func person(subject string) (Person, bool) {
	for _, who := range People() {
		if who.Subject == subject {
			return who, true
		}
	}
	return Person{}, false
}

func digest(code string) []byte {
	sum := sha256.Sum256([]byte(code))
	return sum[:]
}

var chooser = template.Must(template.New("choose").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Who are you? · Development sign-in</title>
<link rel="stylesheet" href="/style.css">
</head>
<body>
<main id="main">
<div class="card">
{{- if .Wrong}}
<h1>This sign-in cannot go on</h1>
<p>{{.Wrong}}</p>
{{- else}}
<h1>Who are you today?</h1>
<p class="notice warn"><strong>Development only.</strong> This page stands in for a sign-in provider on this machine. It asks for no password and exists nowhere else.</p>
<form method="post" action="/dev-idp/authorize">
{{- range $name, $values := .Query}}{{range $values}}
<input type="hidden" name="{{$name}}" value="{{.}}">
{{- end}}{{end}}
<div class="stack">
{{- range .People}}
<button type="submit" name="person" value="{{.Subject}}">{{.Name}} <span class="note">{{.About}}</span></button>
{{- end}}
</div>
</form>
{{- end}}
</div>
</main>
</body>
</html>
`))
