package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sidequest/mcp/conformancetest"
)

// injecting returns the origin of a proxy that adds a token to what passes, and
// nothing else: the conformance suite has no way to send one.
func injecting(t testing.TB, origin, token string) string {
	t.Helper()
	target, err := url.Parse(origin)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // the server is to judge it
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
	})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// fixtureChecks are those of the scenarios below that call a tool of the suite's
// own, which this server does not have.
var fixtureChecks = []string{
	"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400",
	"sep-2575-http-server-no-independent-requests-on-stream", "sep-2575-server-no-log-without-loglevel",
}

func TestTheRealServerPassesTheConformanceSuiteWhereItNeedsNoFixtures(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	one := m.start(t)
	ann := m.join(t, 1, "ann")[0]
	suite := conformancetest.Suite{Modules: "../../interop/node_modules", URL: injecting(t, one.origin, ann.tokens[0]) + "/mcp"}
	for _, scenario := range []string{
		"server-stateless", "tools-list", "caching", "http-header-validation", "dns-rebinding-protection", "server-sse-multiple-streams",
		"resources-list", "sep-2164-resource-not-found", "prompts-list", "input-required-result-unsupported-methods",
		"sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest",
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			passes(t, suite, scenario, "--spec-version", "2026-07-28", "--force")
		})
	}
	for _, scenario := range []string{"server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection"} {
		t.Run("legacy "+scenario, func(t *testing.T) {
			t.Parallel()
			passes(t, suite, scenario, "--spec-version", "2025-11-25")
		})
	}
}

func passes(t *testing.T, suite conformancetest.Suite, scenario string, options ...string) {
	t.Helper()
	results, _, err := suite.Run(t.Context(), append([]string{"--scenario", scenario}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Passed == 0 {
			t.Errorf("%s checks nothing", r.Name)
		}
		for _, fault := range r.Faults {
			if !slices.ContainsFunc(fixtureChecks, func(id string) bool { return strings.Contains(fault, " "+id+":") }) {
				t.Error(fault)
			}
		}
	}
}

func TestTheProxyOfTheSuiteAddsTheTokenAlone(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	one := m.start(t)
	ann := m.join(t, 1, "ann")[0]
	for origin, want := range map[string]int{one.origin: http.StatusUnauthorized, injecting(t, one.origin, ann.tokens[0]): http.StatusAccepted} {
		status, _ := fetch(t, http.MethodPost, origin+"/mcp", `{"jsonrpc":"2.0","method":"notifications/x"}`, "")
		if status != want {
			t.Errorf("%s answers %d, want %d", origin, status, want)
		}
	}
}
