package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sidequest/domain"
)

// secondInstallation lets another copy of an application ask for less, and tells the
// operator what the first one has.
func (s *site) secondInstallation(t *testing.T) {
	key := s.agentOf(t, "ada", "Shared")
	b, app, other := s.open(t), s.application(t, "Twice installed"), s.application(t, "Twice installed")
	other.id = app.id // its port on loopback is another
	all := []string{domain.ScopeRead, domain.ScopeHire, domain.ScopeWork}
	choose := fmt.Sprintf(`input[name="agent"][value=%q]`, key)
	b.visit(app.asks(all...))
	b.signIn(s, "ada")
	consent := b.location()

	role := fmt.Sprintf(`input[name="role:%s"]`, key)
	b.tick(choose)
	b.do(chromedp.SetValue(chromedp.CSS(role+`[value="hire"]`), "admin"))
	b.press("Allow")
	b.reads("There is no such role, so nothing was allowed.")
	app.nothingCame()
	b.visit(s.origin + "/connections")
	if strings.Contains(b.text(), "Twice installed") {
		t.Error("half of what was refused was done")
	}
	b.visit(consent)
	b.tick(choose)
	b.press("Allow")
	if scope := app.redeem(); scope != strings.Join(all, " ") {
		t.Errorf("the first copy may %q", scope)
	}

	b.visit(other.asks(domain.ScopeRead))
	b.reads("This application is connected to it already and may: See, Hire, Work", "Not asked for now, and not given here: Hire, Work")
	b.looks("consent-less")
	b.tick(choose)
	b.press("Allow")
	for _, scope := range []string{other.redeem(), other.renew()} {
		if scope != domain.ScopeRead {
			t.Errorf("the copy that asked to see may %q", scope)
		}
	}
	if refused := other.call("request_quotes", requestArgs("one")); !strings.Contains(refused, "insufficient-scope") {
		t.Errorf("it hears %s", refused)
	}
	if scope := app.renew(); scope != strings.Join(all, " ") {
		t.Errorf("afterwards the first copy may %q", scope)
	}
}

// refusedSetup proposes an agent that is refused, and connects again for another.
func (s *site) refusedSetup(t *testing.T) {
	b, app := s.open(t), s.application(t, "Second try")
	b.signIn(s, "ada")
	propose := func(name string) (approve string) {
		b.visit(app.asks(domain.ScopeSetup, domain.ScopeRead))
		b.tick(`input[value="new"]`)
		b.press("Allow")
		app.redeem()
		found := approveURL.FindStringSubmatch(app.call("create_agent", map[string]any{"operationKey": "k-" + name, "name": name}))
		if found == nil {
			t.Fatalf("%s cannot be proposed", name)
		}
		return found[1]
	}
	b.visit(propose("Refused"))
	b.press("Refuse")
	if again := app.call("create_agent", map[string]any{"operationKey": "k2", "name": "Other"}); !strings.Contains(again, "setup-agent-exists") {
		t.Errorf("the connection that was refused hears %s", again)
	}
	b.visit(propose("Accepted"))
	b.press("Approve")
	app.soon("whoami", "Accepted")
}
