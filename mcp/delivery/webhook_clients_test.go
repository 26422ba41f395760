package delivery_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sidequest/mcp/delivery"
	"sidequest/webhook"
)

// The quirks of clients that are about. That of the AI SDK's client, which runs for
// real, is in the tests of the program.

func TestAClientOfTheLegacyEraSubscribesAndLeaves(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	old := m.main.as("ann").legacy()
	s := old.subscribe(t, r.params(`,"cursor":null`))
	if s.RefreshBefore == nil || s.Truncated == nil || s.Cursor == "" {
		t.Errorf("it is told %+v", s)
	}
	m.quote(t, "bob", m.ask(t, "ann"))
	r.next(t)
	for range 2 { // the second time there is nothing to leave
		if a := old.call(t, "events/unsubscribe", r.params("")); a.Error != nil || string(a.Result) != "{}" {
			t.Errorf("it leaves with %s, %+v", a.Result, a.Error)
		}
	}
}

func TestASubscriptionEndsByItsIDOrByWhatItWasMadeWith(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	for _, leave := range []string{`"id":%q`, r.params(`,"arguments":{}`), r.params(``), strings.Replace(r.params(""), `"mode":"webhook",`, "", 1)} {
		s := m.main.as("ann").subscribe(t, r.params(""))
		if strings.Contains(leave, "%q") {
			leave = fmt.Sprintf(leave, s.ID)
			m.main.as("bob").call(t, "events/unsubscribe", leave) // who has no say in it
			if n := m.count(t, `SELECT count(*) FROM hooks.subscriptions`); n != 1 {
				t.Error("another agent ended it")
			}
		}
		if a := m.main.as("ann").call(t, "events/unsubscribe", leave); a.Error != nil {
			t.Errorf("%s: %+v", leave, a.Error)
		}
		if n := m.count(t, `SELECT count(*) FROM hooks.subscriptions`); n != 0 {
			t.Errorf("%s leaves %d subscriptions", leave, n)
		}
	}
}

func TestTheQueryOfAURLIsPartOfWhatNamesASubscription(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	ids := map[string]bool{}
	for _, query := range []string{"", "?mcp_event_subscription=1", "?mcp_event_subscription=2"} {
		for range 2 {
			ids[m.main.as("ann").subscribe(t, strings.Replace(r.params(""), "/hook", "/hook"+query, 1)).ID] = true
		}
	}
	if len(ids) != 3 || r.asked != 3 {
		t.Errorf("there are %d subscriptions, and the endpoint was asked %d times", len(ids), r.asked)
	}
}

func TestTheOrderOfArgumentsIsNoMatter(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	one := m.main.as("ann").subscribe(t, r.params(`,"arguments":{"kinds":["quote.received"],"requestId":"rq_1"}`))
	other := m.main.as("ann").subscribe(t, r.params(`,"arguments":{"requestId":"rq_1", "kinds":[ "quote.received" ]}`))
	if one.ID != other.ID {
		t.Errorf("the same arguments make %s and %s", one.ID, other.ID)
	}
}

func TestCodesAreThoseOfTheDraftThatIsConfigured(t *testing.T) {
	t.Parallel()
	m := open(t, func(c *delivery.Config) { c.Codes = delivery.SEP3415Codes() })
	r := newReceiver(t)
	r.echoes = false
	for params, code := range map[string]int{
		r.params(""): -32027, strings.Replace(r.params(""), `"webhook"`, `"push"`, 1): -32026,
		strings.Replace(r.params(""), "sidequest.inbox", "nothing", 1): -32023,
	} {
		if a := m.main.as("ann").call(t, "events/subscribe", params); a.Error == nil || a.Error.Code != code {
			t.Errorf("%s: %+v, want %d", params, a.Error, code)
		}
	}
}

func TestOnlySelectedRowsOfTheOwnFeedAreDelivered(t *testing.T) {
	t.Parallel()
	m := open(t)
	r, b := newReceiver(t), newReceiver(t)
	mine, other := m.ask(t, "ann"), m.ask(t, "ann")
	m.main.as("ann").subscribe(t, r.params(fmt.Sprintf(`,"cursor":null,"arguments":{"requestId":%q}`, mine)))
	m.main.as("bob").subscribe(t, b.params(`,"cursor":null`))
	for range 60 { // more than a page of what is not selected
		m.quote(t, "bob", other)
	}
	m.quote(t, "cat", mine)
	d := r.next(t)
	if fmt.Sprint(d.Data["requestId"]) != string(mine) {
		t.Errorf("it hears of %s", d.body)
	}
	eventually(t, "the place moves past what was not selected", func() bool {
		lanes, err := m.main.hooks.Lanes(t.Context(), webhook.Owner{Agent: string(m.people["ann"].key), Board: "main"}, "")
		return err == nil && len(lanes) == 1 && !lanes[0].Behind
	})
	if len(r.got)+len(b.got) != 0 {
		t.Error("something else was delivered")
	}
}

func TestDeliveriesAreTheOwnersToSee(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	r.answers(http.StatusRequestEntityTooLarge)
	s := m.main.as("ann").subscribe(t, r.params(`,"cursor":null`))
	m.quote(t, "bob", m.ask(t, "ann"))
	r.next(t)
	ann := webhook.Owner{Agent: string(m.people["ann"].key), Board: "main"}
	eventually(t, "its owner sees it", func() bool {
		dead, err := m.main.hooks.DeadLetters(t.Context(), ann, "", 10)
		return err == nil && len(dead) == 1
	})
	for _, other := range []webhook.Owner{{Agent: string(m.people["bob"].key), Board: "main"}, {Agent: ann.Agent, Board: "another"}, {Operator: "another"}, {}} {
		for _, id := range []string{"", s.ID} {
			lanes, err := m.main.hooks.Lanes(t.Context(), other, id)
			attempts, err2 := m.main.hooks.Attempts(t.Context(), other, id, 10)
			dead, err3 := m.main.hooks.DeadLetters(t.Context(), other, id, 10)
			if len(lanes)+len(attempts)+len(dead) != 0 || err != nil || err2 != nil || err3 != nil {
				t.Errorf("%+v sees %v %v %v", other, lanes, attempts, dead)
			}
		}
	}
	attempts, err := m.main.hooks.Attempts(t.Context(), ann, s.ID, 10)
	if err != nil || len(attempts) != 1 || attempts[0].Status != http.StatusRequestEntityTooLarge || attempts[0].Outcome != "http_4xx" {
		t.Errorf("the attempts are %+v, %v", attempts, err)
	}
}

func FuzzWhateverIsSentAsADeliveryIsAnswered(f *testing.F) {
	for _, seed := range []string{`{}`, `{"mode":"webhook"}`, `{"mode":1,"url":2,"secret":3}`, `{"mode":"webhook","url":"https://127.0.0.1/","secret":"x"}`, `[]`} {
		f.Add(seed)
	}
	m := open(f)
	f.Fuzz(func(t *testing.T, raw string) {
		if !json.Valid([]byte(raw)) {
			return
		}
		if a := m.main.as("ann").call(t, "events/subscribe", `"name":"sidequest.inbox","delivery":`+raw); a.Error == nil || a.Error.Message == "" {
			t.Errorf("%s is answered with %+v", raw, a)
		}
	})
}
