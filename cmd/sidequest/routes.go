package main

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sidequest/mcp"
	"sidequest/public"
	"sidequest/webhook"
)

// routes is every path the program answers.
func (p *process) routes() (http.Handler, error) {
	metrics := newMetrics(p)
	mux := http.NewServeMux()
	endpoint := p.unlessBrowser(metrics.count("mcp", p.server))
	rest := &mcp.API{Server: p.server, Market: p.market}
	api := metrics.count("api", rest)
	mux.Handle("/mcp", endpoint)
	mux.Handle("/api/{tool}", api)
	mux.Handle("/b/{slug}/mcp", p.ofBoard(endpoint, p.server.Fail))
	mux.Handle("/b/{slug}/api/{tool}", p.ofBoard(api, rest.Fail))
	p.access.Routes(mux)
	mux.Handle("GET "+webhook.JWKSPath, p.hooks.Signer)
	mux.Handle("/health", public.Reading(http.HandlerFunc(p.health)))
	mux.Handle("/metrics", public.Reading(promhttp.HandlerFor(metrics.registry, promhttp.HandlerOpts{})))
	p.web.Routes(mux)
	if err := p.discovery().Routes(mux); err != nil {
		return nil, err
	}
	if p.devIDP != nil {
		p.devIDP.Routes(mux)
	}
	mux.HandleFunc("/", notFound)
	return legible(tolerant(p.knownHosts(mux))), nil
}

// unlessBrowser shows a page to people who open an endpoint, and leaves everything
// else to it.
func (p *process) unlessBrowser(endpoint http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accept := r.Header.Get("Accept")
		person := r.Method == http.MethodGet && strings.Contains(accept, "text/html") && !strings.Contains(accept, "text/event-stream")
		if person && mcp.ServesHost(p.cfg.PublicURL, r) {
			p.web.Endpoint(w, r)
			return
		}
		endpoint.ServeHTTP(w, r)
	})
}

// notFound answers in JSON, which every client of this server understands.
func notFound(w http.ResponseWriter, r *http.Request) {
	public.NotFound(w, r, "There is nothing here. The MCP endpoint is /mcp; /llms.txt says what else there is.")
}

// legible answers paths that are no text, as %00 and %ff make them: nothing has such
// a name, and what is behind need not think of it.
func legible(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := r.URL.Path; utf8.ValidString(path) && !strings.ContainsRune(path, 0) {
			next.ServeHTTP(w, r)
			return
		}
		notFound(w, r)
	})
}

// discovery tells anyone what this deployment is.
func (p *process) discovery() *mcp.Discovery {
	return &mcp.Discovery{
		Origin: p.cfg.PublicURL, Repository: p.cfg.Repository, Proof: p.cfg.RegistryProof,
		Tools: p.market.Tools, Book: p.docs.Book, Log: p.log, Exists: p.resourceExists,
	}
}

// knownHosts lets requests through that name a host which is served. The endpoints
// of MCP look for themselves: they refuse in the form their clients understand.
func (p *process) knownHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		endpoint := strings.HasSuffix(r.URL.Path, "/mcp") && boardEndpoint.MatchString(r.URL.Path)
		if endpoint || mcp.ServesHost(p.cfg.PublicURL, r) {
			next.ServeHTTP(w, r)
			return
		}
		public.Forbidden(w, r, "This host is not served here.")
	})
}
