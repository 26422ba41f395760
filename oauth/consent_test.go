package oauth

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
)

func TestARequestBelongsToTheBrowserAndTheSessionThatSawIt(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback)
	for name, tt := range map[string]struct {
		change func(*browser)
		code   string
	}{
		"another browser": {func(b *browser) { clear(b.cookies) }, "forbidden"},
		"a cookie of another request": {func(b *browser) {
			for name := range b.cookies {
				b.cookies[name] = newSecret()
			}
		}, "forbidden"},
		"nobody signed in":           {func(b *browser) { b.session = "" }, "forbidden"},
		"a session that saw nothing": {func(b *browser) { b.session = "session-2" }, "forbidden"},
		"another operator by now":    {func(b *browser) { b.session, b.operator = "session-2", "operator:other" }, "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBrowser()
			id := b.pending(t, s, asks(clientID, nil))
			if _, err := s.Pending(t.Context(), b.on(t), id); err != nil {
				t.Fatal(err)
			}
			tt.change(b)
			_, _, err := s.Allow(t.Context(), b.on(t), id, bound(domain.ScopeRead))
			wantCode(t, err, tt.code)
			_, err = s.Deny(t.Context(), b.on(t), id)
			wantCode(t, err, tt.code)
			if live, err := s.Grants.OfAgent(t.Context(), alice); err != nil || len(slices.DeleteFunc(live, func(g LiveGrant) bool { return g.ClientID != clientID })) > 0 {
				t.Errorf("grants = %v, %v", live, err)
			}
		})
	}
	t.Run("a request nobody looked at", func(t *testing.T) {
		t.Parallel()
		b := newBrowser()
		_, _, err := s.Allow(t.Context(), b.on(t), b.pending(t, s, asks(clientID, nil)), bound(domain.ScopeRead))
		wantCode(t, err, "forbidden")
	})
	t.Run("a request nobody made", func(t *testing.T) {
		t.Parallel()
		_, err := s.Pending(t.Context(), newBrowser().on(t), "ar_nothing")
		wantCode(t, err, "not-found")
	})
}

func TestWhoeverSignsInAsSomeoneElseLooksAtTheRequestAgain(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	b := newBrowser()
	b.session, b.operator = "session-0", "operator:other"
	id := b.pending(t, s, asks(s.registerClient(t, callback), nil))
	if _, err := s.Pending(t.Context(), b.on(t), id); err != nil {
		t.Fatal(err)
	}
	b.session, b.operator = "session-1", string(operator)
	if answer, _ := b.allow(t, s, id, bound(domain.ScopeRead)); !answer.Has("code") {
		t.Errorf("answer = %v", answer)
	}
}

func TestARequestIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback)
	b := newBrowser()
	allowed, denied := b.pending(t, s, asks(clientID, nil)), b.pending(t, s, asks(clientID, nil))
	_, grantID := b.allow(t, s, allowed, bound(domain.ScopeRead))
	if _, err := s.Pending(t.Context(), b.on(t), denied); err != nil {
		t.Fatal(err)
	}
	location, err := s.Deny(t.Context(), b.on(t), denied)
	answer := parametersOf(t, location)
	if err != nil || answer.Get("error") != "access_denied" || answer.Get("iss") != issuer || answer.Get("state") != "st&te= 1" {
		t.Errorf("deny = %q, %v", location, err)
	}
	for _, id := range []string{allowed, denied} {
		_, _, err := s.Allow(t.Context(), b.on(t), id, bound(domain.ScopeRead))
		wantCode(t, err, "request-answered")
		_, err = s.Deny(t.Context(), b.on(t), id)
		wantCode(t, err, "request-answered")
		_, err = s.Pending(t.Context(), b.on(t), id)
		wantCode(t, err, "request-answered")
	}
	live, err := s.Grants.OfAgent(t.Context(), alice)
	if err != nil || len(live) != 1 || live[0].ID != grantID {
		t.Errorf("grants = %v, %v", live, err)
	}
}

func TestOfTwoDecisionsInTwoTabsOneCounts(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	here, there := d.serve(t), d.serve(t)
	b := newBrowser()
	id := b.pending(t, here, asks(here.registerClient(t, callback), nil))
	if _, err := here.Pending(t.Context(), b.on(t), id); err != nil {
		t.Fatal(err)
	}
	const tabs = 8
	codes := make(chan string, tabs)
	for i := range tabs {
		s, req := here, b.on(t)
		if i%2 == 1 {
			s = there
		}
		go func() {
			location, _, err := s.Allow(t.Context(), req, id, bound(domain.ScopeRead))
			if err != nil {
				location = ""
			}
			codes <- location
		}()
	}
	answered := 0
	for range tabs {
		if strings.Contains(<-codes, "code=") {
			answered++
		}
	}
	live, err := here.Grants.OfAgent(t.Context(), alice)
	if answered != 1 || len(live) != 1 || err != nil {
		t.Errorf("%d answers and %d grants, want one of each (%v)", answered, len(live), err)
	}
}

