package main

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
)

const registryProof = "v=MCPv1; k=ed25519; p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

// openBooks starts a replica that has everything to show: a source, a proof, and a
// board that is private.
func openBooks(t *testing.T) (*market, *replica) {
	t.Helper()
	m := openMarket(t)
	r := m.start(t, func(c *config) {
		c.Repository, c.RegistryProof = "https://github.com/example/sidequest", registryProof
	})
	m.board(t, r, domain.Board{Slug: "acme", Name: "Acme", Private: true})
	return m, r
}

// A reply is what came back for a request.
type reply struct {
	status int
	header http.Header
	body   string
}

// ask sends a request without a body; headers are in pairs. A redirect is a reply
// like any other.
func ask(t testing.TB, method, url string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for pair := range slices.Chunk(headers, 2) {
		if req.Header.Set(pair[0], pair[1]); pair[0] == "Host" {
			req.Host = pair[1]
		}
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(body)}
}

// refusedAs checks that a reply is a refusal in the form that all clients know.
func (r reply) refusedAs(t testing.TB, what string, status int, code string) {
	t.Helper()
	var a answer
	if err := json.Unmarshal([]byte(r.body), &a); err != nil || r.status != status || a.OK || a.Code != code || a.Message == "" {
		t.Errorf("%s: %d %s, want %d %s", what, r.status, r.body, status, code)
	}
	if kind := r.header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("%s: a refusal is %s", what, kind)
	}
}

// decode reads a body that is JSON.
func decode[T any](t testing.TB, r reply) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &v); err != nil || r.status != http.StatusOK {
		t.Fatalf("%d, %v: %s", r.status, err, r.body)
	}
	return v
}

// documents are all that anyone may read, with their types.
func documents() map[string]string {
	const card, markdown, html = "application/mcp-server-card+json", "text/markdown; charset=utf-8", "text/html; charset=utf-8"
	return map[string]string{
		"/mcp/server-card":               card,
		"/MCP/server-card/":              card,
		"/b/acme/mcp/server-card":        card,
		"/.well-known/ai-catalog.json":   "application/ai-catalog+json",
		"/.well-known/mcp-registry-auth": "text/plain; charset=utf-8",
		"/server.json":                   "application/json",
		"/openapi.json":                  "application/json",
		"/llms.txt":                      "text/plain; charset=utf-8",
		"/start.md":                      markdown,
		"/docs":                          html,
		"/docs/":                         html,
		"/docs.md":                       markdown,
		"/docs/index.md":                 markdown,
		"/docs/connect":                  html,
		"/docs/connect/":                 html,
		"/docs/connect.md":               markdown,
		"/docs/errors/over-budget":       html,
		"/docs/errors/over-budget.md":    markdown,
		"/docs/adr/0001-one-log-under-one-head-row": html,
		"/docs/performance/append-writers-p99.svg":  "image/svg+xml",
		"/icon.svg":    "image/svg+xml",
		"/icon.png":    "image/png",
		"/favicon.ico": "image/png",
		"/robots.txt":  "text/plain; charset=utf-8",
	}
}

func TestEveryPublicDocumentCanBeReadFromAnywhereAndKeptForAnHour(t *testing.T) {
	t.Parallel()
	_, r := openBooks(t)
	for path, mediaType := range documents() {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			url := r.origin + path
			got := ask(t, http.MethodGet, url, "Origin", "https://elsewhere.example", "Authorization", "Bearer nonsense")
			want := map[string]string{
				"Content-Type": mediaType, "Cache-Control": "public, max-age=3600", "X-Content-Type-Options": "nosniff",
				"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "ETag", "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS",
			}
			for name, value := range want {
				if got.header.Get(name) != value {
					t.Errorf("%s is %q, want %q", name, got.header.Get(name), value)
				}
			}
			tag := got.header.Get("ETag")
			if got.status != http.StatusOK || got.body == "" || tag == "" {
				t.Fatalf("%d, %d bytes, tag %q", got.status, len(got.body), tag)
			}
			head := ask(t, http.MethodHead, url)
			if head.status != http.StatusOK || head.body != "" || head.header.Get("ETag") != tag || head.header.Get("Content-Type") != mediaType {
				t.Errorf("HEAD: %d %v", head.status, head.header)
			}
			for _, known := range []string{tag, `"other", W/` + tag, "*"} {
				same := ask(t, http.MethodGet, url, "If-None-Match", known)
				if same.status != http.StatusNotModified || same.body != "" || same.header.Get("ETag") != tag || same.header.Get("Access-Control-Allow-Origin") != "*" {
					t.Errorf("whoever has %s gets %d %v", known, same.status, same.header)
				}
			}
			if other := ask(t, http.MethodGet, url, "If-None-Match", `"other"`); other.status != http.StatusOK || other.body != got.body {
				t.Errorf("whoever has another gets %d", other.status)
			}
			pre := ask(t, http.MethodOptions, url, "Origin", "https://elsewhere.example", "Access-Control-Request-Method", "GET")
			if pre.status != http.StatusNoContent || pre.header.Get("Allow") != "GET, HEAD, OPTIONS" ||
				!strings.Contains(pre.header.Get("Access-Control-Allow-Headers"), "If-None-Match") {
				t.Errorf("OPTIONS: %d %v", pre.status, pre.header)
			}
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
				refused := ask(t, method, url)
				refused.refusedAs(t, method, http.StatusMethodNotAllowed, "invalid")
				if refused.header.Get("Allow") != "GET, HEAD, OPTIONS" {
					t.Errorf("%s: allowed are %q", method, refused.header.Get("Allow"))
				}
			}
		})
	}
}

