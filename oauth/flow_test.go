package oauth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
)

// A site is the authorization server as one process serves it.
type site struct {
	*Server
	process process
	web     *httptest.Server
	log     *lines
	d       deployment
}

// lines is a log that tests read.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// sessionCookie is the cookie by which the operator of a test is signed in. Its
// value is the id of the session and that of the operator.
const sessionCookie = "session"

// serve starts a process with an authorization server. All sites of a deployment
// are one server.
func (d deployment) serve(t *testing.T, changes ...func(*Server)) *site {
	t.Helper()
	p := d.process(t)
	s := &site{process: p, log: &lines{}, d: d}
	keys, err := LoadKeys(t.Context(), d.vault)
	if err != nil {
		t.Fatal(err)
	}
	refresh, err := LoadRefreshKey(t.Context(), d.vault)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = &Server{
		Issuer: issuer, DB: p.store.Pool, Store: p.store, Keys: keys, Grants: p.followed(t), Refresh: refresh,
		Log: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Exists: func(_ context.Context, path string) (string, bool, error) {
			return "Test", path == "/mcp" || path == "/b/acme/mcp", nil
		},
		Session: func(r *http.Request) (id, operator string, err error) {
			c, err := r.Cookie(sessionCookie)
			if err != nil {
				return "", "", nil //nolint:nilerr // nobody is signed in
			}
			id, operator, _ = strings.Cut(c.Value, " ")
			return id, operator, nil
		},
		Page: func(w http.ResponseWriter, _ *http.Request, status int, e *domain.Error) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "page: "+e.Message)
		},
		Describe: func(context.Context, domain.AgentKey) (domain.AgentID, []domain.Role, error) { return "1", nil, nil },
		ClientIP: func(r *http.Request) string {
			if ip := r.Header.Get("Test-Ip"); ip != "" {
				return ip
			}
			return "192.0.2.1"
		},
	}
	for _, change := range changes {
		change(s.Server)
	}
	mux := http.NewServeMux()
	s.Routes(mux)
	s.web = httptest.NewServer(mux)
	t.Cleanup(s.web.Close)
	return s
}

// asOwner changes rows in a way the program may not, such as their age.
func (d deployment) asOwner(t *testing.T, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.db.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// A reply is what an endpoint answered.
type reply struct {
	status int
	header http.Header
	body   string
	json   map[string]any // nil if it is none
}

func (r reply) text(name string) string {
	s, _ := r.json[name].(string)
	return s
}

// send sends a request to the site and follows no redirect.
func (s *site) send(t *testing.T, req *http.Request) reply {
	t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	r := reply{status: resp.StatusCode, header: resp.Header, body: string(body)}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(body, &r.json); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (s *site) request(t *testing.T, method, path, contentType, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.web.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return req
}

func (s *site) get(t *testing.T, path string) reply {
	t.Helper()
	return s.send(t, s.request(t, http.MethodGet, path, "", ""))
}

const formType = "application/x-www-form-urlencoded"

func (s *site) post(t *testing.T, path string, form url.Values) reply {
	t.Helper()
	return s.send(t, s.request(t, http.MethodPost, path, formType, form.Encode()))
}

// register registers a client with redirect URIs and returns its id.
func (s *site) registerClient(t *testing.T, redirects ...string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"client_name": "Test client", "redirect_uris": redirects, "token_endpoint_auth_method": "none"})
	if err != nil {
		t.Fatal(err)
	}
	r := s.send(t, s.request(t, http.MethodPost, pathRegister, "application/json", string(body)))
	if r.status != http.StatusCreated {
		t.Fatalf("register: %d %s", r.status, r.body)
	}
	return r.text("client_id")
}

const (
	callback = "https://client.example/callback"
	verifier = "a-verifier-that-is-long-enough-to-be-one-of-RFC-7636"
)

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// asks returns a good authorization request, with changes; a value "" removes one.
func asks(clientID string, changes map[string]string) url.Values {
	v := url.Values{
		"client_id": {clientID}, "redirect_uri": {callback}, "response_type": {"code"}, "state": {"st&te= 1"},
		"code_challenge": {challengeOf(verifier)}, "code_challenge_method": {"S256"},
		"resource": {resource}, "scope": {domain.ScopeRead + " " + domain.ScopeHire},
	}
	for name, value := range changes {
		if value == "" {
			v.Del(name)
		} else {
			v.Set(name, value)
		}
	}
	return v
}

// A browser is an operator at a browser.
type browser struct {
	session, operator string
	cookies           map[string]string
}

