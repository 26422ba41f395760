package delivery_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidequest/domain"
	"sidequest/mcp/delivery"
	"sidequest/projections"
	"sidequest/webhook"
)

// inbox returns the ids of all there is in ann's inbox.
func (m *market) inbox(t testing.TB) (ids []string) {
	t.Helper()
	for _, row := range m.rows(t, projections.FeedInbox, string(m.people["ann"].key)) {
		ids = append(ids, row.Feed+":"+row.RowID)
	}
	return ids
}

// firsts returns the ids of deliveries in the order in which each came first, once
// there are n. A repeat has the body of the first time.
func (r *receiver) firsts(t testing.TB, n int) (ids []string) {
	t.Helper()
	bodies := map[string]string{}
	for len(ids) < n {
		d := r.next(t)
		if body, seen := bodies[d.EventID]; seen && body != string(d.body) {
			t.Errorf("%s came with two bodies", d.EventID)
		} else if !seen {
			ids = append(ids, d.EventID)
		}
		bodies[d.EventID] = string(d.body)
	}
	return ids
}

func TestOneStray410GivesUpOneRowAndTheSubscriptionGoesOn(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	m.main.as("ann").subscribe(t, r.params(`,"cursor":null`))
	id := m.ask(t, "ann")
	r.answers(http.StatusGone)
	m.quote(t, "bob", id)
	r.next(t)
	r.answers(http.StatusNoContent)
	m.quote(t, "bob", id)
	r.next(t)
	eventually(t, "the row is given up", func() bool { return m.count(t, `SELECT count(*) FROM hooks.dead_letters`) == 1 })
	if n := m.count(t, `SELECT count(*) FROM hooks.subscriptions WHERE state = 'active'`); n != 1 || r.asked != 2 {
		t.Errorf("%d subscriptions are active, and the endpoint was asked %d times", n, r.asked)
	}
}

func TestAnEndpointThatIsGoneIsDisabledAndItsOwnerHears(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	s := m.main.as("ann").subscribe(t, r.params(`,"cursor":null`))
	id := m.ask(t, "ann")
	r.mu.Lock()
	r.echoes = false
	r.mu.Unlock()
	r.answers(http.StatusGone)
	m.quote(t, "bob", id)
	r.next(t)
	var notice occurrence
	eventually(t, "the owner hears", func() bool {
		for _, e := range m.main.as("ann").poll(t, fmt.Sprintf(`"name":"sidequest.inbox","cursor":%q`, s.Cursor)).Events {
			if e.kind() == "webhook.disabled" {
				notice = e
			}
		}
		return notice.EventID != ""
	})
	if next := encode(t, notice.Data["next"]); !strings.Contains(next, s.ID) || !strings.Contains(next, "list_deliveries") {
		t.Errorf("the next step is %s", next)
	}
	m.quote(t, "bob", id)
	if a := m.main.as("ann").call(t, "events/subscribe", r.params("")); a.Error == nil || a.Error.Code != -32015 {
		t.Errorf("without an echo it is taken up again: %s", a.Result)
	}
	r.mu.Lock()
	r.echoes = true
	r.mu.Unlock()
	r.answers(http.StatusNoContent)
	m.main.as("ann").subscribe(t, r.params(fmt.Sprintf(`,"cursor":%q`, s.Cursor)))
	if diff := cmp.Diff(m.inbox(t)[:3], r.firsts(t, 3)); diff != "" {
		t.Errorf("from its old cursor it hears (-want +got)\n%s", diff)
	}
}

