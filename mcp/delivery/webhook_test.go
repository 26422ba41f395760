package delivery_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAWebhookDeliversWhatComesInOrderAndSigned(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	s := m.main.as("ann").subscribe(t, r.params(`,"cursor":null`))
	if !strings.HasPrefix(s.ID, "sub_") || s.RefreshBefore == nil || s.Truncated == nil || *s.Truncated || !s.DeliveryStatus.Active {
		t.Errorf("the subscription is %+v", s)
	}
	id := m.ask(t, "ann")
	for range 5 {
		m.quote(t, "bob", id)
	}
	var got []string
	for range 5 {
		d := r.next(t)
		if d.header.Get("Webhook-Id") != d.EventID || d.header.Get("X-Mcp-Subscription-Id") != s.ID {
			t.Errorf("the headers are %v", d.header)
		}
		got = append(got, string(d.body))
	}
	polled := m.main.as("ann").poll(t, fmt.Sprintf(`"name":"sidequest.inbox","cursor":%q`, s.Cursor))
	var want []string
	for _, e := range polled.Events {
		want = append(want, e.EventID)
	}
	if len(want) != 5 {
		t.Fatalf("poll has %d events", len(want))
	}
	for i, id := range want {
		if !strings.Contains(got[i], id) {
			t.Errorf("delivery %d is %s, not %s", i, got[i], id)
		}
	}
}

func TestAnEndpointThatFailsLosesNothingAndKeepsTheOrder(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	for _, status := range []int{503, 429, 425, 408, 500, 302} {
		r.answers(status)
		if status == 503 {
			m.main.as("ann").subscribe(t, r.params(`,"cursor":null`))
			id := m.ask(t, "ann")
			for range 3 {
				m.quote(t, "bob", id)
			}
		}
		first := r.next(t)
		again := r.next(t)
		if first.EventID != again.EventID || string(first.body) != string(again.body) {
			t.Errorf("after %d the next delivery is %s, not %s again", status, again.body, first.body)
		}
	}
	r.answers(204)
	seen := map[string]bool{}
	var order []string
	for len(order) < 3 {
		if d := r.next(t); !seen[d.EventID] {
			seen[d.EventID] = true
			order = append(order, d.EventID)
		}
	}
	var want []string
	for _, row := range m.rows(t, "sidequest.inbox", string(m.people["ann"].key)) {
		want = append(want, "sidequest.inbox:"+row.RowID)
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("the order is another: -want +got\n%s", diff)
	}
}

