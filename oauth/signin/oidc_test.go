package signin

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/oauth2-proxy/mockoidc"
	"github.com/oklog/ulid/v2"

	"sidequest/domain"
	"sidequest/eventstore"
)

func (h *house) erase(t *testing.T, operator string) {
	t.Helper()
	op := eventstore.Operation{Owner: domain.System, Key: ulid.Make().String(), Tool: "test", At: time.Now()}
	if _, err := eventstore.Execute(t.Context(), h.store, op, domain.EraseOperator{OperatorID: operator}); err != nil {
		t.Fatal(err)
	}
	if err := Forget(t.Context(), h.store.Pool, operator); err != nil {
		t.Fatal(err)
	}
}

func TestAnIndependentProviderSignsAnOperatorIn(t *testing.T) {
	t.Parallel()
	mock, err := mockoidc.Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mock.Shutdown() })
	mock.QueueUser(&mockoidc.MockUser{Subject: "u1", Email: "olga@corp.example", EmailVerified: true, PreferredUsername: "olga"})
	cfg := mock.Config()
	h := newHouse(t, Provider{ID: "mock", Name: "Mock", Issuer: cfg.Issuer, ClientID: cfg.ClientID, ClientSecret: cfg.ClientSecret})
	v := newVisitor()
	at := v.begin(t, h.Service, "mock", "/connections", nil)
	if q := at.Query(); q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" || q.Get("redirect_uri") != origin+"/sign-in/callback/mock" {
		t.Errorf("the browser is sent to %s", at)
	}
	back := follow(t, at)
	returnTo, err := v.finish(h.Service, "mock", back.Query())
	if err != nil || returnTo != "/connections" {
		t.Fatalf("the sign-in ends with %q, %v", returnTo, err)
	}
	session, signedIn := v.session(t, h.Service)
	if !signedIn || session.Operator.Email != "olga@corp.example" || session.Operator.Name != "olga" {
		t.Errorf("session = %+v, %v", session, signedIn)
	}
	_, err = v.finish(h.Service, "mock", back.Query())
	wantRefusal(t, err, domain.Forbidden)
}

// follow asks a provider that approves by itself and returns where it sends the
// browser.
func follow(t *testing.T, at *url.URL) *url.URL {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	back, err := answer.Location()
	if err != nil {
		t.Fatalf("the provider answers %s: %v", answer.Status, err)
	}
	return back
}

// An ID token is refused unless every one of its claims is the one of this sign-in:
// attacks 53.
func TestAnIDTokenOfAnotherSignInOrClientIsRefused(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	h := newHouse(t, f.provider("forger"))
	for name, changes := range map[string]map[string]any{
		"the nonce of another sign-in":   {"nonce": newSecret()},
		"no nonce":                       {"nonce": nil},
		"another audience":               {"aud": "client-2"},
		"two audiences, no azp":          {"aud": []string{forgedClient, "client-2"}},
		"another authorized party":       {"azp": "client-2"},
		"two audiences, another's azp":   {"aud": []string{forgedClient, "client-2"}, "azp": "client-2"},
		"another issuer":                 {"iss": "https://id.evil.example"},
		"a token that is over":           {"exp": time.Now().Add(-time.Minute).Unix()},
		"no subject":                     {"sub": ""},
		"a token without any expiration": {"exp": nil},
	} {
		v := newVisitor()
		at := v.begin(t, h.Service, "forger", "/", nil)
		f.says(at, changes)
		_, err := v.finish(h.Service, "forger", url.Values{"state": at.Query()["state"], "code": {"c"}})
		if domain.CodeOf(err) != string(domain.Forbidden) {
			t.Errorf("%s: %v", name, err)
		}
		if _, signedIn := v.session(t, h.Service); signedIn {
			t.Errorf("%s: signed in", name)
		}
	}
	v := newVisitor()
	at := v.begin(t, h.Service, "forger", "/", nil)
	f.says(at, map[string]any{"aud": []string{forgedClient, "client-2"}, "azp": forgedClient})
	if _, err := v.finish(h.Service, "forger", url.Values{"state": at.Query()["state"], "code": {"c"}}); err != nil {
		t.Errorf("two audiences and our azp: %v", err)
	}
}