func TestAnEndpointThatFailsForLongIsSuspendedAndOneSubscribeWakesIt(t *testing.T) {
	t.Parallel()
	m := open(t, func(c *delivery.Config) {
		c.Hooks.Schedule.SuspendAfter, c.Hooks.Schedule.First, c.Hooks.Schedule.Most = 50*time.Millisecond, 60*time.Millisecond, time.Hour
	})
	r := newReceiver(t)
	m.main.as("ann").subscribe(t, r.params(`,"cursor":null`))
	r.answers(http.StatusServiceUnavailable)
	m.quote(t, "bob", m.ask(t, "ann"))
	eventually(t, "it is suspended and its owner hears", func() bool {
		return m.count(t, `SELECT count(*) FROM hooks.subscriptions WHERE state = 'suspended' AND told = 'suspended'`) == 1
	})
	eventually(t, "the notice is there", func() bool {
		return m.count(t, `SELECT count(*) FROM feed_item WHERE kind = 'webhook.suspended'`) == 1
	})
	r.answers(http.StatusNoContent)
	if s := m.main.as("ann").subscribe(t, r.params("")); !s.DeliveryStatus.Active {
		t.Errorf("after a renewal it is %+v", s)
	}
	if diff := cmp.Diff(m.inbox(t), r.firsts(t, 2)); diff != "" {
		t.Errorf("it hears (-want +got)\n%s", diff)
	}
}

func TestEndpointsThatHangDoNotSlowOthers(t *testing.T) {
	t.Parallel()
	m := open(t)
	hanging, over := newReceiver(t), make(chan struct{})
	defer close(over)
	hanging.behave(func(delivered, http.ResponseWriter) { <-over })
	healthy := newReceiver(t)
	for n := range 2 {
		m.main.as("ann").subscribe(t, strings.Replace(hanging.params(`,"cursor":null`), "example.com", fmt.Sprintf("h%d.example.com", n), 1))
		m.main.as("ann").subscribe(t, strings.Replace(healthy.params(`,"cursor":null`), "/hook", fmt.Sprintf("/hook/%d", n), 1))
	}
	id := m.ask(t, "ann")
	for range 10 {
		m.quote(t, "bob", id)
	}
	began := time.Now()
	for range 2 * 10 {
		healthy.next(t)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("healthy endpoints waited %s", took)
	}
}

func TestADeadLetterIsDeliveredAgainOnDemandWithTheBodyItHad(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	s := m.main.as("ann").subscribe(t, r.params(`,"cursor":null`))
	r.answers(http.StatusRequestEntityTooLarge)
	m.quote(t, "bob", m.ask(t, "ann"))
	first := r.next(t)
	eventually(t, "the row is given up", func() bool { return m.count(t, `SELECT count(*) FROM hooks.dead_letters`) == 1 })
	r.answers(http.StatusNoContent)
	owner := webhook.Owner{Agent: string(m.people["ann"].key), Board: "main"}
	for range 2 {
		if err := m.main.hooks.Redeliver(t.Context(), owner, s.ID, first.EventID); err != nil {
			t.Fatal(err)
		}
	}
	if again := r.next(t); again.EventID != first.EventID || string(again.body) != string(first.body) {
		t.Errorf("it comes again as %s, first as %s", again.body, first.body)
	}
	eventually(t, "it is no dead letter any more", func() bool {
		return m.count(t, `SELECT count(*) FROM hooks.dead_letters`)+m.count(t, `SELECT count(*) FROM hooks.redeliveries`) == 0
	})
	for _, tt := range []struct{ owner, id, event, field string }{
		{"bob", s.ID, first.EventID, "/subscriptionId"}, {"ann", "sub_none", first.EventID, "/subscriptionId"}, {"ann", s.ID, "sidequest.inbox:fr_none", "/eventId"},
	} {
		err := m.main.hooks.Redeliver(t.Context(), webhook.Owner{Agent: string(m.people[tt.owner].key), Board: "main"}, tt.id, tt.event)
		if e, ok := errors.AsType[*domain.Error](err); !ok || e.Class != domain.NotFound || e.Field != tt.field {
			t.Errorf("%+v is answered with %v", tt, err)
		}
	}
}

func TestOperatorsPauseAWebhookAndItGoesOnWhereItStood(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	s := m.main.as("ann").subscribe(t, r.params(`,"cursor":null`))
	owner := webhook.Owner{Operator: "operator"}
	if err := m.main.hooks.Pause(t.Context(), owner, s.ID, true); err != nil {
		t.Fatal(err)
	}
	id := m.ask(t, "ann")
	for range 3 {
		m.quote(t, "bob", id)
	}
	m.settle(t)
	if lanes, err := m.main.hooks.Lanes(t.Context(), owner, ""); err != nil || len(lanes) != 1 || lanes[0].Standing() != "paused" || !lanes[0].Behind {
		t.Errorf("the webhooks are %+v, %v", lanes, err)
	}
	if len(r.got) != 0 {
		t.Error("something was delivered")
	}
	if err := m.main.hooks.Pause(t.Context(), webhook.Owner{Operator: "another"}, s.ID, false); domain.CodeOf(err) != string(domain.NotFound) {
		t.Errorf("another operator is answered with %v", err)
	}
	if err := m.main.hooks.Pause(t.Context(), owner, s.ID, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m.inbox(t), r.firsts(t, 3)); diff != "" {
		t.Errorf("it hears (-want +got)\n%s", diff)
	}
}