func TestADeploymentOnLoopbackShowsNothingToAForeignHost(t *testing.T) {
	t.Parallel()
	_, r := openBooks(t)
	for _, path := range slices.Concat(slices.Collect(maps.Keys(documents())), []string{"/health", "/metrics", "/", "/sign-in", "/nothing"}) {
		ask(t, http.MethodGet, r.origin+path, "Host", "rebound.example").refusedAs(t, path, http.StatusForbidden, "forbidden")
	}
	for _, host := range []string{"localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080", "LOCALHOST."} {
		if got := ask(t, http.MethodGet, r.origin+"/llms.txt", "Host", host); got.status != http.StatusOK {
			t.Errorf("%s is not served: %d %s", host, got.status, got.body)
		}
	}
}

func TestADocumentThatIsNotThereIsMissingForEveryPage(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	for _, path := range []string{
		"/b/nowhere/mcp/server-card", "/b/main/mcp/server-card", "/b/NOWHERE/mcp/server-card", "/mcp/server-card/more",
		"/.well-known/mcp-registry-auth", // no proof is configured
		"/.well-known/mcp", "/docs/nothing", "/docs/nothing.md", "/docs/errors/nothing", "/docs/docs.go", "/docs/..%2fREADME", "/docs/skills/worker/SKILL.md",
		"/docs/start.md.md", "/start", "/openapi.yaml",
	} {
		got := ask(t, http.MethodGet, r.origin+path)
		got.refusedAs(t, path, http.StatusNotFound, "not-found")
		if got.header.Get("Access-Control-Allow-Origin") != "*" || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, got.header)
		}
	}
	people := ask(t, http.MethodGet, r.origin+"/docs/nothing", "Accept", "text/html,*/*;q=0.8")
	if people.status != http.StatusNotFound || !strings.Contains(people.body, "<h1") || !strings.Contains(people.body, `href="/docs">See all pages`) {
		t.Errorf("a person is shown %d %s", people.status, people.body)
	}
}

func TestAPageIsWrittenInTheFormThatIsAskedFor(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	const markdown, html = "text/markdown; charset=utf-8", "text/html; charset=utf-8"
	for accept, want := range map[string]string{
		"*/*":                                  html,
		"text/html, */*":                       html,
		"text/markdown":                        markdown,
		"Text/Markdown; q=0.9":                 markdown,
		"text/markdown, text/html":             markdown,
		"text/markdown;q=0.5,text/html":        html,
		"text/markdown;q=0":                    html,
		"text/markdown;q=nonsense":             html,
		"text/plain, text/markdown, */*;q=0.1": markdown,
	} {
		got := ask(t, http.MethodGet, r.origin+"/docs/events", "Accept", accept)
		if got.status != http.StatusOK || got.header.Get("Content-Type") != want || !slices.Contains(got.header.Values("Vary"), "Accept") {
			t.Errorf("Accept: %s is answered %d %v", accept, got.status, got.header)
		}
	}
	named, asked := ask(t, http.MethodGet, r.origin+"/docs/events.md"), ask(t, http.MethodGet, r.origin+"/docs/events", "Accept", "text/markdown")
	if named.body != asked.body || !strings.HasPrefix(named.body, "# Events\n") {
		t.Errorf("the two ways to the Markdown differ:\n%s", cmp.Diff(named.body, asked.body))
	}
	if start := ask(t, http.MethodGet, r.origin+"/start.md"); start.body != ask(t, http.MethodGet, r.origin+"/docs/start.md").body {
		t.Error("/start.md is another text than the page")
	}
	drawn := ask(t, http.MethodGet, r.origin+"/docs/events", "Accept", "text/html")
	for _, want := range []string{`<html lang="en">`, "<h1 id=\"events\">Events</h1>", `<h2 id="where-to-begin">`, `<link rel="alternate" type="text/markdown" href="/docs/events.md">`} {
		if !strings.Contains(drawn.body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if policy := drawn.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(drawn.body, "<script") {
		t.Errorf("the page may run scripts: %s", policy)
	}
}
