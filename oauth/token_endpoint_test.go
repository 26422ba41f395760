package oauth

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"sidequest/domain"
)

func TestACodeIsGoodOnceAndWhoeverUsesItAgainEndsTheAccess(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback)
	code, grantID := s.code(t, clientID, bound(domain.ScopeRead))
	r := s.post(t, pathToken, codeForm(clientID, code, nil))
	if r.status != http.StatusOK {
		t.Fatalf("token: %d %s", r.status, r.body)
	}
	if _, err := s.verify(t, r.text("access_token")); err != nil {
		t.Fatal(err)
	}
	revoked := s.Grants.Revoked(grantID)
	wantError(t, s.post(t, pathToken, codeForm(clientID, code, nil)), http.StatusBadRequest, invalidGrant)
	awaitClosed(t, revoked)
	_, err := s.verify(t, r.text("access_token"))
	wantRefusal(t, err, domain.Unauthenticated)
	wantError(t, s.refreshed(t, clientID, r.text("refresh_token"), nil), http.StatusBadRequest, invalidGrant)
}

func awaitClosed(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatal("the change was not heard of")
	}
}

func TestACodeThatNobodyRedeemedEndsNothingWhenItComesAgain(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback)
	other := s.registerClient(t, callback, "https://client.example/other")
	code, grantID := s.code(t, clientID, bound(domain.ScopeRead))
	wantError(t, s.post(t, pathToken, codeForm(other, code, nil)), http.StatusBadRequest, invalidGrant)
	if r := s.post(t, pathToken, codeForm(clientID, code, nil)); r.status != http.StatusOK {
		t.Fatalf("an attempt by another client spent the code: %d %s", r.status, r.body)
	}
	wantError(t, s.post(t, pathToken, codeForm(other, code, nil)), http.StatusBadRequest, invalidGrant)
	if _, err := s.Grants.Live(t.Context(), grantID); err != nil {
		t.Errorf("another client ended the access: %v", err)
	}
	code, grantID = s.code(t, clientID, bound(domain.ScopeRead))
	for range 2 {
		wantError(t, s.post(t, pathToken, codeForm(clientID, code, map[string]string{"code_verifier": strings.Repeat("x", 43)})), http.StatusBadRequest, invalidGrant)
	}
	if _, err := s.Grants.Live(t.Context(), grantID); err != nil {
		t.Errorf("a code that never worked ended the access: %v", err)
	}
}

func TestOfManyWhoRedeemACodeAtOnceOneWins(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	sites := []*site{d.serve(t), d.serve(t)}
	clientID := sites[0].registerClient(t, callback)
	code, _ := sites[0].code(t, clientID, bound(domain.ScopeRead))
	var wg sync.WaitGroup
	replies := make([]reply, 16)
	for i := range replies {
		wg.Go(func() { replies[i] = sites[i%2].post(t, pathToken, codeForm(clientID, code, nil)) })
	}
	wg.Wait()
	won := 0
	for _, r := range replies {
		if r.status == http.StatusOK {
			won++
			continue
		}
		wantError(t, r, http.StatusBadRequest, invalidGrant)
	}
	if won != 1 {
		t.Errorf("%d won", won)
	}
}

