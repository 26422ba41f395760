package delivery_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"sidequest/domain"
	"sidequest/mcp/delivery"
	"sidequest/projections"
)

const fromNow = `"name":"sidequest.inbox","cursor":null`

func paced(change func(*delivery.Pace)) func(*delivery.Config) {
	return func(c *delivery.Config) { change(&c.Pace) }
}

func TestAStreamIsActiveThenSendsWhatComes(t *testing.T) {
	t.Parallel()
	m := open(t)
	l, active := m.main.as("ann").listen(t, fromNow)
	id := m.ask(t, "ann")
	m.quote(t, "bob", id)
	e := l.event(t)
	if e.kind() != "quote.received" || e.Data["requestId"] != string(id) {
		t.Errorf("the event is %+v", e)
	}
	if active.Params.Truncated || active.Params.Cursor == "" || active.Params.Meta["io.modelcontextprotocol/subscriptionId"] != 7.0 {
		t.Errorf("the first frame is %+v", active)
	}
	want := map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}
	for name, value := range want {
		if got := l.header.Get(name); got != value {
			t.Errorf("header %s is %q, want %q", name, got, value)
		}
	}
	polled := m.main.as("ann").poll(t, `"name":"sidequest.inbox"`)
	if diff := cmp.Diff(polled.Events, []occurrence{e}); diff != "" {
		t.Errorf("poll and stream differ (-poll +stream):\n%s", diff)
	}
	if n := m.main.feeds.Stats().RingMisses; n != 0 {
		t.Errorf("the stream read the database itself, %d times", n)
	}
}

func TestALegacyClientHearsAStreamToo(t *testing.T) {
	t.Parallel()
	m := open(t)
	l, _ := m.main.as("ann").legacy().listen(t, fromNow)
	m.quote(t, "bob", m.ask(t, "ann"))
	l.event(t)
}

func TestAStreamResumesAtEveryFrame(t *testing.T) {
	t.Parallel()
	m := open(t)
	id := m.ask(t, "ann")
	l, active := m.main.as("ann").listen(t, fromNow)
	cursor := active.Params.Cursor
	l.close()
	for range 6 {
		m.quote(t, "bob", id)
		m.quote(t, "cat", id)
	}
	var got []string
	for range 12 {
		l, _ := m.main.as(m.another(t)).listen(t, fmt.Sprintf(`"name":"sidequest.inbox","cursor":%q`, cursor))
		e := l.event(t)
		l.close()
		got, cursor = append(got, e.EventID), e.Cursor
	}
	if diff := cmp.Diff(eventIDs(m.rows(t, projections.FeedInbox, string(m.people["ann"].key))), got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestAHeartbeatMovesTheCursorPastRowsOfOthers(t *testing.T) {
	t.Parallel()
	m := open(t, paced(func(p *delivery.Pace) { p.Heartbeat = 20 * time.Millisecond }))
	l, active := m.main.as("bob").listen(t, fromNow)
	m.ask(t, "ann") // public, so not for his inbox
	m.settle(t)
	head := m.main.as("bob").poll(t, fromNow).Cursor
	if head == active.Params.Cursor {
		t.Fatal("the head did not move")
	}
	eventually(t, "a heartbeat carries the head", func() bool {
		f := l.next(t)
		if f.Method != "notifications/events/heartbeat" {
			t.Fatalf("the next frame is %+v, not a heartbeat", f)
		}
		return f.Params.Cursor == head
	})
}

func TestARevokedGrantEndsItsStreamsAndPollsAndNoOthers(t *testing.T) {
	t.Parallel()
	m := open(t)
	other := m.another(t)
	ends, _ := m.main.as("ann").listen(t, fromNow)
	stays, _ := m.main.as(other).listen(t, fromNow)
	polled := m.main.as("ann").pollAside(t, fromNow+`,"timeoutMs":25000`)
	eventually(t, "the poll waits", func() bool { return m.main.feeds.Stats().WaitingPolls == 1 })

	do(t, m, "operator", domain.RevokeGrant{GrantID: m.people["ann"].grant, Reason: "lost"})
	revoked := time.Now()
	if f := ends.next(t); f.Method != "notifications/events/terminated" || f.Params.Error == nil || f.Params.Error.Code != -32003 {
		t.Errorf("the next frame is %+v, not terminated", f)
	}
	if took := time.Since(revoked); took > 5*time.Second {
		t.Errorf("the stream ended after %v", took)
	}
	ends.final(t)
	if a := <-polled; a.Error == nil || a.Error.Code != -32003 {
		t.Errorf("the poll was answered with %s", a.Result)
	}
	m.quote(t, "bob", m.ask(t, "ann"))
	stays.event(t)
	if _, refused := m.main.as("ann").tryListen(t, fromNow); refused == nil || refused.status != http.StatusUnauthorized {
		t.Errorf("a new stream was answered with %+v", refused)
	}
}

func TestAFifthStreamEndsTheOldestOfItsGrant(t *testing.T) {
	t.Parallel()
	m := open(t)
	unrelated, _ := m.main.as(m.another(t)).listen(t, fromNow)
	var streams []*listening
	for range delivery.MaxStreams + 1 {
		l, _ := m.main.as("ann").listen(t, fromNow)
		streams = append(streams, l)
	}
	streams[0].final(t)
	m.quote(t, "bob", m.ask(t, "ann"))
	for _, l := range append(streams[1:], unrelated) {
		l.event(t)
	}
}

func TestAStreamOfAProcessThatIsGoneDoesNotCount(t *testing.T) {
	t.Parallel()
	m := open(t)
	gone, _ := m.main.as("ann").listen(t, fromNow)
	_, err := m.main.pool.Exec(t.Context(), `
		UPDATE live.streams
		SET seen_at = clock_timestamp() - interval '61 seconds'`)
	if err != nil {
		t.Fatal(err)
	}
	for range delivery.MaxStreams {
		m.main.as("ann").listen(t, fromNow)
	}
	m.quote(t, "bob", m.ask(t, "ann"))
	gone.event(t) // it was not ended to make room
}

func TestAGrantThatOpensStreamsWithoutEndIsSlowedDown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		codes delivery.Codes
		want  int
	}{
		{"sketch", delivery.SketchCodes(), -32013},
		{"sep-3415", delivery.SEP3415Codes(), -32025},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := open(t, func(c *delivery.Config) { c.Codes = tt.codes })
			var refused *answer
			opened := 0
			for ; refused == nil && opened < 50; opened++ {
				_, refused = m.main.as("ann").tryListen(t, fromNow)
			}
			if refused == nil || refused.Error.Code != tt.want {
				t.Fatalf("after %d streams the answer is %+v, want %d", opened, refused, tt.want)
			}
			if wait, _ := refused.Error.Data["retryAfterMs"].(float64); wait < 1 || wait > 5000 || refused.header.Get("Retry-After") == "" {
				t.Errorf("the refusal says %v and Retry-After %q", refused.Error.Data, refused.header.Get("Retry-After"))
			}
			m.main.as(m.another(t)).listen(t, fromNow)
		})
	}
}

