package main

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sidequest/domain"
	"sidequest/mcp"
)

// routes is every path the program answers.
func (p *process) routes() http.Handler {
	metrics := newMetrics(p)
	mux := http.NewServeMux()
	mux.Handle("/mcp", metrics.count("mcp", p.server))
	mux.Handle("/api/{tool}", metrics.count("api", &mcp.API{Server: p.server, Market: p.market}))
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		mux.HandleFunc("GET "+path, p.protectedResource)
	}
	mux.HandleFunc("GET /health", p.health)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics.registry, promhttp.HandlerOpts{}))
	p.web.Routes(mux)
	if p.devIDP != nil {
		p.devIDP.Routes(mux)
	}
	mux.HandleFunc("/", notFound)
	return mux
}

// protectedResource tells clients what a token has to be for (RFC 9728 §3). Which
// authorization servers issue such tokens comes with the first of them.
func (p *process) protectedResource(w http.ResponseWriter, _ *http.Request) {
	body, err := json.Marshal(map[string]any{
		"resource":                 p.cfg.PublicURL + "/mcp",
		"resource_name":            mcp.Title,
		"scopes_supported":         []string{domain.ScopeRead},
		"bearer_methods_supported": []string{"header"},
	})
	if err != nil {
		p.log.Error("encode the resource metadata", "error", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(append(body, '\n'))
}

// notFound answers in JSON, which every client of this server understands.
func notFound(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close") // the answer does not wait for a body nobody reads
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write([]byte(`{"ok":false,"code":"not-found","message":"There is nothing here. The MCP endpoint is /mcp."}` + "\n"))
}
