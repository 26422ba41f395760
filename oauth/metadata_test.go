package oauth

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
)

func TestTheMetadataNamesOurOwnOriginWhateverHostIsAsked(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	for _, path := range []string{pathServer, pathOpenID} {
		req := s.request(t, http.MethodGet, path, "", "")
		req.Host = "evil.example"
		req.Header.Set("X-Forwarded-Host", "evil.example")
		req.Header.Set("X-Forwarded-Proto", "http")
		req.Header.Set("Forwarded", "host=evil.example")
		r := s.send(t, req)
		if r.status != http.StatusOK || strings.Contains(r.body, "evil") {
			t.Fatalf("%s = %d %s", path, r.status, r.body)
		}
		for name, want := range map[string]any{
			"issuer": issuer, "authorization_endpoint": issuer + "/authorize", "token_endpoint": issuer + "/token",
			"registration_endpoint": issuer + "/register", "revocation_endpoint": issuer + "/revoke", "jwks_uri": issuer + "/jwks",
			"response_types_supported": []any{"code"}, "code_challenge_methods_supported": []any{"S256"},
			"grant_types_supported":                          []any{"authorization_code", "refresh_token"},
			"client_id_metadata_document_supported":          true,
			"authorization_response_iss_parameter_supported": true,
			"scopes_supported":                               []any{"sidequest:setup", "sidequest:read", "sidequest:hire", "sidequest:work", "offline_access"},
			"token_endpoint_auth_methods_supported":          []any{"none", "client_secret_post", "client_secret_basic", "private_key_jwt"},
		} {
			if diff := cmp.Diff(want, r.json[name]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		for name, value := range r.json {
			if address, ok := value.(string); ok && address != issuer && !strings.HasPrefix(address, issuer+"/") {
				t.Errorf("%s = %q is not of our origin", name, address)
			}
		}
	}
}

func TestAResourceIsNamedAsItWasAskedFor(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	for path, resource := range map[string]string{
		"": "/mcp", "/": "/mcp", "/mcp": "/mcp", "/mcp/": "/mcp/", "/MCP": "/MCP", "/b/acme/mcp": "/b/acme/mcp", "/B/Acme/mcp/": "/B/Acme/mcp/",
	} {
		r := s.get(t, pathResource+path)
		want := map[string]any{
			"resource": issuer + resource, "resource_name": "Test", "authorization_servers": []any{issuer},
			"scopes_supported": []any{domain.ScopeRead}, "bearer_methods_supported": []any{"header"},
		}
		if diff := cmp.Diff(want, r.json); diff != "" || r.status != http.StatusOK {
			t.Errorf("%q = %d (-want +got):\n%s", path, r.status, diff)
		}
	}
	for _, path := range []string{"/b/nobody/mcp", "/other", "/b/acme", "/b/acme/mcp/x", "/b%2facme/mcp", "/b/acme%2fmcp", "/mcp/mcp"} {
		if r := s.get(t, pathResource+path); r.status != http.StatusNotFound || r.json == nil {
			t.Errorf("%q = %d %s", path, r.status, r.body)
		}
	}
}

func TestPagesOfAnyOriginMayCallWhatTakesNoCookies(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	for _, path := range []string{pathToken, pathRegister, pathRevoke, pathKeys, pathServer, pathOpenID, pathResource, pathResource + "/mcp"} {
		req := s.request(t, http.MethodOptions, path, "", "")
		req.Header.Set("Origin", "https://page.example")
		req.Header.Set("Access-Control-Request-Method", "POST")
		r := s.send(t, req)
		if r.status != http.StatusNoContent || r.header.Get("Access-Control-Allow-Origin") != "*" || r.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("OPTIONS %s = %d %v", path, r.status, r.header)
		}
		for _, name := range []string{"Content-Type", "Authorization", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"} {
			if !strings.Contains(r.header.Get("Access-Control-Allow-Headers"), name) {
				t.Errorf("OPTIONS %s does not allow %s", path, name)
			}
		}
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			if r := s.send(t, s.request(t, method, path, "", "")); r.header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s %s = %d without CORS", method, path, r.status)
			}
		}
	}
	r := s.send(t, s.request(t, http.MethodOptions, pathAuthorize, "", ""))
	if r.header.Get("Access-Control-Allow-Origin") != "" || r.status != http.StatusMethodNotAllowed {
		t.Errorf("OPTIONS %s = %d %v", pathAuthorize, r.status, r.header)
	}
}

