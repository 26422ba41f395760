package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"sidequest/mcp"
)

func TestWritesAreCountedOverAllReplicasAndRepeatsAreFree(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	few := func(c *config) { c.Limits.PerAgent = 3 }
	replicas := []*replica{m.start(t, few), m.start(t, few)}
	cast := m.join(t, 1, "ann", "bob")
	for i := range 3 {
		cast[0].at(replicas[i%2].origin).must(t, "request_quotes", requestArgs(fmt.Sprintf("r%d", i)))
	}
	for _, r := range replicas {
		ann := cast[0].at(r.origin)
		for i := range 3 {
			ann.must(t, "request_quotes", requestArgs(fmt.Sprintf("r%d", i)))
		}
		status, refused := ann.rest(t, "request_quotes", requestArgs("one-too-many"))
		if status != http.StatusTooManyRequests || refused.Code != "rate-limited" || refused.RetryAfter < 1 || refused.RetryAfter > 60 {
			t.Errorf("the fourth write: status %d, %s", status, refused.raw)
		}
		legacy := ann
		legacy.version = mcp.V20251125
		if again, err := legacy.call(t.Context(), "request_quotes", requestArgs("one-too-many")); err != nil || again.Code != "rate-limited" {
			t.Errorf("the fourth write by another way: %v, %s", err, again.raw)
		}
		ann.must(t, "list_quote_requests", nil)
	}
	cast[1].at(replicas[0].origin).must(t, "request_quotes", requestArgs("bobs"))
	if n := m.count(t, "request.opened"); n != 4 {
		t.Errorf("%d requests were opened, want three of ann's and one of bob's", n)
	}
}

func TestOnlyTrustedProxiesSayWhoTheClientIs(t *testing.T) {
	t.Parallel()
	p := &process{cfg: config{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}}
	for _, tt := range []struct {
		tells     string
		peer      string
		forwarded []string
		want      string
	}{
		{"a client without a proxy", "203.0.113.7:1234", nil, "203.0.113.7"},
		{"a client that claims to be another", "203.0.113.7:1234", []string{"198.51.100.1"}, "203.0.113.7"},
		{"a client behind a proxy", "10.0.0.1:1234", []string{"203.0.113.7"}, "203.0.113.7"},
		{"a client behind two proxies", "10.0.0.1:1234", []string{"203.0.113.7, 10.0.0.2"}, "203.0.113.7"},
		{"the same in two headers", "10.0.0.1:1234", []string{"203.0.113.7", "10.0.0.2"}, "203.0.113.7"},
		{"a client behind a proxy that claims to be another", "10.0.0.1:1234", []string{"198.51.100.1, 203.0.113.7"}, "203.0.113.7"},
		{"a proxy that says nothing", "10.0.0.1:1234", nil, "10.0.0.1"},
		{"a proxy that says nonsense", "10.0.0.1:1234", []string{"unknown"}, "10.0.0.1"},
		{"nonsense in front of a client", "10.0.0.1:1234", []string{"unknown, 203.0.113.7"}, "203.0.113.7"},
		{"a proxy with an address of either family", "[::ffff:10.0.0.1]:1234", []string{"2001:db8::7"}, "2001:db8::7"},
		{"a proxy by version 6", "[fd00::1]:1234", []string{"::ffff:203.0.113.7"}, "203.0.113.7"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody)
		r.RemoteAddr = tt.peer
		r.Header["X-Forwarded-For"] = tt.forwarded
		if got := p.clientIP(r); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.tells, got, tt.want)
		}
	}
}
