package oauth

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"sidequest/domain"
)

func TestClientsThatRefreshAtOnceGetTheSameSuccessor(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	sites := []*site{d.serve(t), d.serve(t)}
	l := sites[0].logIn(t, domain.ScopeRead)
	var wg sync.WaitGroup
	replies := make([]reply, 20)
	for i := range replies {
		wg.Go(func() { replies[i] = sites[i%2].refreshed(t, l.client, l.refresh, nil) })
	}
	wg.Wait()
	successor := replies[0].text("refresh_token")
	for i, r := range replies {
		if r.status != http.StatusOK || r.text("refresh_token") != successor || successor == l.refresh {
			t.Errorf("reply %d = %d %s", i, r.status, r.body)
		}
		if _, err := sites[(i+1)%2].verify(t, r.text("access_token")); err != nil {
			t.Errorf("access token %d: %v", i, err)
		}
	}
	if r := sites[1].refreshed(t, l.client, successor, nil); r.status != http.StatusOK {
		t.Errorf("the successor: %d %s", r.status, r.body)
	}
}

func TestAnOldRefreshTokenEndsTheAccess(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *site, login){
		"once its successor was used": func(t *testing.T, s *site, l login) {
			t.Helper()
			second := s.refreshed(t, l.client, l.refresh, nil).text("refresh_token")
			if r := s.refreshed(t, l.client, second, nil); r.status != http.StatusOK {
				t.Fatalf("refresh: %d %s", r.status, r.body)
			}
		},
		"after more than a minute": func(t *testing.T, s *site, l login) {
			t.Helper()
			s.refreshed(t, l.client, l.refresh, nil)
			s.d.asOwner(t, `UPDATE oauth.lines SET rotated_at = rotated_at - interval '61 seconds'`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t)
			s, there := d.serve(t), d.serve(t)
			l := s.logIn(t, domain.ScopeRead)
			spoil(t, s, l)
			revoked := there.Grants.Revoked(l.grant)
			wantError(t, s.refreshed(t, l.client, l.refresh, nil), http.StatusBadRequest, invalidGrant)
			awaitClosed(t, revoked)
			_, err := there.verify(t, l.access)
			wantRefusal(t, err, domain.Unauthenticated)
			events, _, err := s.process.store.Category(t.Context(), domain.Grants.Name)
			if err != nil {
				t.Fatal(err)
			}
			var types []string
			for _, e := range events {
				types = append(types, e.Event.EventType())
			}
			if got := strings.Join(types, " "); got != "grant.opened grant.reuse_detected grant.revoked" {
				t.Errorf("recorded %s", got)
			}
		})
	}
}

func TestAMinuteOfGraceIsNoMoreThanThat(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	l := s.logIn(t, domain.ScopeRead)
	first := s.refreshed(t, l.client, l.refresh, nil).text("refresh_token")
	s.d.asOwner(t, `UPDATE oauth.lines SET rotated_at = rotated_at - interval '50 seconds'`)
	if again := s.refreshed(t, l.client, l.refresh, nil).text("refresh_token"); again != first {
		t.Errorf("within the minute the successor is %.8s, it was %.8s", again, first)
	}
}

func TestWhatIsNoRefreshTokenOfThisClientHasNoEffect(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	l := s.logIn(t, domain.ScopeRead)
	other := s.registerClient(t, callback, "https://client.example/other")
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(l.refresh, refreshPrefix))
	if err != nil {
		t.Fatal(err)
	}
	altered := func(at int) string {
		b := append([]byte(nil), raw...)
		b[at] ^= 1
		return refreshPrefix + base64.RawURLEncoding.EncodeToString(b)
	}
	for name, tt := range map[string]struct{ client, token string }{
		"another client's":        {other, l.refresh},
		"another line":            {l.client, altered(0)},
		"a later number":          {l.client, altered(23)},
		"another proof":           {l.client, altered(24)},
		"another last bit":        {l.client, altered(len(raw) - 1)},
		"nothing":                 {l.client, ""},
		"an access token":         {l.client, l.access},
		"one that was cut":        {l.client, l.refresh[:len(l.refresh)-4]},
		"one with more":           {l.client, l.refresh + "AAAA"},
		"one with padding":        {l.client, l.refresh + "="},
		"one in another alphabet": {l.client, strings.NewReplacer("_", "/", "-", "+").Replace(l.refresh) + "!"},
	} {
		if wantError(t, s.refreshed(t, tt.client, tt.token, nil), http.StatusBadRequest, invalidGrant); t.Failed() {
			t.Fatalf("it was %s", name)
		}
	}
	if r := s.refreshed(t, l.client, l.refresh, nil); r.status != http.StatusOK {
		t.Errorf("the right one afterwards: %d %s", r.status, r.body)
	}
}