func TestAConsentGivesNothingThatWasNotAskedFor(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	for name, tt := range map[string]struct {
		scope string
		d     Decision
		want  []string
	}{
		"more than was asked":            {"sidequest:read", bound(domain.ScopeRead, domain.ScopeHire), []string{domain.ScopeRead}},
		"less than was asked":            {"sidequest:hire sidequest:work", bound(domain.ScopeWork), []string{domain.ScopeWork}},
		"nothing":                        {"sidequest:hire", bound(), []string{domain.ScopeRead}},
		"scopes of nobody":               {"sidequest:hire", bound("admin"), []string{domain.ScopeRead}},
		"a new agent":                    {"sidequest:hire", Decision{Operator: string(operator), Scopes: []string{domain.ScopeHire}}, []string{domain.ScopeSetup}},
		"an agent where setup was asked": {"sidequest:setup", bound(domain.ScopeRead), []string{domain.ScopeSetup}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBrowser()
			clientID := s.registerClient(t, callback, "https://client.example/"+url.PathEscape(name))
			_, grantID := b.allow(t, s, b.pending(t, s, asks(clientID, map[string]string{"scope": tt.scope})), tt.d)
			grant, err := s.Grants.LiveNow(t.Context(), grantID)
			if err != nil || grant.AgentKey != tt.d.AgentKey {
				t.Fatalf("grant = %+v, %v", grant, err)
			}
			if diff := cmp.Diff(tt.want, grant.Scopes); diff != "" {
				t.Errorf("scopes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(strings.Fields(tt.scope), grant.Asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnAgentOfSomeoneElseCannotBeGivenAway(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback)
	for name, agent := range map[string]domain.AgentKey{"another operator's": alice, "nobody's": "ag_nobody"} {
		b := newBrowser()
		b.operator = "operator:other"
		id := b.pending(t, s, asks(clientID, nil))
		if _, err := s.Pending(t.Context(), b.on(t), id); err != nil {
			t.Fatal(err)
		}
		_, _, err := s.Allow(t.Context(), b.on(t), id, Decision{Operator: b.operator, AgentKey: agent, Scopes: []string{domain.ScopeRead}})
		if domain.CodeOf(err) != "not-found" {
			t.Errorf("%s agent: %v", name, err)
		}
	}
}

func TestASecondConsentWidensTheGrantOfTheSameClientAgentAndPlace(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, "http://localhost/cb", callback)
	consent := func(redirect, board, scope string, d Decision) (string, domain.Grant) {
		b := newBrowser()
		params := asks(clientID, map[string]string{"redirect_uri": redirect, "resource": issuer + board, "scope": scope})
		_, id := b.allow(t, s, b.pending(t, s, params), d)
		grant, err := s.Grants.LiveNow(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return id, grant
	}
	first, grant := consent("http://localhost:1001/cb", "/mcp", domain.ScopeRead, bound(domain.ScopeRead))
	if diff := cmp.Diff([]string{domain.ScopeRead}, grant.Asked); diff != "" || grant.RedirectURI != "http://localhost/cb" || grant.ClientName != "Test client" {
		t.Errorf("grant = %+v", grant)
	}
	second, grant := consent("http://localhost:1002/cb", "/mcp", "sidequest:hire sidequest:work", bound(domain.ScopeHire))
	if second != first {
		t.Error("the same client in the same place has another grant")
	}
	if diff := cmp.Diff([]string{domain.ScopeRead, domain.ScopeHire}, grant.Scopes); diff != "" {
		t.Errorf("scopes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{domain.ScopeRead, domain.ScopeHire, domain.ScopeWork}, grant.Asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if again, _ := consent("http://localhost:1003/cb", "/mcp", domain.ScopeRead, bound(domain.ScopeRead)); again != first {
		t.Error("asking for less made another grant")
	}
	if other, _ := consent(callback, "/mcp", domain.ScopeRead, bound(domain.ScopeRead)); other == first {
		t.Error("another redirect URI has the same grant")
	}
	if other, _ := consent("http://localhost:1001/cb", "/b/acme/mcp", domain.ScopeRead, bound(domain.ScopeRead)); other == first {
		t.Error("another board has the same grant")
	}
	if other, _ := consent("http://localhost:1001/cb", "/mcp", domain.ScopeRead, Decision{Operator: string(operator)}); other == first {
		t.Error("the setup of a new agent has the same grant")
	}
}

func TestConsentIsAskedForEveryTime(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback)
	s.code(t, clientID, bound(domain.ScopeRead))
	for name, params := range map[string]map[string]string{
		"the same again": nil, "with a hint": {"login_hint": "olga"}, "with a prompt that would do": {"prompt": "login"},
	} {
		r := newBrowser().ask(t, s, asks(clientID, params))
		if !strings.HasPrefix(r.header.Get("Location"), ConsentPath) {
			t.Errorf("%s: Location = %q", name, r.header.Get("Location"))
		}
	}
}

func TestAnAgentHasABoundedNumberOfConnections(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	for range MaxGrants {
		s.process.grant(t, domain.ScopeRead)
	}
	b := newBrowser()
	id := b.pending(t, s, asks(s.registerClient(t, callback), nil))
	if _, err := s.Pending(t.Context(), b.on(t), id); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Allow(t.Context(), b.on(t), id, bound(domain.ScopeRead))
	wantCode(t, err, "conflict")
}

func TestARequestIsOverAfterTenMinutes(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	b := newBrowser()
	id := b.pending(t, s, asks(s.registerClient(t, callback), nil))
	s.d.asOwner(t, `UPDATE oauth.requests SET expires_at = expires_at - interval '10 minutes'`)
	_, err := s.Pending(t.Context(), b.on(t), id)
	wantCode(t, err, "not-found")
}
