package delivery_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidequest/mcp/delivery"
	"sidequest/projections"
)

func TestAWriteOnOneProcessReachesAStreamOnAnother(t *testing.T) {
	t.Parallel()
	m := open(t)
	other := m.start(t, paced(func(p *delivery.Pace) { p.Sweep = time.Hour })) // rings alone must do
	l, _ := other.as("ann").listen(t, fromNow)
	polled := other.as("ann").pollAside(t, fromNow+`,"timeoutMs":25000`)
	eventually(t, "the poll waits", func() bool { return other.feeds.Stats().WaitingPolls == 1 })
	m.quote(t, "bob", m.ask(t, "ann"))
	e := l.event(t)
	a := <-polled
	if diff := cmp.Diff(a.page(t).Events, []occurrence{e}); diff != "" {
		t.Errorf("the poll and the stream differ (-poll +stream):\n%s", diff)
	}
}

func TestALostRingDelaysAStreamByNoMoreThanASweep(t *testing.T) {
	t.Parallel()
	m := open(t)
	m.prefix, m.idle = "deaf", true // it hears nothing of the others
	deaf := m.start(t, paced(func(p *delivery.Pace) { p.Sweep = 50 * time.Millisecond }))
	l, _ := deaf.as("ann").listen(t, fromNow)
	m.quote(t, "bob", m.ask(t, "ann"))
	l.event(t)
}

func TestTheLimitOfStreamsHoldsOverAllProcesses(t *testing.T) {
	t.Parallel()
	m := open(t)
	other := m.start(t)
	oldest, _ := m.main.as("ann").listen(t, fromNow)
	var stay []*listening
	for range delivery.MaxStreams - 1 {
		l, _ := other.as("ann").listen(t, fromNow)
		stay = append(stay, l)
	}
	fifth, _ := other.as("ann").listen(t, fromNow)
	oldest.final(t)
	m.quote(t, "bob", m.ask(t, "ann"))
	for _, l := range append(stay, fifth) {
		l.event(t)
	}
}

func TestAStreamWhoseEndWasNotHeardEndsWhenItIsRenewed(t *testing.T) {
	t.Parallel()
	m := open(t, paced(func(p *delivery.Pace) { p.Renewal = 50 * time.Millisecond }))
	m.prefix, m.idle = "deaf", true
	deaf := m.start(t)
	oldest, _ := m.main.as("ann").listen(t, fromNow)
	for range delivery.MaxStreams {
		deaf.as("ann").listen(t, fromNow)
	}
	oldest.final(t)
}

func TestStreamsGoOnOverARebuildOfTheFeed(t *testing.T) {
	t.Parallel()
	m := open(t)
	id := m.ask(t, "ann")
	l, _ := m.main.as("ann").listen(t, fromNow)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for range 100 {
			m.quote(t, "bob", id)
		}
	}()
	if err := projections.Feed.Rebuild(t.Context(), m.main.store, func(int64, int64) {}); err != nil {
		t.Fatal(err)
	}
	<-written
	var got []string
	for range 100 {
		got = append(got, l.event(t).EventID)
	}
	if diff := cmp.Diff(eventIDs(m.rows(t, projections.FeedInbox, string(m.people["ann"].key))), got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// restore makes the feed look as after a restore from a backup.
func (m *market) restore(t *testing.T, sql string) {
	t.Helper()
	_, err := m.main.pool.Exec(context.Background(), fmt.Sprintf(`
		UPDATE log.checkpoints
		SET epoch = epoch + 1
		WHERE name = '%s'; %s`, projections.Feed.Checkpoint(), sql))
	if err != nil {
		t.Fatal(err)
	}
}

func TestAStreamOverARestoreSaysThatItIsTruncated(t *testing.T) {
	t.Parallel()
	m := open(t, paced(func(p *delivery.Pace) { p.Sweep = 20 * time.Millisecond }))
	id := m.ask(t, "ann")
	l, before := m.main.as("ann").listen(t, fromNow)
	m.quote(t, "bob", id)
	first := l.event(t)
	m.restore(t, "")
	f := l.next(t)
	if f.Method != "notifications/events/active" || !f.Params.Truncated || f.Params.Cursor == before.Params.Cursor {
		t.Fatalf("the next frame is %+v, not active and truncated", f)
	}
	if again := l.event(t); again.EventID != first.EventID || again.Cursor == first.Cursor {
		t.Errorf("the look-back begins with %+v", again)
	}
	rest := m.main.as("ann").poll(t, fmt.Sprintf(`"name":"sidequest.inbox","cursor":%q`, f.Params.Cursor))
	if len(rest.Events) != 1 || rest.Truncated {
		t.Errorf("the fresh cursor continues with %+v", rest)
	}
	old := m.main.as("ann").poll(t, fmt.Sprintf(`"name":"sidequest.inbox","cursor":%q`, first.Cursor))
	if !old.Truncated {
		t.Errorf("a cursor from before continues with %+v", old)
	}
}

func TestAStreamThatCannotReadSaysSoStaysAndGoesOn(t *testing.T) {
	t.Parallel()
	m := open(t, paced(func(p *delivery.Pace) { p.Sweep, p.Heartbeat = 20*time.Millisecond, 20*time.Millisecond }))
	m.quote(t, "bob", m.ask(t, "ann"))
	m.settle(t)
	l, _ := m.main.as("ann").listen(t, fromNow)
	schema := projections.Feed.Schema()
	m.restore(t, "ALTER SCHEMA "+schema+" RENAME TO away")

	seen := map[string]int{}
	for seen["notifications/events/error"] == 0 || seen["notifications/events/heartbeat"] < 3 {
		seen[l.next(t).Method]++
	}
	if _, err := m.main.pool.Exec(t.Context(), "ALTER SCHEMA away RENAME TO "+schema); err != nil {
		t.Fatal(err)
	}
	for seen["notifications/events/event"] == 0 {
		seen[l.next(t).Method]++
	}
	if seen["notifications/events/error"] != 1 || seen["notifications/events/active"] != 1 {
		t.Errorf("frames: %v", seen)
	}
}
