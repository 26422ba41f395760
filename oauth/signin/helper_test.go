package signin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/eventstore/eventstoretest"
)

const origin = "http://127.0.0.1:8080"

// A house is one deployment with its clock.
type house struct {
	*Service

	store *eventstore.Store
	mu    sync.Mutex
	ahead time.Duration // of the real clock
}

func (h *house) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.ahead)
}

// wait lets time pass.
func (h *house) wait(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead += d
}

func newHouse(t *testing.T, providers ...Provider) *house {
	t.Helper()
	h := &house{store: newStore(t)}
	h.Service = h.replica(t, providers...)
	return h
}

// replica returns a further service on the same database.
func (h *house) replica(t *testing.T, providers ...Provider) *Service {
	t.Helper()
	s, err := New(Config{
		DB: h.store.Pool, Store: h.store, Origin: origin, Providers: providers, Wallets: true, ChainID: 10143,
		ClientIP: func(r *http.Request) string { return r.RemoteAddr }, Now: h.now, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newStore(t *testing.T) *eventstore.Store {
	t.Helper()
	db, ns := eventstoretest.NewDB(t), eventstoretest.NewNATS(t)
	conn, err := nats.Connect(ns.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	wake, err := eventstore.NewWake(conn, "test")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	store := eventstore.Open(eventstore.Config{
		URL: db.URL, Pool: pool, Wake: wake, Log: slog.New(slog.DiscardHandler), Categories: domain.Categories,
		Wrapping: eventstore.Wrapping{
			Wrap:   func(_ string, key []byte) []byte { return key },
			Unwrap: func(_ string, wrapped []byte) ([]byte, error) { return wrapped, nil },
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- store.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		wake.Close()
		pool.Close()
		conn.Close()
	})
	return store
}

// A visitor is a browser with its cookies.
type visitor struct {
	cookies map[string]string
}

func newVisitor() *visitor { return &visitor{map[string]string{}} }

// request returns a request of the visitor's and what takes the answer.
func (v *visitor) request(target string) (*httptest.ResponseRecorder, *http.Request) {
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	for name, value := range v.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	return httptest.NewRecorder(), r
}

// keep takes the cookies of an answer.
func (v *visitor) keep(w *httptest.ResponseRecorder) {
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(v.cookies, c.Name)
			continue
		}
		v.cookies[c.Name] = c.Value
	}
}

// begin begins a sign-in and returns where the visitor is sent.
func (v *visitor) begin(t *testing.T, s *Service, provider, returnTo string, link *Session) *url.URL {
	t.Helper()
	w, r := v.request("/sign-in")
	location, err := s.Begin(w, r, provider, returnTo, link)
	if err != nil {
		t.Fatal(err)
	}
	v.keep(w)
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// finish comes back from a provider with a query.
func (v *visitor) finish(s *Service, provider string, answer url.Values) (string, error) {
	w, r := v.request(callbackPath + provider + "?" + answer.Encode())
	returnTo, err := s.Finish(w, r, provider)
	v.keep(w)
	return returnTo, err
}

func (v *visitor) session(t *testing.T, s *Service) (Session, bool) {
	t.Helper()
	_, r := v.request("/")
	current, signedIn, err := s.Current(r)
	if err != nil {
		t.Fatal(err)
	}
	return current, signedIn
}

// A forger is a provider that says whatever a test wants.
type forger struct {
	url    string
	key    *ecdsa.PrivateKey
	discov map[string]any // what its discovery document says beside the usual

	mu       sync.Mutex
	claims   map[string]any
	userinfo map[string]any
	away     bool
}

const forgedClient = "client-1"

func newForger(t *testing.T) *forger {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f := &forger{key: key, discov: map[string]any{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

func (f *forger) provider(id string) Provider {
	return Provider{ID: id, Name: "Forger", Issuer: f.url, ClientID: forgedClient}
}

func (f *forger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		doc := map[string]any{
			"issuer": f.url, "authorization_endpoint": f.url + "/authorize", "token_endpoint": f.url + "/token",
			"jwks_uri": f.url + "/jwks", "id_token_signing_alg_values_supported": []string{"ES256"},
		}
		maps.Copy(doc, f.discov)
		sendJSON(w, doc)
	case "/jwks":
		sendJSON(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: f.key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
	case "/userinfo":
		sendJSON(w, f.userinfo)
	case "/token":
		sendJSON(w, map[string]any{"access_token": "at", "token_type": "Bearer", "id_token": f.sign()})
	}
}

func sendJSON(w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

func (f *forger) sign() string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: f.key}, new(jose.SignerOptions).WithHeader("kid", "1"))
	if err != nil {
		panic(err)
	}
	body, err := json.Marshal(f.claims)
	if err != nil {
		panic(err)
	}
	signed, err := signer.Sign(body)
	if err != nil {
		panic(err)
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return compact
}

// says sets the claims of the next ID token: those of an honest one for the sign-in
// at an address, and changes.
func (f *forger) says(at *url.URL, changes map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claims = map[string]any{
		"iss": f.url, "aud": forgedClient, "sub": "olga", "nonce": at.Query().Get("nonce"), "name": "Olga",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
	}
	maps.Copy(f.claims, changes)
}

func (f *forger) be(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

// signIn signs a visitor in as somebody.
func (f *forger) signIn(t *testing.T, s *Service, v *visitor, subject string) Session {
	t.Helper()
	at := v.begin(t, s, "forger", "/", nil)
	f.says(at, map[string]any{"sub": subject, "name": subject})
	if _, err := v.finish(s, "forger", url.Values{"state": at.Query()["state"], "code": {"c"}}); err != nil {
		t.Fatal(err)
	}
	session, signedIn := v.session(t, s)
	if !signedIn {
		t.Fatalf("%s is not signed in", subject)
	}
	return session
}

func wantRefusal(t *testing.T, err error, class domain.Class) {
	t.Helper()
	refusal, ok := errors.AsType[*domain.Error](err)
	if !ok || refusal.Class != class {
		t.Errorf("error = %v, want a refusal %s", err, class)
	}
}
