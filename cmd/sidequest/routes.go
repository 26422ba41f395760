package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sidequest/mcp"
)

// routes is every path the program answers.
func (p *process) routes() http.Handler {
	metrics := newMetrics(p)
	mux := http.NewServeMux()
	endpoint := metrics.count("mcp", p.server)
	api := metrics.count("api", &mcp.API{Server: p.server, Market: p.market})
	mux.Handle("/mcp", endpoint)
	mux.Handle("/api/{tool}", api)
	mux.Handle("/b/{slug}/mcp", p.ofBoard(endpoint))
	mux.Handle("/b/{slug}/api/{tool}", p.ofBoard(api))
	p.access.Routes(mux)
	mux.HandleFunc("GET /health", p.health)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics.registry, promhttp.HandlerOpts{}))
	p.web.Routes(mux)
	if p.devIDP != nil {
		p.devIDP.Routes(mux)
	}
	mux.HandleFunc("/", notFound)
	return tolerant(mux)
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
