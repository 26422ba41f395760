package devidp

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/oauth2"

	"sidequest/eventstore/eventstoretest"
	"sidequest/secret"
)

const callback = "http://127.0.0.1/sign-in/callback/dev"

// serve runs a provider and returns it with a client of an independent library.
func serve(t *testing.T) (*Provider, *oidc.Provider, oauth2.Config) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), eventstoretest.NewDB(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	keys, err := secret.LoadOrCreate(filepath.Join(t.TempDir(), "kek.json"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p, err := New(t.Context(), Config{
		Origin: server.URL, RedirectURI: callback, DB: pool, Vault: secret.Vault{Pool: pool, Keys: keys}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Routes(mux)
	found, err := oidc.NewProvider(t.Context(), p.Issuer())
	if err != nil {
		t.Fatal(err)
	}
	endpoint := found.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInParams
	return p, found, oauth2.Config{ClientID: ClientID, RedirectURL: callback, Endpoint: endpoint, Scopes: []string{"openid"}}
}

// choose clicks on a person, and returns where that leads.
func choose(t *testing.T, at, person string) (status int, back *url.URL) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	form := u.Query()
	form.Set("person", person)
	u.RawQuery = ""
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.PostForm(u.String(), form)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	back, err = url.Parse(answer.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, back
}

func TestAReadyMadePersonSignsInOverAnIndependentLibrary(t *testing.T) {
	t.Parallel()
	p, found, client := serve(t)
	verifier := oauth2.GenerateVerifier()
	at := client.AuthCodeURL("s1", oidc.Nonce("n1"), oauth2.S256ChallengeOption(verifier))
	page, err := http.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	page.Body.Close()
	if page.StatusCode != http.StatusOK || page.Header.Get("X-Frame-Options") != "DENY" {
		t.Errorf("the page is answered %s", page.Status)
	}
	status, back := choose(t, at, "ada")
	if status != http.StatusSeeOther {
		t.Fatalf("the choice is answered %d", status)
	}
	if q := back.Query(); !strings.HasPrefix(back.String(), callback+"?") || q.Get("state") != "s1" || q.Get("iss") != p.Issuer() {
		t.Errorf("the browser is sent to %s", back)
	}
	code := back.Query().Get("code")
	token, err := client.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := found.Verifier(&oidc.Config{ClientID: ClientID}).Verify(t.Context(), raw)
	if err != nil || id.Subject != "ada" || id.Nonce != "n1" {
		t.Errorf("ID token = %+v, %v", id, err)
	}
	if _, err := client.Exchange(t.Context(), code, oauth2.VerifierOption(verifier)); err == nil {
		t.Error("a code works twice")
	}
}

func TestACodeNeedsItsVerifier(t *testing.T) {
	t.Parallel()
	_, _, client := serve(t)
	at := client.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()))
	_, back := choose(t, at, "ben")
	if _, err := client.Exchange(t.Context(), back.Query().Get("code"), oauth2.VerifierOption(oauth2.GenerateVerifier())); err == nil {
		t.Error("a code works without its verifier")
	}
}

func TestNoAnswerGoesAnywhereElse(t *testing.T) {
	t.Parallel()
	_, _, client := serve(t)
	good := client.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()))
	for name, bad := range map[string]string{
		"another redirect URI":  strings.Replace(good, "callback%2Fdev", "callback%2Fevil", 1),
		"another client":        strings.Replace(good, "client_id=sidequest", "client_id=evil", 1),
		"no PKCE":               client.AuthCodeURL("s"),
		"plain PKCE":            strings.Replace(good, "S256", "plain", 1),
		"an unknown person":     good + "&person=eve",
		"another response type": strings.Replace(good, "response_type=code", "response_type=token", 1),
	} {
		who := "ada"
		if name == "an unknown person" {
			who = "eve"
		}
		if status, back := choose(t, bad, who); status != http.StatusBadRequest || back.String() != "" {
			t.Errorf("%s: %d to %q", name, status, back)
		}
	}
}

func TestItExistsOnLoopbackAlone(t *testing.T) {
	t.Parallel()
	for _, origin := range []string{"https://market.example", "http://10.0.0.1:8080", "http://127.0.0.1.evil.example", "http://localhost.evil.example", "http://0.0.0.0:8080"} {
		if _, err := New(t.Context(), Config{Origin: origin}); err == nil {
			t.Errorf("it starts at %s", origin)
		}
	}
	p, _, _ := serve(t)
	mux := http.NewServeMux()
	p.Routes(mux)
	r := httptest.NewRequest(http.MethodGet, "/dev-idp/authorize", http.NoBody)
	r.Host = "evil.example" // a name that was made to point at this machine
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	if w.Code != http.StatusNotFound {
		t.Errorf("a foreign host is answered %d", w.Code)
	}
}