func TestAStreamEndsAbruptlyAtTheEndOfItsLife(t *testing.T) {
	t.Parallel()
	m := open(t, paced(func(p *delivery.Pace) { p.Life = 50 * time.Millisecond }))
	l, _ := m.main.as("ann").listen(t, fromNow)
	l.ends(t)
}

func TestAProcessThatStopsEndsItsStreamsWithTheFinalResult(t *testing.T) {
	t.Parallel()
	m := open(t)
	l, _ := m.main.as("ann").listen(t, fromNow)
	polled := m.main.as("ann").pollAside(t, fromNow+`,"timeoutMs":25000`)
	eventually(t, "the poll waits", func() bool { return m.main.feeds.Stats().WaitingPolls == 1 })
	m.main.stop()
	l.final(t)
	if a := <-polled; len(a.page(t).Events) != 0 {
		t.Errorf("the poll was answered with %s", a.Result)
	}
	_, refused := m.main.as("bob").tryListen(t, fromNow)
	if refused == nil || refused.status != http.StatusServiceUnavailable {
		t.Errorf("a new stream was answered with %+v", refused)
	}
}

func TestAReaderThatDoesNotReadHoldsUpNobody(t *testing.T) {
	t.Parallel()
	m := open(t)
	m.narrow = true
	p := m.start(t)
	stalled := p.as(m.another(t))
	stalled.via = narrowClient(t)
	res, err := stalled.post(t.Context(), "events/stream", fromNow)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() // and nobody reads it
	reads, _ := p.as("ann").listen(t, fromNow)
	const each = 50 // three times that is more than the connection can hold
	var writers sync.WaitGroup
	for _, name := range names[1:] {
		id := m.ask(t, "ann")
		writers.Go(func() {
			for range each {
				m.quote(t, name, id)
			}
		})
	}
	for range 3 * each {
		reads.event(t)
	}
	writers.Wait()
	if n := p.feeds.Stats().Frames; n > 2*3*each {
		t.Errorf("%d frames were sent, so both streams were read", n)
	}
}

// narrowClient returns a client whose connections take in little that is not read.
func narrowClient(t *testing.T) *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			err = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		}
		return c, err
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestStreamsThatAreAbortedLeaveNothing(t *testing.T) { // not parallel: it counts goroutines
	m := open(t)
	m.main.as("ann").poll(t, fromNow)
	http.DefaultClient.CloseIdleConnections()
	leaks := goleak.IgnoreCurrent()
	var streams []*listening
	for _, name := range names {
		for range delivery.MaxStreams {
			l, _ := m.main.as(name).listen(t, `"name":"sidequest.requests"`)
			streams = append(streams, l)
		}
	}
	if n := m.main.feeds.Stats().OpenStreams; n != 16 {
		t.Errorf("%d streams are open, want 16", n)
	}
	for _, l := range streams {
		l.close()
	}
	eventually(t, "no stream is open", func() bool { return m.main.feeds.Stats().OpenStreams == 0 })
	eventually(t, "no stream is on the list", func() bool { return m.listed(t) == 0 })
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t, leaks)
}

// listed counts the streams that are on the list.
func (m *market) listed(t testing.TB) (n int) {
	t.Helper()
	err := m.main.pool.QueryRow(context.Background(), `
		SELECT count(*)
		FROM live.streams`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