func TestACodeIsRedeemedAsItWasAskedFor(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback, "http://localhost/cb")
	for name, tt := range map[string]struct {
		changes map[string]string
		code    string
	}{
		"a wrong verifier":         {map[string]string{"code_verifier": strings.Repeat("x", 43)}, invalidGrant},
		"no verifier":              {map[string]string{"code_verifier": ""}, invalidGrant},
		"the challenge for it":     {map[string]string{"code_verifier": challengeOf(verifier)}, invalidGrant},
		"another redirect URI":     {map[string]string{"redirect_uri": "http://localhost/cb"}, invalidGrant},
		"no redirect URI":          {map[string]string{"redirect_uri": ""}, invalidGrant},
		"another resource":         {map[string]string{"resource": issuer + "/b/acme/mcp"}, invalidTarget},
		"a foreign resource":       {map[string]string{"resource": "https://other.example/mcp"}, invalidTarget},
		"a code that was not ours": {map[string]string{"code": "ac_" + newSecret()}, invalidGrant},
		"no code":                  {map[string]string{"code": ""}, invalidGrant},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _ := s.code(t, clientID, bound(domain.ScopeRead))
			form := codeForm(clientID, code, tt.changes)
			wantError(t, s.post(t, pathToken, form), http.StatusBadRequest, tt.code)
			if tt.changes["code"] == "" && form.Has("code") {
				wantError(t, s.post(t, pathToken, codeForm(clientID, code, nil)), http.StatusBadRequest, invalidGrant)
			}
		})
	}
	t.Run("the resource left out, or spelled otherwise", func(t *testing.T) {
		t.Parallel()
		for _, resource := range []string{"", "https://SIDEQUEST.example/Mcp/"} {
			code, _ := s.code(t, clientID, bound(domain.ScopeRead))
			if r := s.post(t, pathToken, codeForm(clientID, code, map[string]string{"resource": resource})); r.status != http.StatusOK {
				t.Errorf("resource %q: %d %s", resource, r.status, r.body)
			}
		}
	})
}

func TestACodeIsOverAfterAMinute(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback)
	code, _ := s.code(t, clientID, bound(domain.ScopeRead))
	s.d.asOwner(t, `UPDATE oauth.codes SET expires_at = expires_at - interval '1 minute'`)
	wantError(t, s.post(t, pathToken, codeForm(clientID, code, nil)), http.StatusBadRequest, invalidGrant)
}

func TestTheTokenEndpointTakesAFormAndNothingElse(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback)
	form := codeForm(clientID, "ac_x", nil)
	for name, tt := range map[string]struct {
		method, path, contentType, body string
		status                          int
		code                            string
	}{
		"a GET":                 {http.MethodGet, pathToken + "?" + form.Encode(), "", "", http.StatusMethodNotAllowed, invalidRequest},
		"JSON":                  {http.MethodPost, pathToken, "application/json", `{"grant_type":"authorization_code"}`, http.StatusBadRequest, invalidRequest},
		"no type":               {http.MethodPost, pathToken, "", form.Encode(), http.StatusBadRequest, invalidRequest},
		"a secret in the query": {http.MethodPost, pathToken + "?client_secret=x", formType, form.Encode(), http.StatusBadRequest, invalidRequest},
		"something too large":   {http.MethodPost, pathToken, formType, "a=" + strings.Repeat("x", maxForm), http.StatusBadRequest, invalidRequest},
		"what does not parse":   {http.MethodPost, pathToken, formType, "a=%zz", http.StatusBadRequest, invalidRequest},
		"a code twice":          {http.MethodPost, pathToken, formType, form.Encode() + "&code=y", http.StatusBadRequest, invalidRequest},
		"a resource twice":      {http.MethodPost, pathToken, formType, form.Encode() + "&resource=y", http.StatusBadRequest, invalidTarget},
		"no grant type":         {http.MethodPost, pathToken, formType, "client_id=" + clientID, http.StatusBadRequest, invalidRequest},
		"a password":            {http.MethodPost, pathToken, formType, "grant_type=password&client_id=" + clientID, http.StatusBadRequest, "unsupported_grant_type"},
		"client credentials":    {http.MethodPost, pathToken, formType, "grant_type=client_credentials&client_id=" + clientID, http.StatusBadRequest, "unsupported_grant_type"},
		"no client":             {http.MethodPost, pathToken, formType, "grant_type=refresh_token", http.StatusBadRequest, invalidRequest},
		"an unknown client":     {http.MethodPost, pathToken, formType, "grant_type=refresh_token&client_id=dcr_nobody", http.StatusUnauthorized, invalidClient},
		"an unpublished client": {http.MethodPost, pathToken, formType, "grant_type=refresh_token&client_id=https://client.example/x", http.StatusUnauthorized, invalidClient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := s.send(t, s.request(t, tt.method, tt.path, tt.contentType, tt.body))
			wantError(t, r, tt.status, tt.code)
			if got := r.header.Get("Cache-Control"); got != "no-store" {
				t.Errorf("Cache-Control = %q", got)
			}
		})
	}
}

