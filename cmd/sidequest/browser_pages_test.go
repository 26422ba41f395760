package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/oauth/signin/devidp"
	"sidequest/secret"
)

// everyPage looks at those pages that the stories do not.
func (s *site) everyPage(t *testing.T) {
	b := s.open(t)
	b.visit(s.origin + "/")
	evaluate[string](b, `document.querySelector("main").insertAdjacentHTML("beforeend", "<img src='/x'><button>x</button>"); document.querySelector("main > button").style = "position: absolute; left: -9px; min-height: 0; height: 9px"; ""`)
	if len(b.accessible()) == 0 || len(b.laidOut()) < 2 {
		t.Error("the checks of pages find nothing on a page full of faults")
	}
	b.visit(s.origin + "/")
	b.reads("Where software agents hire each other", s.origin+"/mcp")
	b.looks("home")
	b.visit(s.origin + "/sign-in")
	b.looks("sign-in")
	b.press("Continue with a ready-made person")
	for _, who := range devidp.People() {
		b.reads(who.Name)
	}
	b.looks("dev-idp")
	key := s.agentOf(t, "ada", strings.Repeat("Überlängenweltmeister", 3))
	app := s.application(t, strings.Repeat("W", 120))
	b.visit(app.asks(domain.ScopeRead, domain.ScopeHire, domain.ScopeWork))
	b.signIn(s, "ada")
	b.tick(fmt.Sprintf(`input[name="agent"][value=%q]`, key))
	b.looks("consent-long")
	b.press("Allow")
	app.redeem()
	for _, name := range []string{"connections", "agents", "approvals", "account"} {
		b.visit(s.origin + "/" + name)
		b.looks(name)
	}
	s.lookAfterDeliveries(t, b, key)
	s.readDocs(t, b)
	b.visit(s.origin + "/authorize?client_id=unknown")
	b.reads("This connection cannot be made")
	b.looks("error-client")
}

// readDocs looks at pages of the documentation and at what is said where there is none.
func (s *site) readDocs(t *testing.T, b *tab) {
	t.Helper()
	for _, name := range []string{"", "/connect", "/errors"} {
		b.visit(s.origin + "/docs" + name)
		b.reads("Your connections")
		b.looks("docs" + strings.ReplaceAll(name, "/", "-"))
	}
	b.visit(s.origin + "/docs/nope")
	b.reads("There is no such page.", "See all pages")
	b.visit(s.origin + "/mcp")
	b.reads("This address is for agents", "Read how to connect")
	b.looks("endpoint")
	b.visit(s.origin + "/sign-in/wallet")
	if evaluate[bool](b, `document.querySelector("button[data-wallet]").checkVisibility()`) {
		t.Error("without a wallet in the browser a button offers to use one")
	}
	b.looks("wallet-none")
}

// lookAfterDeliveries lets an operator see how a webhook fares, and hold it.
func (s *site) lookAfterDeliveries(t *testing.T, b *tab, agent domain.AgentKey) {
	t.Helper()
	b.visit(s.origin + "/deliveries")
	b.reads("Nothing is delivered by webhook")
	const id, event = "sub_0123456789abcdef01234567", "sidequest.inbox:fr_00000000000000000000"
	s.with(t, func(ctx context.Context, store *eventstore.Store, _ secret.Vault) error {
		_, err := store.Pool.Exec(ctx, `
			INSERT INTO hooks.subscriptions (
				sub_id, principal, grant_id, agent_key, operator, board, feed, audience, arguments, kinds, request_id, task_id,
				url, host, secret, controls, epoch, pos, ord, failing_since, last_error, next_at)
			SELECT $1, 'p', grant_id, $2, operator, 'main', 'sidequest.inbox', $2, '{}', '{}', '', '',
				'https://hooks.example.com/<b>hook</b>?key=' || repeat('W', 200), 'hooks.example.com:443', '', false, 1, 0, 0,
				clock_timestamp(), 'timeout', clock_timestamp() + interval '1 hour'
			FROM connection
			WHERE agent_key = $2
			LIMIT 1`, id, agent)
		if err == nil {
			_, err = store.Pool.Exec(ctx, `
				INSERT INTO hooks.attempts (sub_id, event_id, pos, ord, outcome, status, took_ms)
				VALUES ($1, $2, 1, 0, 'http_4xx', 400, 12)`, id, event)
		}
		if err == nil {
			_, err = store.Pool.Exec(ctx, `
				INSERT INTO hooks.dead_letters (sub_id, epoch, event_id, pos, ord, reason, status)
				VALUES ($1, 1, $2, 1, 0, 'http_4xx', 400)`, id, event)
		}
		return err
	})
	b.visit(s.origin + "/deliveries")
	b.reads("hooks.example.com", "retrying", "1 event")
	b.looks("deliveries")
	b.visit(s.origin + "/deliveries/" + id)
	b.reads("https://hooks.example.com/<b>hook</b>", "timeout", event)
	b.looks("delivery")
	b.press("Deliver again")
	b.reads("about to be sent again")
	b.press("Pause deliveries")
	b.reads("paused", "Go on delivering")
	b.press("Go on delivering")
	b.reads("retrying", "Pause deliveries")
	b.visit(s.origin + "/deliveries/sub_another")
	b.reads("There is no such webhook of your agents")
}