func TestAQuietSubscriptionOfARevokedGrantEnds(t *testing.T) {
	t.Parallel()
	m := open(t)
	r, deaf := newReceiver(t), newReceiver(t)
	r.accepts = []string{"gap", "terminated"}
	token := m.another(t)
	m.main.as(token).subscribe(t, r.params(`,"cursor":null`))
	m.main.as(token).subscribe(t, deaf.params(`,"cursor":null`))
	m.revoke(t, strings.TrimPrefix(token, "ann/"))
	if d := r.next(t); d.Type != "terminated" || !strings.Contains(string(d.body), "-32003") {
		t.Errorf("it hears %s", d.body)
	}
	eventually(t, "both are gone", func() bool { return m.count(t, `SELECT count(*) FROM hooks.subscriptions`) == 0 })
	if len(deaf.got) != 0 {
		t.Errorf("who did not ask for it hears %s", (<-deaf.got).body)
	}
}

func TestAfterARestoreAReceiverThatTakesItHearsOfTheGap(t *testing.T) {
	t.Parallel()
	m := open(t)
	r, plain := newReceiver(t), newReceiver(t)
	r.accepts = []string{"gap", "terminated"}
	m.main.as("ann").subscribe(t, r.params(`,"cursor":null`))
	m.main.as("ann").subscribe(t, plain.params(`,"cursor":null`))
	m.quote(t, "bob", m.ask(t, "ann"))
	r.next(t)
	plain.next(t)
	eventually(t, "both are level", func() bool {
		return m.count(t, `SELECT count(*) FROM hooks.subscriptions WHERE owner IS NULL AND delivered_at IS NOT NULL`) == 2
	})
	if _, err := m.main.pool.Exec(t.Context(), `UPDATE hooks.subscriptions SET epoch = epoch + 7`); err != nil {
		t.Fatal(err)
	}
	gap := r.next(t)
	var envelope struct {
		Type   string `json:"type"`
		Cursor string `json:"cursor"`
	}
	if err := json.Unmarshal(gap.body, &envelope); err != nil || envelope.Type != "gap" || envelope.Cursor == "" {
		t.Errorf("it hears %s", gap.body)
	}
	eventually(t, "the other hears when it renews", func() bool { return *m.main.as("ann").subscribe(t, plain.params("")).Truncated })
}