// confidential registers a client with a secret.
func (s *site) confidential(t *testing.T, method string) (id, secret string) {
	t.Helper()
	body := `{"redirect_uris":["` + callback + `"],"token_endpoint_auth_method":"` + method + `"}`
	r := s.send(t, s.request(t, http.MethodPost, pathRegister, "application/json", body))
	if r.status != http.StatusCreated || r.text("client_secret") == "" || r.json["client_secret_expires_at"] != 0.0 {
		t.Fatalf("register: %d %s", r.status, r.body)
	}
	return r.text("client_id"), r.text("client_secret")
}

func TestAClientWithASecretProvesWhoItIs(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	id, secret := s.confidential(t, authBasic)
	public := s.registerClient(t, callback)
	type basic struct{ user, password string }
	for name, tt := range map[string]struct {
		client, secret string // in the form
		basic          *basic
		status         int
		code           string
	}{
		"no secret":               {id, "", nil, http.StatusUnauthorized, invalidClient},
		"a wrong secret":          {id, "cs_x", nil, http.StatusUnauthorized, invalidClient},
		"a wrong secret by Basic": {"", "", &basic{id, "cs_x"}, http.StatusUnauthorized, invalidClient},
		"no secret by Basic":      {"", "", &basic{id, ""}, http.StatusUnauthorized, invalidClient},
		"an unknown client":       {"", "", &basic{"dcs_nobody", secret}, http.StatusUnauthorized, invalidClient},
		"both ways at once":       {"", secret, &basic{id, secret}, http.StatusBadRequest, invalidRequest},
		"two clients":             {public, "", &basic{id, secret}, http.StatusBadRequest, invalidRequest},
		"a public one's secret":   {public, "cs_x", nil, http.StatusUnauthorized, invalidClient},
		"the right one":           {id, secret, nil, http.StatusBadRequest, invalidGrant},
		"the right one by Basic":  {"", "", &basic{id, secret}, http.StatusBadRequest, invalidGrant},
		"Basic and the id again":  {id, "", &basic{id, secret}, http.StatusBadRequest, invalidGrant},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"rt_x"}}
			if tt.client != "" {
				form.Set("client_id", tt.client)
			}
			if tt.secret != "" {
				form.Set("client_secret", tt.secret)
			}
			for _, path := range []string{pathToken, pathRevoke} {
				req := s.request(t, http.MethodPost, path, formType, form.Encode())
				if tt.basic != nil {
					req.SetBasicAuth(url.QueryEscape(tt.basic.user), url.QueryEscape(tt.basic.password))
				}
				r := s.send(t, req)
				if path == pathRevoke && tt.code == invalidGrant {
					tt.code = invalidRequest // the token is missing
				}
				wantError(t, r, tt.status, tt.code)
				asked := strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Basic ")
				if want := tt.basic != nil && tt.status == http.StatusUnauthorized; asked != want {
					t.Errorf("WWW-Authenticate = %q", r.header.Get("WWW-Authenticate"))
				}
			}
		})
	}
	t.Run("all the way", func(t *testing.T) {
		t.Parallel()
		code, _ := s.code(t, id, bound(domain.ScopeRead))
		req := s.request(t, http.MethodPost, pathToken, formType, codeForm("", code, map[string]string{"client_id": ""}).Encode())
		req.SetBasicAuth(id, secret)
		if r := s.send(t, req); r.status != http.StatusOK {
			t.Errorf("token: %d %s", r.status, r.body)
		}
	})
	t.Run("another scheme", func(t *testing.T) {
		t.Parallel()
		req := s.request(t, http.MethodPost, pathToken, formType, "grant_type=refresh_token&client_id="+id)
		req.Header.Set("Authorization", "Bearer x")
		wantError(t, s.send(t, req), http.StatusUnauthorized, invalidClient)
	})
}