func TestARefreshGivesWhatTheGrantAllowsByThen(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	l := s.logIn(t, domain.ScopeRead)
	refresh := l.refresh
	next := func(scope string) reply {
		t.Helper()
		changes := map[string]string{}
		if scope != "" {
			changes["scope"] = scope
		}
		r := s.refreshed(t, l.client, refresh, changes)
		if r.status == http.StatusOK {
			refresh = r.text("refresh_token")
		}
		return r
	}
	wantError(t, next(domain.ScopeHire), http.StatusBadRequest, invalidScope)
	changed := s.Grants.Changed(l.grant)
	execute(t, s.process.store, domain.WidenGrant{GrantID: l.grant, Scopes: []string{domain.ScopeHire}})
	awaitClosed(t, changed)
	for _, tt := range []struct{ ask, want string }{
		{"", "sidequest:read sidequest:hire"},
		{"sidequest:read", "sidequest:read"},
		{"offline_access sidequest:hire", "sidequest:hire"},
		{"sidequest:setup", "sidequest:read sidequest:hire"},
		{"", "sidequest:read sidequest:hire"},
	} {
		r := next(tt.ask)
		if r.status != http.StatusOK || r.text("scope") != tt.want {
			t.Errorf("scope %q: %d %s", tt.ask, r.status, r.body)
		}
		who, err := s.verify(t, r.text("access_token"))
		narrow := tt.ask == domain.ScopeRead // hiring implies reading
		if err != nil || domain.ScopesAllow(who.Scopes, domain.ScopeHire) == narrow || !domain.ScopesAllow(who.Scopes, domain.ScopeRead) {
			t.Errorf("scope %q: the token allows %q, %v", tt.ask, who.Scopes, err)
		}
	}
	changed = s.Grants.Changed(l.grant)
	execute(t, s.process.store, domain.NarrowGrant{GrantID: l.grant, Scopes: []string{domain.ScopeRead}})
	awaitClosed(t, changed)
	if r := next(""); r.text("scope") != "sidequest:read" {
		t.Errorf("after narrowing: %d %s", r.status, r.body)
	}
	wantError(t, next(domain.ScopeHire), http.StatusBadRequest, invalidScope)
	if r := s.refreshed(t, l.client, refresh, map[string]string{"resource": issuer + "/b/acme/mcp"}); r.text("error") != invalidTarget {
		t.Errorf("another resource: %d %s", r.status, r.body)
	}
	changed = s.Grants.Revoked(l.grant)
	s.process.revoke(t, l.grant)
	awaitClosed(t, changed)
	wantError(t, next(""), http.StatusBadRequest, invalidGrant)
}

func TestATokenOfAMomentAgoIsGoodWhereItsConsentIsNotKnownYet(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.serve(t)
	l := s.logIn(t, domain.ScopeRead)
	there := d.process(t).grants(t) // it follows nothing and knows what it loaded
	v := NewVerifier(s.Keys, issuer, there)
	execute(t, s.process.store, domain.WidenGrant{GrantID: l.grant, Scopes: []string{domain.ScopeHire}})
	r := s.refreshed(t, l.client, l.refresh, nil)
	who, err := v.Verify(t.Context(), r.text("access_token"), resource)
	if err != nil || !domain.ScopesAllow(who.Scopes, domain.ScopeHire) {
		t.Errorf("principal = %+v, %v", who, err)
	}
}

func TestASetupGrantBecomesThatOfAnAgentAtTheNextRefresh(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback)
	b := newBrowser()
	params := asks(clientID, map[string]string{"scope": "sidequest:setup sidequest:read sidequest:work"})
	answer, grantID := b.allow(t, s, b.pending(t, s, params), Decision{Operator: string(operator)})
	r := s.post(t, pathToken, codeForm(clientID, answer.Get("code"), nil))
	if r.text("scope") != domain.ScopeSetup {
		t.Fatalf("token: %d %s", r.status, r.body)
	}
	before := r.text("access_token")
	if who, err := s.verify(t, before); err != nil || who.AgentKey != "" || who.GrantID != grantID {
		t.Errorf("principal = %+v, %v", who, err)
	}
	changed := s.Grants.Changed(grantID)
	execute(t, s.process.store, domain.BindGrant{GrantID: grantID, AgentKey: alice, Scopes: []string{domain.ScopeRead, domain.ScopeWork}})
	awaitClosed(t, changed)
	r = s.refreshed(t, clientID, r.text("refresh_token"), map[string]string{"scope": domain.ScopeSetup})
	if r.text("scope") != "sidequest:read sidequest:work" {
		t.Fatalf("refresh: %d %s", r.status, r.body)
	}
	for _, bearer := range []string{before, r.text("access_token")} {
		who, err := s.verify(t, bearer)
		if err != nil || who.AgentKey != alice || strings.Join(who.Scopes, " ") != "sidequest:read sidequest:work" {
			t.Errorf("principal = %+v, %v", who, err)
		}
	}
}