func TestOneRowThatIsRefusedIsGivenUpAndTheNextComes(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	m.main.as("ann").subscribe(t, r.params(`,"cursor":null`))
	id := m.ask(t, "ann")
	m.quote(t, "bob", id)
	poison := r.next(t).EventID
	r.behave(func(d delivered, w http.ResponseWriter) {
		if d.EventID != poison {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	m.quote(t, "bob", id)
	m.quote(t, "bob", id)
	for range 4 {
		r.next(t)
	}
	eventually(t, "one row is given up", func() bool { return m.count(t, `SELECT count(*) FROM hooks.dead_letters`) == 1 })
	r.answers(204)
	r.next(t)
}

func TestRevocationEndsDeliveries(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	r.accepts = []string{"gap", "terminated"}
	token := m.another(t)
	m.main.as(token).subscribe(t, r.params(`,"cursor":null`))
	id := m.ask(t, "ann")
	m.quote(t, "bob", id)
	r.next(t)
	m.revoke(t, strings.TrimPrefix(token, "ann/"))
	m.quote(t, "bob", id)
	if d := r.next(t); d.Type != "terminated" {
		t.Errorf("after the revocation comes %s", d.body)
	}
	eventually(t, "the subscription is gone", func() bool { return m.count(t, `SELECT count(*) FROM hooks.subscriptions`) == 0 })
}

func TestASubscriptionIsRefusedInWordsThatNameTheRule(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	deaf := newReceiver(t)
	deaf.echoes = false
	for name, tt := range map[string]struct {
		params string
		code   int
		says   string
	}{
		"no delivery":       {`"name":"sidequest.inbox"`, -32602, "delivery"},
		"http":              {strings.Replace(r.params(""), "https:", "http:", 1), -32602, "https"},
		"an address":        {strings.Replace(r.params(""), "example.com", "127.0.0.1", 1), -32602, "name its host"},
		"a decimal address": {strings.Replace(r.params(""), "example.com", "2130706433", 1), -32602, "name its host"},
		"a user":            {strings.Replace(r.params(""), "example.com", "me@example.com", 1), -32602, "user"},
		"a fragment":        {strings.Replace(r.params(""), "/hook", "/hook#x", 1), -32602, "fragment"},
		"a short secret":    {strings.Replace(r.params(""), r.secret, "whsec_c2hvcnQ=", 1), -32602, "24 to 64"},
		"another mode":      {strings.Replace(r.params(""), `"webhook"`, `"carrier-pigeon"`, 1), -32014, "mode"},
		"no such event":     {strings.Replace(r.params(""), "sidequest.inbox", "sidequest.gossip", 1), -32011, "no such event"},
		"a bad term":        {r.params(`,"ttlMs":-1`), -32602, "ttlMs"},
		"a bad cursor":      {r.params(`,"cursor":"c1.forged"`), -32602, "cursor"},
		"a deaf endpoint":   {deaf.params(""), -32015, "challenge"},
		"nobody there":      {strings.Replace(r.params(""), "example.com", "example.net", 1), -32015, "challenge"},
	} {
		a := m.main.as("ann").call(t, "events/subscribe", tt.params)
		if a.Error == nil || a.Error.Code != tt.code || !strings.Contains(a.Error.Message, tt.says) {
			t.Errorf("%s: it is answered with %+v %s", name, a.Error, a.Result)
		}
	}
	if n := m.count(t, `SELECT count(*) FROM hooks.subscriptions`); n != 0 {
		t.Errorf("refusals left %d subscriptions", n)
	}
}

func TestAGrantHasTwentyWebhooks(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	at := func(n int) string { return strings.Replace(r.params(""), "/hook", fmt.Sprintf("/hook/%d", n), 1) }
	for n := range 20 {
		m.main.as("ann").subscribe(t, at(n))
	}
	a := m.main.as("ann").call(t, "events/subscribe", at(20))
	if a.Error == nil || a.Error.Code != -32013 || a.Error.Data["max"] != 20.0 {
		t.Errorf("the 21st is answered with %+v", a.Error)
	}
	m.main.as("ann").subscribe(t, at(3))
	m.main.as("ann").call(t, "events/unsubscribe", at(3))
	m.main.as("ann").subscribe(t, at(20))
}

func TestANewSecretSignsBesideTheOldOne(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	m.main.as("ann").subscribe(t, r.params(`,"cursor":null`))
	id := m.ask(t, "ann")
	m.quote(t, "bob", id)
	old := r.secret
	r.next(t)
	r.mu.Lock()
	r.secret = newSecret()
	r.mu.Unlock()
	m.main.as("ann").subscribe(t, r.params(""))
	m.quote(t, "bob", id)
	d := r.next(t)
	for _, secret := range []string{old, r.secret} {
		if err := verify(secret, d.header, d.body); err != nil {
			t.Error(err)
		}
	}
	if r.asked != 1 {
		t.Errorf("the endpoint was asked %d times", r.asked)
	}
}

func TestTheTermIsWhatWasAskedForWithinItsBounds(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	for asked, want := range map[string]time.Duration{
		``: time.Hour, `,"ttlMs":1`: 5 * time.Minute, `,"ttlMs":600000`: 10 * time.Minute, `,"ttlMs":86400000`: 6 * time.Hour, `,"ttlMs":null`: 0,
	} {
		s := m.main.as("ann").subscribe(t, r.params(asked))
		if want == 0 {
			if s.RefreshBefore != nil {
				t.Errorf("a subscription without end ends %s", *s.RefreshBefore)
			}
			continue
		}
		until, err := time.Parse(time.RFC3339, *s.RefreshBefore)
		if got := time.Until(until); err != nil || got > want || got < want-time.Minute {
			t.Errorf("%s lasts %s, not %s", asked, got, want)
		}
	}
}