func newBrowser() *browser {
	return &browser{session: "session-1", operator: string(operator), cookies: map[string]string{}}
}

// on returns a request that carries the browser's cookies.
func (b *browser) on(t *testing.T) *http.Request {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	b.carry(req)
	return req
}

func (b *browser) carry(req *http.Request) {
	if b.session != "" {
		req.AddCookie(&http.Cookie{Name: sessionCookie, Value: b.session + " " + b.operator})
	}
	for name, value := range b.cookies {
		req.AddCookie(&http.Cookie{Name: name, Value: value})
	}
}

// ask sends the browser to the authorization endpoint.
func (b *browser) ask(t *testing.T, s *site, params url.Values) reply {
	t.Helper()
	req := s.request(t, http.MethodGet, pathAuthorize+"?"+params.Encode(), "", "")
	b.carry(req)
	r := s.send(t, req)
	for _, c := range (&http.Response{Header: r.header}).Cookies() {
		b.cookies[c.Name] = c.Value
	}
	return r
}

// pending asks and returns the id of the request that waits then.
func (b *browser) pending(t *testing.T, s *site, params url.Values) string {
	t.Helper()
	r := b.ask(t, s, params)
	id, found := strings.CutPrefix(r.header.Get("Location"), ConsentPath)
	if r.status != http.StatusSeeOther || !found {
		t.Fatalf("authorize: %d, Location %q, %s", r.status, r.header.Get("Location"), r.body)
	}
	return id
}

func bound(scopes ...string) Decision {
	return Decision{Operator: string(operator), AgentKey: alice, Scopes: scopes}
}

// allow views the request and allows it, and returns the parameters of the answer.
func (b *browser) allow(t *testing.T, s *site, id string, d Decision) (answer url.Values, grantID string) {
	t.Helper()
	if _, err := s.Pending(t.Context(), b.on(t), id); err != nil {
		t.Fatal(err)
	}
	location, grantID, err := s.Allow(t.Context(), b.on(t), id, d)
	if err != nil {
		t.Fatal(err)
	}
	return parametersOf(t, location), grantID
}

func parametersOf(t *testing.T, location string) url.Values {
	t.Helper()
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}

// code goes through authorization and returns a code and its grant.
func (s *site) code(t *testing.T, clientID string, d Decision) (code, grantID string) {
	t.Helper()
	b := newBrowser()
	answer, grantID := b.allow(t, s, b.pending(t, s, asks(clientID, nil)), d)
	if answer.Get("code") == "" {
		t.Fatalf("no code: %v", answer)
	}
	return answer.Get("code"), grantID
}

// codeForm returns a good request for tokens, with changes; a value "" removes one.
func codeForm(clientID, code string, changes map[string]string) url.Values {
	v := url.Values{
		"grant_type": {"authorization_code"}, "client_id": {clientID}, "code": {code},
		"redirect_uri": {callback}, "code_verifier": {verifier}, "resource": {resource},
	}
	for name, value := range changes {
		if value == "" {
			v.Del(name)
		} else {
			v.Set(name, value)
		}
	}
	return v
}

// A login is a client that has tokens.
type login struct {
	client, grant, access, refresh string
}

// logIn goes all the way.
func (s *site) logIn(t *testing.T, scopes ...string) login {
	t.Helper()
	clientID := s.registerClient(t, callback)
	code, grant := s.code(t, clientID, bound(scopes...))
	r := s.post(t, pathToken, codeForm(clientID, code, nil))
	if r.status != http.StatusOK {
		t.Fatalf("token: %d %s", r.status, r.body)
	}
	return login{clientID, grant, r.text("access_token"), r.text("refresh_token")}
}

func (s *site) refreshed(t *testing.T, clientID, refresh string, changes map[string]string) reply {
	t.Helper()
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {clientID}, "refresh_token": {refresh}}
	for name, value := range maps.All(changes) {
		form.Set(name, value)
	}
	return s.post(t, pathToken, form)
}

// verify presents an access token at the resource.
func (s *site) verify(t *testing.T, access string) (Principal, error) {
	t.Helper()
	return NewVerifier(s.Keys, issuer, s.Grants).Verify(t.Context(), access, resource)
}

// wantError checks the answer of an endpoint that refused.
func wantError(t *testing.T, r reply, status int, code string) {
	t.Helper()
	if r.status != status || r.text("error") != code {
		t.Errorf("answer = %d %s, want %d %s", r.status, strings.TrimSpace(r.body), status, code)
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if e, ok := errors.AsType[*domain.Error](err); !ok || e.Code != code {
		t.Errorf("error = %v, want a refusal %s", err, code)
	}
}
