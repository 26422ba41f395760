package signin

import (
	"net/http"
	"testing"
	"time"

	"sidequest/domain"
)

func TestASignInGivesASecretThatNobodyKnewBefore(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	h := newHouse(t, f.provider("forger"))
	v := newVisitor()
	first := f.signIn(t, h.Service, v, "olga")
	planted := v.cookies[sessionCookie]
	second := f.signIn(t, h.Service, v, "olga")
	if v.cookies[sessionCookie] == planted || first.ID == second.ID {
		t.Error("a second sign-in kept the session of before")
	}
	// Whoever planted or knew the cookie from before holds nothing.
	thief := &visitor{map[string]string{sessionCookie: planted}}
	if _, signedIn := thief.session(t, h.Service); signedIn {
		t.Error("the session of before the sign-in is still good")
	}
	if first.Operator != second.Operator || first.Operator.Name != "olga" {
		t.Errorf("one identity stands for %+v and then for %+v", first.Operator, second.Operator)
	}
}

func TestCookiesAreHostCookiesThatNoScriptSees(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	h := newHouse(t, f.provider("forger"))
	w, r := newVisitor().request("/sign-in")
	if _, err := h.Begin(w, r, "forger", "/", nil); err != nil {
		t.Fatal(err)
	}
	if err := h.start(w, r, h.known(t, "olga")); err != nil {
		t.Fatal(err)
	}
	cookies := w.Result().Cookies()
	if len(cookies) != 2 {
		t.Fatalf("there are %d cookies, want that of the browser and that of the session", len(cookies))
	}
	for _, c := range cookies {
		if c.Name[:7] != "__Host-" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 0 {
			t.Errorf("cookie %+v", c)
		}
	}
}

// known records an operator as a sign-in does.
func (h *house) known(t *testing.T, subject string) string {
	t.Helper()
	id, err := h.operator(t.Context(), identity{issuer: "test", subject: subject, name: subject})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestASessionEndsWhenIdleAndWhenOld(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	h := newHouse(t, f.provider("forger"))
	idle, busy := newVisitor(), newVisitor()
	f.signIn(t, h.Service, idle, "olga")
	f.signIn(t, h.Service, busy, "olga")
	for range 13 {
		h.wait(idleLife - time.Hour)
		if _, signedIn := busy.session(t, h.Service); !signedIn {
			t.Fatal("a session in use ended early")
		}
	}
	if _, signedIn := idle.session(t, h.Service); signedIn {
		t.Error("an idle session goes on")
	}
	h.wait(idleLife - time.Hour) // now it is older than a week
	h.wait(idleLife - time.Hour)
	h.wait(idleLife - 2*time.Hour)
	if _, signedIn := busy.session(t, h.Service); signedIn {
		t.Error("an old session goes on for ever")
	}
	if err := h.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSigningOutActsOnEveryReplica(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	h := newHouse(t, f.provider("forger"))
	there := h.replica(t, f.provider("forger"))
	one, two, other := newVisitor(), newVisitor(), newVisitor()
	f.signIn(t, h.Service, one, "olga")
	session := f.signIn(t, h.Service, two, "olga")
	f.signIn(t, h.Service, other, "otto")

	stolen := &visitor{map[string]string{sessionCookie: one.cookies[sessionCookie]}}
	w, r := one.request("/sign-out")
	if err := h.SignOut(w, r); err != nil {
		t.Fatal(err)
	}
	one.keep(w)
	if _, kept := one.cookies[sessionCookie]; kept {
		t.Error("the browser keeps the cookie")
	}
	if _, signedIn := stolen.session(t, there); signedIn {
		t.Error("a copy of the cookie is still good")
	}
	if _, signedIn := two.session(t, there); !signedIn {
		t.Error("signing out here signed out elsewhere")
	}
	if err := h.SignOutEverywhere(t.Context(), session.Operator.ID); err != nil {
		t.Fatal(err)
	}
	if _, signedIn := two.session(t, there); signedIn {
		t.Error("signing out everywhere left a session")
	}
	if _, signedIn := other.session(t, there); !signedIn {
		t.Error("signing out everywhere signed out somebody else")
	}
}

func TestAFormOfAnotherSessionIsRefused(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	h := newHouse(t, f.provider("forger"))
	olga, otto := f.signIn(t, h.Service, newVisitor(), "olga"), f.signIn(t, h.Service, newVisitor(), "otto")
	if err := olga.Sent(olga.CSRF); err != nil {
		t.Error(err)
	}
	for _, token := range []string{"", otto.CSRF, olga.CSRF + "x"} {
		wantRefusal(t, olga.Sent(token), domain.Forbidden)
	}
}

func TestAPairOfSessionCookiesIsNone(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	h := newHouse(t, f.provider("forger"))
	v := newVisitor()
	f.signIn(t, h.Service, v, "olga")
	_, r := v.request("/")
	r.AddCookie(&http.Cookie{Name: sessionCookie, Value: newSecret()})
	if _, signedIn, err := h.Current(r); signedIn || err != nil {
		t.Errorf("two cookies are taken for a session: %v, %v", signedIn, err)
	}
}

func TestWhoWasErasedIsSignedOutAndBeginsAnew(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	h := newHouse(t, f.provider("forger"))
	v := newVisitor()
	before := f.signIn(t, h.Service, v, "olga")
	h.erase(t, before.Operator.ID)
	if _, signedIn := v.session(t, h.Service); signedIn {
		t.Error("an erased operator is still signed in")
	}
	after := f.signIn(t, h.Service, v, "olga")
	if after.Operator.ID == before.Operator.ID {
		t.Error("an erased operator came back")
	}
	if again := f.signIn(t, h.Service, v, "olga"); again.Operator.ID != after.Operator.ID {
		t.Error("the new operator is not remembered")
	}
}

func TestADestinationIsAPathOfThisDeployment(t *testing.T) {
	t.Parallel()
	for wish, want := range map[string]string{
		"/connections": "/connections", "/consent/ar_1?x=y": "/consent/ar_1?x=y", "": "/", "connections": "/",
		"//evil": "/", `/\evil`: "/", "https:evil": "/", "https://evil/": "/", "/\t/evil": "/", "/\n/evil": "/", "/%2f%2fevil": "/%2f%2fevil",
		"/a\\..\\evil": "/", "\\\\evil": "/", "/é": "/", "javascript:alert(1)": "/", " /x": "/",
	} {
		if got := Destination(wish); got != want {
			t.Errorf("Destination(%q) = %q, want %q", wish, got, want)
		}
	}
}

func FuzzADestinationNeverLeavesTheDeployment(f *testing.F) {
	for _, seed := range []string{"/x", "//evil", `/\evil`, "/\t/evil", "https:evil"} {
		f.Add(seed)
	}
	base, err := http.NewRequest(http.MethodGet, origin+"/sign-in", http.NoBody)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, wish string) {
		got := Destination(wish)
		u, err := base.URL.Parse(got)
		if err != nil || u.Host != base.URL.Host || u.Scheme != base.URL.Scheme || got[0] != '/' || len(got) > 1 && (got[1] == '/' || got[1] == '\\') {
			t.Errorf("Destination(%q) = %q leads to %v", wish, got, u)
		}
	})
}