func TestALapsedSubscriptionIsSilentAndBeginsAnewWhereAsked(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	s := m.main.as("ann").subscribe(t, r.params(`,"cursor":null`))
	if _, err := m.main.pool.Exec(t.Context(), `UPDATE hooks.subscriptions SET expires_at = clock_timestamp() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	id := m.ask(t, "ann")
	m.quote(t, "bob", id)
	m.quote(t, "bob", id)
	m.settle(t)
	if len(r.got) != 0 {
		t.Error("a lapsed subscription delivers")
	}
	m.main.as("ann").subscribe(t, r.params(fmt.Sprintf(`,"cursor":%q`, s.Cursor)))
	if diff := cmp.Diff(m.inbox(t), r.firsts(t, 2)); diff != "" {
		t.Errorf("it hears (-want +got)\n%s", diff)
	}
}

// TestWhateverReceiversDoNothingIsLostOrOutOfOrder has receivers misbehave by
// chance, over two processes that both deliver, while agents write.
func TestWhateverReceiversDoNothingIsLostOrOutOfOrder(t *testing.T) {
	t.Parallel()
	m := open(t)
	m.start(t)
	id := m.ask(t, "ann")
	var n atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		r := newReceiver(t)
		statuses := rapid.SliceOfN(rapid.SampledFrom([]int{200, 200, 204, 500, 503, 429, 302, 408}), 5, 30).Draw(rt, "statuses")
		var at atomic.Int64
		r.behave(func(_ delivered, w http.ResponseWriter) {
			i := at.Add(1) - 1
			w.WriteHeader(statuses[min(int(i), len(statuses)-1)])
			if int(i) >= len(statuses)-1 {
				r.behave(nil)
			}
		})
		s := m.main.as("ann").subscribe(t, r.params(fmt.Sprintf(`,"cursor":null,"arguments":{"requestId":%q}`, id)))
		writes := rapid.IntRange(1, 12).Draw(rt, "writes")
		before := len(m.inbox(t))
		for range writes {
			m.quote(t, "bob", id)
			n.Add(1)
		}
		if diff := cmp.Diff(m.inbox(t)[before:], r.firsts(t, writes)); diff != "" {
			rt.Fatalf("it hears (-want +got)\n%s", diff)
		}
		m.main.as("ann").call(t, "events/unsubscribe", fmt.Sprintf(`"id":%q`, s.ID))
	})
}

// TestPollPushAndWebhookTellTheSameFromOneCursor starts all three at one cursor.
func TestPollPushAndWebhookTellTheSameFromOneCursor(t *testing.T) {
	t.Parallel()
	m := open(t)
	other := m.start(t)
	id := m.ask(t, "ann")
	for range 30 {
		m.quote(t, "bob", id)
	}
	m.settle(t)
	start := m.main.as("ann").poll(t, `"name":"sidequest.inbox","maxEvents":7`)
	from := fmt.Sprintf(`"name":"sidequest.inbox","cursor":%q`, start.Cursor)
	want := m.inbox(t)[7:]

	polled := follower{client: m.main.as("ann"), name: "sidequest.inbox", cursor: start.Cursor}
	for polled.poll(t, 4) {
	}
	pushed, _ := other.as("ann").listen(t, from)
	r := newReceiver(t)
	r.behave(func() func(delivered, http.ResponseWriter) {
		var n atomic.Int64
		return func(_ delivered, w http.ResponseWriter) {
			if n.Add(1)%3 == 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
	}())
	other.as("ann").subscribe(t, r.params(fmt.Sprintf(`,"cursor":%q`, start.Cursor)))

	var byPoll, byPush []string
	for _, e := range polled.heard {
		byPoll = append(byPoll, e.EventID)
	}
	for range want {
		byPush = append(byPush, pushed.event(t).EventID)
	}
	byHook := r.firsts(t, len(want))
	if !slices.Equal(want, byPoll) || !slices.Equal(want, byPush) || !slices.Equal(want, byHook) {
		t.Errorf("want %v\npoll %v\npush %v\nhook %v", want, byPoll, byPush, byHook)
	}
}

// TestALaneThatWasTakenOverIsNotWrittenToByItsFormerOwner stands in for a process
// that was stopped for longer than its lease.
func TestALaneThatWasTakenOverIsNotWrittenToByItsFormerOwner(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := newReceiver(t)
	m.main.as("ann").subscribe(t, r.params(`,"cursor":null`))
	inFlight, goOn := make(chan struct{}, 1), make(chan struct{})
	r.behave(func(delivered, http.ResponseWriter) {
		inFlight <- struct{}{}
		<-goOn
	})
	m.quote(t, "bob", m.ask(t, "ann"))
	<-inFlight
	var fence, pos int64
	err := m.main.pool.QueryRow(t.Context(), `
		UPDATE hooks.subscriptions
		SET fence = fence + 1, owner = 'another', lease_until = clock_timestamp() + interval '1 second'
		RETURNING fence, pos`).Scan(&fence, &pos)
	if err != nil {
		t.Fatal(err)
	}
	r.behave(nil)
	close(goOn)
	first := r.next(t)
	if n := m.count(t, `SELECT count(*) FROM hooks.subscriptions WHERE owner = 'another' AND fence = $1 AND pos = $2`, fence, pos); n != 1 {
		t.Error("the former owner wrote")
	}
	if again := r.next(t); again.EventID != first.EventID {
		t.Errorf("the next owner begins with %s, not %s", again.EventID, first.EventID)
	}
}