func TestAnybodyCanCheckATokenByThePublishedKeys(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	l := s.logIn(t, domain.ScopeRead)
	r := s.get(t, pathKeys)
	if got := r.header.Get("Cache-Control"); got != "public, max-age=300" {
		t.Errorf("Cache-Control = %q", got)
	}
	if strings.Contains(r.body, `"d"`) {
		t.Fatal("the private key is public")
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(r.body), &set); err != nil {
		t.Fatal(err)
	}
	_, err := jwt.Parse(l.access, func(token *jwt.Token) (any, error) {
		kid, _ := token.Header["kid"].(string)
		return set.Key(kid)[0].Key, nil
	}, jwt.WithIssuer(issuer), jwt.WithAudience(resource))
	if err != nil {
		t.Error(err)
	}
}

// kidOf returns the name of the key that signed a token.
func kidOf(t *testing.T, bearer string) string {
	t.Helper()
	token, _, err := jwt.NewParser().ParseUnverified(bearer, &claims{})
	if err != nil {
		t.Fatal(err)
	}
	kid, _ := token.Header["kid"].(string)
	return kid
}

func published(s *site) []string {
	return slices.Sorted(maps.Keys(s.Keys.ring.Load().verified))
}

func TestKeysAreReplacedWithoutAnyTokenEnding(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	first, err := newKey(keyActive, now.Add(-keyLife))
	if err != nil {
		t.Fatal(err)
	}
	list := []storedKey{first}
	statuses := func() (all []keyStatus) {
		for _, s := range list {
			all = append(all, s.Status)
		}
		return all
	}
	for _, step := range []struct {
		after time.Duration
		want  []keyStatus
	}{
		{0, []keyStatus{keyActive, keyNext}},
		{keyNotice - time.Second, []keyStatus{keyActive, keyNext}},
		{time.Second, []keyStatus{keyRetired, keyActive}},
		{keyRetirement - time.Second, []keyStatus{keyRetired, keyActive}},
		{time.Second, []keyStatus{keyActive}},
		{keyLife - keyRetirement - time.Second, []keyStatus{keyActive}},
		{time.Second, []keyStatus{keyActive, keyNext}},
	} {
		now = now.Add(step.after)
		if list, err = advance(list, now); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, statuses()); diff != "" {
			t.Fatalf("after another %s (-want +got):\n%s", step.after, diff)
		}
	}
}