func TestRefreshTokensRunOut(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"not used for a month": `UPDATE oauth.lines SET idle_until = idle_until - interval '30 days'`,
		"half a year old":      `UPDATE oauth.lines SET ends_at = now(), idle_until = now()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newDeployment(t).serve(t)
			l := s.logIn(t, domain.ScopeRead)
			s.d.asOwner(t, sql)
			wantError(t, s.refreshed(t, l.client, l.refresh, nil), http.StatusBadRequest, invalidGrant)
			if _, err := s.Grants.Live(t.Context(), l.grant); err != nil {
				t.Errorf("the grant ended with the token: %v", err)
			}
		})
	}
}

func TestInstallationsThatShareAGrantDoNotShareRefreshTokens(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	laptop, desktop := s.logIn(t, domain.ScopeRead), s.logIn(t, domain.ScopeRead)
	if laptop.grant != desktop.grant || laptop.refresh == desktop.refresh {
		t.Fatalf("grants %s and %s", laptop.grant, desktop.grant)
	}
	for range 3 {
		for _, l := range []*login{&laptop, &desktop} {
			r := s.refreshed(t, l.client, l.refresh, nil)
			if r.status != http.StatusOK {
				t.Fatalf("refresh: %d %s", r.status, r.body)
			}
			l.refresh = r.text("refresh_token")
		}
	}
	for range maxLines {
		code, _ := s.code(t, laptop.client, bound(domain.ScopeRead))
		if r := s.post(t, pathToken, codeForm(laptop.client, code, nil)); r.status != http.StatusOK {
			t.Fatalf("token: %d %s", r.status, r.body)
		}
	}
	wantError(t, s.refreshed(t, laptop.client, laptop.refresh, nil), http.StatusBadRequest, invalidGrant)
	if _, err := s.Grants.Live(t.Context(), laptop.grant); err != nil {
		t.Errorf("one login too many ended them all: %v", err)
	}
}

func TestARestartLosesNothing(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.serve(t)
	clientID := s.registerClient(t, callback)
	b := newBrowser()
	id := b.pending(t, s, asks(clientID, nil))
	l := s.logIn(t, domain.ScopeRead)

	s = d.serve(t)
	answer, _ := b.allow(t, s, id, bound(domain.ScopeRead))

	s = d.serve(t)
	if r := s.post(t, pathToken, codeForm(clientID, answer.Get("code"), nil)); r.status != http.StatusOK {
		t.Errorf("a code from before: %d %s", r.status, r.body)
	}
	if r := s.refreshed(t, l.client, l.refresh, nil); r.status != http.StatusOK {
		t.Errorf("a refresh token from before: %d %s", r.status, r.body)
	}
	if _, err := s.verify(t, l.access); err != nil {
		t.Errorf("an access token from before: %v", err)
	}
}

func TestAClientEndsItsOwnAccess(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s, there := d.serve(t), d.serve(t)
	revoke := func(client, token string) reply {
		t.Helper()
		return s.post(t, pathRevoke, url.Values{"client_id": {client}, "token": {token}, "token_type_hint": {"nonsense"}})
	}
	other := s.registerClient(t, callback, "https://client.example/other")
	for name, token := range map[string]func(login) string{
		"with its access token":  func(l login) string { return l.access },
		"with its refresh token": func(l login) string { return l.refresh },
	} {
		l := s.logIn(t, domain.ScopeRead)
		if _, err := there.verify(t, l.access); err != nil {
			t.Fatal(err)
		}
		for _, foreign := range []reply{revoke(other, token(l)), revoke(l.client, "nothing"), revoke(l.client, "rt_nothing"), revoke(l.client, l.access+"x")} {
			if foreign.status != http.StatusOK || foreign.body != "" {
				t.Errorf("%s: a token that is none = %d %s", name, foreign.status, foreign.body)
			}
		}
		if _, err := s.verify(t, l.access); err != nil {
			t.Errorf("%s: what is not the client's had an effect: %v", name, err)
		}
		revoked := there.Grants.Revoked(l.grant)
		for range 2 {
			if r := revoke(l.client, token(l)); r.status != http.StatusOK {
				t.Errorf("%s: %d %s", name, r.status, r.body)
			}
		}
		awaitClosed(t, revoked)
		_, err := there.verify(t, l.access)
		wantRefusal(t, err, domain.Unauthenticated)
		wantError(t, there.refreshed(t, l.client, l.refresh, nil), http.StatusBadRequest, invalidGrant)
	}
}
