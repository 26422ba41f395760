package main

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the numbers of one process.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
}

func newMetrics(p *process) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "sidequest_http_request_duration_seconds",
			Help:    "Time to answer requests, streams included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30},
		}, []string{"route", "code"}),
	}
	m.registry.MustRegister(m.requests, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), lagCollector{p})
	for _, g := range []struct {
		name, help string
		value      func() float64
	}{
		{"sidequest_streams_open", "Event streams open now.", func() float64 { return float64(p.feeds.Stats().OpenStreams) }},
		{"sidequest_listeners_open", "Streams of subscriptions/listen open now.", func() float64 { return float64(p.server.Listening.Open()) }},
		{"sidequest_polls_waiting", "Long polls waiting now.", func() float64 { return float64(p.feeds.Stats().WaitingPolls) }},
		{"sidequest_webhook_lanes", "Webhooks being served now.", func() float64 { return float64(p.hooks.Stats().UnderWay) }},
		{"sidequest_nats_connected", "Whether NATS is connected.", func() float64 { return boolean(p.nats.IsConnected()) }},
		{"sidequest_db_connections", "Connections of the pool.", func() float64 { return float64(p.pool.Stat().TotalConns()) }},
	} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: g.name, Help: g.help}, g.value))
	}
	for _, c := range []struct {
		name, help string
		value      func() float64
	}{
		{"sidequest_frames_total", "Frames sent on event streams.", func() float64 { return float64(p.feeds.Stats().Frames) }},
		{"sidequest_webhook_delivered_total", "Events that receivers took.", func() float64 { return float64(p.hooks.Stats().Delivered) }},
		{"sidequest_webhook_failed_total", "Attempts that failed.", func() float64 { return float64(p.hooks.Stats().Failed) }},
		{"sidequest_webhook_dead_letters_total", "Events that were given up.", func() float64 { return float64(p.hooks.Stats().DeadLetters) }},
		{"sidequest_tail_misses_total", "Reads that streams behind the tail made themselves.", func() float64 { return float64(p.feeds.Stats().RingMisses) }},
	} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: c.name, Help: c.help}, c.value))
	}
	return m
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// count measures the requests of a route.
func (m *metrics) count(route string, next http.Handler) http.Handler {
	return promhttp.InstrumentHandlerDuration(m.requests.MustCurryWith(prometheus.Labels{"route": route}), next)
}

// lagCollector asks how far each consumer is behind, when someone wants to know.
type lagCollector struct{ p *process }

func lagDesc() *prometheus.Desc {
	return prometheus.NewDesc("sidequest_consumer_lag", "Positions a consumer is behind the head of the log.", []string{"consumer"}, nil)
}

// Describe implements [prometheus.Collector].
func (lagCollector) Describe(out chan<- *prometheus.Desc) { out <- lagDesc() }

// Collect implements [prometheus.Collector]. While Postgres does not answer there
// is no lag to tell.
func (c lagCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	lag, err := c.p.store.Lag(ctx, followers())
	if err != nil {
		out <- prometheus.NewInvalidMetric(lagDesc(), err)
		return
	}
	for name, behind := range lag {
		out <- prometheus.MustNewConstMetric(lagDesc(), prometheus.GaugeValue, float64(behind), name)
	}
}
