package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"sidequest/domain"
)

// forgedForms lets another site send the forms: attacks 14, 54.
func (s *site) forgedForms(t *testing.T) {
	b, app := s.open(t), s.application(t, "Forged")
	b.visit(app.asks(domain.ScopeRead))
	b.signIn(s, "ben")
	consent := b.location()
	trap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method="post" action=%q><input name="decision" value="allow"><input name="agent" value="new"><button>Win</button></form>`, consent)
	}))
	t.Cleanup(trap.Close)
	b.visit(trap.URL)
	b.press("Win")
	b.reads("This form was sent by another site, so nothing was changed.")
	b.looks("error")
	b.visit(consent)
	b.do(chromedp.SetValue(chromedp.CSS(`form.card input[name="csrf"]`), "guessed"))
	b.tick(`input[value="new"]`)
	b.press("Allow")
	b.reads("This form belongs to another session.")

	other := s.agentOf(t, "ada", "Not Ben's")
	b.visit(consent)
	b.do(chromedp.SetValue(chromedp.CSS(`input[value="new"]`), string(other)))
	b.tick(fmt.Sprintf(`input[value=%q]`, other))
	b.press("Allow")
	b.reads("This is not an agent of yours, so nothing was allowed.")
	app.nothingCame()

	elsewhere := s.open(t)
	elsewhere.visit(consent)
	elsewhere.signIn(s, "ben")
	elsewhere.reads("another browser")

	b.visit(consent)
	b.tick(`input[value="new"]`)
	b.press("Allow")
	app.redeem()
	b.visit(consent)
	b.reads("This request has been answered")
}

// switchedAccount signs in anew between the page and the form: attack 23.
func (s *site) switchedAccount(t *testing.T) {
	b, app := s.open(t), s.application(t, "Switched")
	b.visit(app.asks(domain.ScopeRead))
	b.signIn(s, "ben")
	ctx, closeTab := chromedp.NewContext(b.ctx)
	defer closeTab()
	beside := &tab{t, ctx} // a second tab of the same browser
	beside.visit(s.origin + "/connections")
	beside.press("Sign out")
	beside.signIn(s, "ada")
	b.tick(`input[value="new"]`)
	b.press("Allow")
	b.reads("This form belongs to another session.")
	app.nothingCame()
}
