package delivery_test

import (
	"testing"
	"time"

	"sidequest/domain"
	"sidequest/mcp/delivery"
)

const toTools = `"notifications":{"toolsListChanged":true}`

// hearTools opens subscriptions/listen and reads up to the first change.
func (c client) hearTools(t testing.TB) *listening {
	t.Helper()
	l, refused := c.open(t, "subscriptions/listen", toTools)
	if refused != nil {
		t.Fatalf("listen: %d %+v", refused.status, refused.Error)
	}
	for _, want := range []string{"notifications/subscriptions/acknowledged", "notifications/tools/list_changed"} {
		if f := l.next(t); f.Method != want || f.Params.Meta["io.modelcontextprotocol/subscriptionId"] != 7.0 {
			t.Fatalf("the frame is %+v, not %s", f, want)
		}
	}
	return l
}

func (p *process) listens(t testing.TB, grant string) bool {
	t.Helper()
	held, err := p.feeds.Listens(t.Context(), grant)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func TestEveryProcessKnowsWhichGrantsListen(t *testing.T) {
	t.Parallel()
	m := open(t)
	other := m.start(t)
	ann, bob := m.people["ann"].grant, m.people["bob"].grant
	m.main.as("ann").listen(t, fromNow) // a stream of events is none that listens
	if other.listens(t, ann) {
		t.Error("ann listens before she does")
	}
	l := m.main.as("ann").hearTools(t)
	if !other.listens(t, ann) || !m.main.listens(t, ann) || other.listens(t, bob) {
		t.Error("the processes do not know that ann listens and bob does not")
	}
	l.close()
	eventually(t, "nobody takes ann for a listener", func() bool { return !other.listens(t, ann) })
}

func TestListenersAreCountedApartAndTheFifthEndsTheOldest(t *testing.T) {
	t.Parallel()
	m := open(t)
	other := m.start(t)
	oldest := m.main.as("ann").hearTools(t)
	for range delivery.MaxStreams - 1 {
		other.as("ann").hearTools(t)
	}
	events, _ := m.main.as("ann").listen(t, fromNow)
	bobs := m.main.as("bob").hearTools(t)
	fifth := other.as("ann").hearTools(t)
	oldest.final(t)
	m.quote(t, "bob", m.ask(t, "ann"))
	events.event(t)
	do(t, m, "operator", domain.RevokeGrant{GrantID: m.people["ann"].grant, Reason: "lost"})
	fifth.final(t)
	if n := other.feeds.Stats().OpenStreams; n != 0 {
		t.Errorf("%d listeners are counted as streams of events", n)
	}
	m.main.stop()
	bobs.final(t)
}

func TestAListenerIsGoneAbruptlyAfterItsTime(t *testing.T) {
	t.Parallel()
	m := open(t, paced(func(p *delivery.Pace) { p.Life = 100 * time.Millisecond }))
	l := m.main.as("ann").hearTools(t)
	l.ends(t)
}