func TestARetiredKeyIsTrustedUntilItsLastTokenHasExpired(t *testing.T) {
	t.Parallel()
	for age, trusted := range map[time.Duration]bool{MaxTokenLife: true, keyRetirement + time.Minute: false} {
		old, v := memory(t)
		bearer := mint(t, old, token("gr_live", domain.ScopeRead))
		retired := stored(t, old, keyRetired)
		retired.Since = time.Now().Add(-age)
		active, err := newKey(keyActive, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		keys, err := encodeAndDecode([]storedKey{retired, active})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewVerifier(keys, issuer, v.grants).Verify(t.Context(), bearer, resource); (err == nil) != trusted {
			t.Errorf("retired for %s: %v", age, err)
		}
	}
}

func TestAnotherProcessLearnsOfANewKeyWithTheFirstTokenOfIt(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	here, there := d.serve(t), d.serve(t)
	l := here.logIn(t, domain.ScopeRead)
	if err := here.Keys.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := here.Keys.Rotate(t.Context()); err != nil { // another one changes nothing
		t.Fatal(err)
	}
	if before := kidOf(t, l.access); len(published(here)) != 2 || here.Keys.ring.Load().active.kid != before {
		t.Errorf("published %v while %s signs", published(here), before)
	}
	if err := here.Keys.Replace(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := here.refreshed(t, l.client, l.refresh, nil)
	if r.status != http.StatusOK || kidOf(t, r.text("access_token")) == kidOf(t, l.access) {
		t.Fatalf("refresh: %d %s", r.status, r.body)
	}
	if _, err := there.verify(t, r.text("access_token")); err != nil {
		t.Errorf("a token of the new key: %v", err)
	}
	for _, s := range []*site{here, there} {
		_, err := s.verify(t, l.access)
		wantRefusal(t, err, domain.Unauthenticated)
	}
}

func TestTokensWithKeysThatNeverWereAreNoLoadOnTheDatabase(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.serve(t)
	foreign, _ := memory(t)
	id := s.process.grant(t, domain.ScopeRead)
	if _, err := s.Grants.Live(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	before, began := s.Keys.loaded, time.Now()
	for range 50 {
		_, err := s.verify(t, mint(t, foreign, token(id, domain.ScopeRead)))
		wantRefusal(t, err, domain.Unauthenticated)
	}
	if s.Keys.loaded.Equal(before) || time.Since(began) < reloadPace && s.Keys.reload(t.Context()) {
		t.Error("the list was read not at all, or more than once a second")
	}
}

func TestNothingSecretIsEverLogged(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.serve(t)
	clientID := s.registerClient(t, callback)
	confidential, secret := s.confidential(t, authPost)
	b := newBrowser()
	answer, _ := b.allow(t, s, b.pending(t, s, asks(clientID, map[string]string{"state": "secret-state"})), bound(domain.ScopeRead))
	secrets := []string{secret, answer.Get("code"), verifier, "secret-state", "hostile-secret", s.session(b)}
	for _, cookie := range b.cookies {
		secrets = append(secrets, cookie)
	}
	bodies := []string{}
	post := func(path string, form url.Values) reply {
		r := s.post(t, path, form)
		if r.status != http.StatusOK {
			bodies = append(bodies, r.body)
		}
		for _, name := range []string{"access_token", "refresh_token"} {
			if r.text(name) != "" {
				secrets = append(secrets, r.text(name))
			}
		}
		return r
	}
	first := post(pathToken, codeForm(clientID, answer.Get("code"), nil))
	refresh := url.Values{"grant_type": {"refresh_token"}, "client_id": {clientID}, "refresh_token": {first.text("refresh_token")}}
	second := post(pathToken, refresh)
	refresh.Set("refresh_token", second.text("refresh_token"))
	post(pathToken, refresh)
	refresh.Set("refresh_token", first.text("refresh_token"))
	post(pathToken, refresh) // reuse
	post(pathToken, codeForm(clientID, answer.Get("code"), nil))
	post(pathToken, codeForm(clientID, "hostile-secret", map[string]string{"client_secret": "hostile-secret"}))
	post(pathToken, codeForm(confidential, "hostile-secret", map[string]string{"client_secret": secret, "scope": "hostile-secret", "resource": "hostile-secret"}))
	post(pathRevoke, url.Values{"client_id": {clientID}, "token": {second.text("access_token")}})
	s.get(t, pathAuthorize+"?"+asks(clientID, map[string]string{"response_type": "hostile-secret", "state": "secret-state"}).Encode())
	log := s.log.String()
	for _, want := range []string{"client registered", "authorization asked for", "authorization allowed", "token issued", "used twice"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no line %q", want)
		}
	}
	for _, secret := range secrets {
		if secret == "" || strings.Contains(log, secret) {
			t.Errorf("%q is in the log", secret)
		}
		for _, body := range bodies {
			if strings.Contains(body, secret) {
				t.Errorf("%q is in the error %s", secret, body)
			}
		}
	}
}

func (*site) session(b *browser) string { return b.session + " " }

func TestWhatIsOverIsRemoved(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	p := newPublisher(t)
	s := d.serve(t, p.outside(t))
	count := func(table string) (n int) {
		t.Helper()
		if err := s.DB.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	kept := s.logIn(t, domain.ScopeRead)
	newBrowser().pending(t, s, asks(p.publish("/client.json", nil), nil))
	s.registerClient(t, callback, "https://client.example/unused")
	// A consent for another board whose client never came for its code.
	b := newBrowser()
	_, lost := b.allow(t, s, b.pending(t, s, asks(kept.client, map[string]string{"resource": issuer + "/b/acme/mcp"})), bound(domain.ScopeRead))

	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if count("oauth.clients") != 2 || count("oauth.documents") != 1 || count("oauth.requests") != 3 || count("oauth.codes") != 2 || count("oauth.lines") != 1 {
		t.Error("something went before its time")
	}
	d.asOwner(t, `
		UPDATE oauth.clients SET created_at = created_at - interval '25 hours';
		UPDATE oauth.documents SET fetched_at = fetched_at - interval '25 hours';
		UPDATE oauth.requests SET expires_at = expires_at - interval '25 hours';
		UPDATE oauth.codes SET expires_at = expires_at - interval '25 hours';
		INSERT INTO oauth.assertions (client_id, jti, expires_at) VALUES ('x', 'x', now() - interval '1 second');
		UPDATE limits.writes SET at = at - interval '2 hours';`)
	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]int{
		"oauth.clients": 1, "oauth.documents": 0, "oauth.requests": 0, "oauth.codes": 0, "oauth.lines": 1, "oauth.assertions": 0, "limits.writes": 0,
	} {
		if got := count(table); got != want {
			t.Errorf("%s has %d rows, want %d", table, got, want)
		}
	}
	awaitClosed(t, s.Grants.Revoked(lost))
	if _, err := s.Grants.Live(t.Context(), kept.grant); err != nil {
		t.Errorf("a grant in use ended: %v", err)
	}
	live, err := s.Live(t.Context(), string(operator))
	if err != nil || len(live) != 1 || live[0].GrantID != kept.grant || time.Since(live[0].Refreshed) > time.Hour {
		t.Errorf("live = %+v, %v", live, err)
	}
	d.asOwner(t, `UPDATE oauth.lines SET idle_until = now() - interval '25 hours'`)
	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitClosed(t, s.Grants.Revoked(kept.grant))
}
