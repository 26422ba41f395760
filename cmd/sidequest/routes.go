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
	mux.Handle("/mcp", metrics.count("mcp", p.server))
	mux.Handle("/api/{tool}", metrics.count("api", &mcp.API{Server: p.server, Market: p.market}))
	mux.HandleFunc("GET /health", p.health)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/", notFound)
	return mux
}

// notFound answers in JSON, which every client of this server understands.
func notFound(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write([]byte(`{"ok":false,"code":"not-found","message":"There is nothing here. The MCP endpoint is /mcp."}` + "\n"))
}