// Whoever finishes a sign-in is the browser that began it, once: attacks 20, 53, 54.
func TestASignInIsFinishedByTheBrowserThatBeganIt(t *testing.T) {
	t.Parallel()
	f, g := newForger(t), newForger(t)
	h := newHouse(t, f.provider("forger"), g.provider("other"))
	attacker, victim, stranger := newVisitor(), newVisitor(), newVisitor()
	at := attacker.begin(t, h.Service, "forger", "/", nil)
	f.says(at, nil)
	own := victim.begin(t, h.Service, "forger", "/", nil)
	answer := func(state ...string) url.Values { return url.Values{"state": state, "code": {"c"}} }

	state := at.Query().Get("state")
	for name, try := range map[string]struct {
		by       *visitor
		provider string
		answer   url.Values
	}{
		"a victim with a sign-in of its own": {victim, "forger", answer(state)},
		"a browser without our cookie":       {stranger, "forger", answer(state)},
		"another state":                      {attacker, "forger", answer(newSecret())},
		"another's state":                    {attacker, "forger", answer(own.Query().Get("state"))},
	} {
		_, err := try.by.finish(h.Service, try.provider, try.answer)
		if domain.CodeOf(err) != string(domain.Forbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, bad := range map[string]url.Values{"no state": answer(), "two states": answer(state, state)} {
		if _, err := attacker.finish(h.Service, "forger", bad); domain.CodeOf(err) != string(domain.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// None of that used the sign-in up.
	if _, err := attacker.finish(h.Service, "forger", answer(state)); err != nil {
		t.Errorf("the browser that began: %v", err)
	}
	_, err := attacker.finish(h.Service, "forger", answer(state))
	wantRefusal(t, err, domain.Forbidden) // a state works once

	mixed := attacker.begin(t, h.Service, "forger", "/", nil)
	_, err = attacker.finish(h.Service, "other", answer(mixed.Query().Get("state")))
	wantRefusal(t, err, domain.Forbidden) // an answer of one provider to a question to another

	late := attacker.begin(t, h.Service, "forger", "/", nil)
	f.says(late, nil)
	h.wait(attemptLife)
	_, err = attacker.finish(h.Service, "forger", answer(late.Query().Get("state")))
	wantRefusal(t, err, domain.Forbidden)
}

func TestTheIssuerOfAnAnswerIsChecked(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	f.discov["authorization_response_iss_parameter_supported"] = true
	h := newHouse(t, f.provider("forger"))
	for iss, good := range map[string]bool{"": false, "https://id.evil.example": false, f.url: true} {
		v := newVisitor()
		at := v.begin(t, h.Service, "forger", "/", nil)
		f.says(at, nil)
		answer := url.Values{"state": at.Query()["state"], "code": {"c"}}
		if iss != "" {
			answer.Set("iss", iss)
		}
		if _, err := v.finish(h.Service, "forger", answer); (err == nil) != good {
			t.Errorf("iss=%q: %v", iss, err)
		}
	}
	v := newVisitor()
	at := v.begin(t, h.Service, "forger", "/", nil)
	_, err := v.finish(h.Service, "forger", url.Values{"state": at.Query()["state"], "iss": {f.url}, "error": {"access_denied"}, "error_description": {"<script>"}})
	wantRefusal(t, err, domain.Forbidden)
}

func TestAnEmailAddressCountsOnlyIfItIsVerified(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	h := newHouse(t, f.provider("forger"))
	victim := newVisitor()
	at := victim.begin(t, h.Service, "forger", "/", nil)
	f.says(at, map[string]any{"sub": "victim", "email": "v@corp.example", "email_verified": true})
	if _, err := victim.finish(h.Service, "forger", url.Values{"state": at.Query()["state"], "code": {"c"}}); err != nil {
		t.Fatal(err)
	}
	theirs, _ := victim.session(t, h.Service)
	for i, verified := range []any{false, nil, "false", 1, true, "true"} {
		v := newVisitor()
		at := v.begin(t, h.Service, "forger", "/", nil)
		f.says(at, map[string]any{"sub": "thief" + string(rune('a'+i)), "email": "v@corp.example", "email_verified": verified})
		if _, err := v.finish(h.Service, "forger", url.Values{"state": at.Query()["state"], "code": {"c"}}); err != nil {
			t.Fatal(err)
		}
		session, _ := v.session(t, h.Service)
		if counts := session.Operator.Email != ""; counts != (verified == true || verified == "true") {
			t.Errorf("email_verified %v: the address is %q", verified, session.Operator.Email)
		}
		if session.Operator.ID == theirs.Operator.ID {
			t.Errorf("an e-mail address made a stranger of the victim")
		}
	}
}

func TestANameIsTidyWhateverTheProviderSays(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		" Olga\u202e\x00 \n Petrova ": "Olga Petrova", "\u200b": "", "": "", "Ольга": "Ольга",
		string(make([]rune, 300)): "",
	} {
		if got := tidy(name); got != want {
			t.Errorf("tidy(%q) = %q, want %q", name, got, want)
		}
	}
	if got := firstName("\u200b", " ", "olga"); got != "olga" {
		t.Errorf("the first name that is one is %q", got)
	}
}

func TestAProviderThatIsAwayKeepsNobodyElseOut(t *testing.T) {
	t.Parallel()
	f, g := newForger(t), newForger(t)
	f.be(true)
	h := newHouse(t, f.provider("forger"), g.provider("other"))
	w, r := newVisitor().request("/sign-in")
	_, err := h.Begin(w, r, "forger", "/", nil)
	wantRefusal(t, err, domain.Unavailable)
	newVisitor().begin(t, h.Service, "other", "/", nil)
	f.be(false)
	deadline := time.Now().Add(20 * time.Second)
	for {
		w, r := newVisitor().request("/sign-in")
		r.RemoteAddr = ulid.Make().String()
		if _, err = h.Begin(w, r, "forger", "/", nil); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a provider that came back is not found again: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	_, err = h.Begin(httptest.NewRecorder(), r, "nobody", "/", nil)
	wantRefusal(t, err, domain.NotFound)
}

func TestOneAddressBeginsABoundedNumberOfSignIns(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	h := newHouse(t, f.provider("forger"))
	for i := range beginsPerIP + 1 {
		w, r := newVisitor().request("/sign-in")
		_, err := h.Begin(w, r, "forger", "/", nil)
		if i < beginsPerIP && err != nil {
			t.Fatal(err)
		}
		if i == beginsPerIP {
			wantRefusal(t, err, domain.RateLimited)
		}
	}
}

func TestAnIdentityIsAddedOnlyToWhoIsSignedIn(t *testing.T) {
	t.Parallel()
	f, g := newForger(t), newForger(t)
	h := newHouse(t, f.provider("forger"), g.provider("other"))
	olga, otto := newVisitor(), newVisitor()
	session := f.signIn(t, h.Service, olga, "olga")
	finish := func(v *visitor, at *url.URL, subject string) error {
		g.says(at, map[string]any{"sub": subject, "name": subject})
		_, err := v.finish(h.Service, "other", url.Values{"state": at.Query()["state"], "code": {"c"}})
		return err
	}

	if err := finish(olga, olga.begin(t, h.Service, "other", "/account", &session), "olga-at-g"); err != nil {
		t.Fatal(err)
	}
	if same, _ := olga.session(t, h.Service); same.ID != session.ID {
		t.Error("adding an identity changed the session")
	}
	elsewhere := newVisitor()
	if err := finish(elsewhere, elsewhere.begin(t, h.Service, "other", "/", nil), "olga-at-g"); err != nil {
		t.Fatal(err)
	}
	if other, _ := elsewhere.session(t, h.Service); other.Operator.ID != session.Operator.ID {
		t.Error("the added identity signs in somebody else")
	}
	if identities, err := h.Identities(t.Context(), session.Operator.ID); err != nil || len(identities) != 2 {
		t.Errorf("identities = %+v, %v", identities, err)
	}

	// What stands for one operator cannot be taken by another.
	hers := f.signIn(t, h.Service, otto, "otto")
	wantRefusal(t, finish(otto, otto.begin(t, h.Service, "other", "/account", &hers), "olga-at-g"), domain.Conflict)

	// Who signed out, or in anew, in between gets nothing added.
	at := otto.begin(t, h.Service, "other", "/account", &hers)
	f.signIn(t, h.Service, otto, "otto")
	wantRefusal(t, finish(otto, at, "otto-at-g"), domain.Forbidden)
}

func TestAProviderMayTellTheNameApart(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	f.discov["userinfo_endpoint"] = f.url + "/userinfo"
	h := newHouse(t, f.provider("forger"))
	for sub, good := range map[string]bool{"olga": true, "otto": false} {
		f.userinfo = map[string]any{"sub": sub, "name": "Olga Petrova"}
		v := newVisitor()
		at := v.begin(t, h.Service, "forger", "/", nil)
		f.says(at, map[string]any{"name": nil})
		_, err := v.finish(h.Service, "forger", url.Values{"state": at.Query()["state"], "code": {"c"}})
		if session, _ := v.session(t, h.Service); (err == nil) != good || good && session.Operator.Name != "Olga Petrova" {
			t.Errorf("with the name of %s the sign-in ends with %v as %q", sub, err, session.Operator.Name)
		}
	}
}
