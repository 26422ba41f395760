package main

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"sidequest/eventstore"
	"sidequest/projections"
	"sidequest/secret"
)

func TestAWriteOnOneReplicaReachesAStreamOfAnother(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	one, two := m.start(t), m.start(t)
	cast := m.join(t, 1, "ann", "bob")
	heard := cast[1].follow(t, projections.FeedRequests, func() string { return two.origin })
	heard.active(t)
	for _, key := range []string{"a", "b", "c"} {
		id := read[requested](t, cast[0].at(one.origin).must(t, "request_quotes", requestArgs(key))).RequestID
		heard.until(t, "request.opened", id)
	}
}

func TestATokenMintedBesideOneReplicaWorksAtOnceOnAll(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	one, two := m.start(t), m.start(t)
	for _, name := range []string{"ann", "bob", "cat"} {
		newcomer := m.join(t, 1, name)[0]
		for _, r := range []*replica{two, one} {
			newcomer.at(r.origin).must(t, "whoami", nil)
		}
		// What it writes on one, it reads on the other at once.
		id := read[requested](t, newcomer.at(one.origin).must(t, "request_quotes", requestArgs("r"))).RequestID
		list := read[projections.RequestList](t, newcomer.at(two.origin).must(t, "list_quote_requests", map[string]any{"mine": true}))
		if len(list.Requests) != 1 || string(list.Requests[0].RequestID) != id {
			t.Errorf("%s opened %s and reads %+v", name, id, list.Requests)
		}
	}
}

// A held stream is one that a test watches without coming back to it.
type held struct {
	frames chan frame // closed at the end
	end    error      // why, once frames is closed
	close  context.CancelFunc
}

// hold opens a stream at the head of a feed and waits until it is active.
func (c connection) hold(t testing.TB, feed string) *held {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h := &held{frames: make(chan frame, 100), close: cancel}
	t.Cleanup(cancel)
	go func() {
		defer close(h.frames)
		h.end = c.listen(ctx, map[string]any{"name": feed, "cursor": nil}, func(f frame) error {
			h.frames <- f
			return nil
		})
	}()
	if f, open := h.next(t); !open || f.Method != frameActive {
		t.Fatalf("the stream begins with %+v, %v", f, h.end)
	}
	return h
}

// next returns the next frame, or false at the end of the stream.
func (h *held) next(t testing.TB) (frame, bool) {
	t.Helper()
	select {
	case f, open := <-h.frames:
		return f, open
	case <-time.After(30 * time.Second):
		t.Fatal("nothing comes on the stream")
	}
	panic("unreachable")
}

// endsInOrder expects the final result and the end.
func (h *held) endsInOrder(t testing.TB) {
	t.Helper()
	if f, open := h.next(t); !open || f.Result == nil {
		t.Errorf("the stream ends with %+v, want its final result", f)
	}
	if f, open := h.next(t); open || h.end != nil {
		t.Errorf("after its final result the stream goes on with %+v, %v", f, h.end)
	}
}

func TestAFifthStreamOfAGrantEndsItsOldestOnWhateverReplica(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	one, two := m.start(t), m.start(t)
	ann := m.join(t, 1, "ann")[0]
	var streams []*held
	for i := range 6 {
		origin := one.origin
		if i%2 == 1 {
			origin = two.origin
		}
		streams = append(streams, ann.at(origin).hold(t, projections.FeedRequests))
	}
	streams[0].endsInOrder(t)
	streams[1].endsInOrder(t)
	id := read[requested](t, ann.at(one.origin).must(t, "request_quotes", requestArgs("r"))).RequestID
	for i, h := range streams[2:] {
		if f, open := h.next(t); !open || f.Params.Data.RequestID != id {
			t.Errorf("stream %d of four: %+v, %v", i+1, f, h.end)
		}
	}
}

func TestRevokedAccessEndsStreamsOfAllReplicasWithinASecond(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	one, two := m.start(t), m.start(t)
	cast := m.join(t, 2, "ann", "bob")
	ann, bob := cast[0], cast[1]
	again := ann.at(two.origin)
	again.token = ann.tokens[1]
	streams := []*held{ann.at(one.origin).hold(t, projections.FeedInbox), again.hold(t, projections.FeedRequests)}
	spared := bob.at(two.origin).hold(t, projections.FeedRequests)

	m.with(t, func(ctx context.Context, store *eventstore.Store, _ secret.Vault) error {
		n, err := revokeTokens(ctx, store, "ann")
		if n != 2 {
			t.Errorf("%d grants were revoked, want 2", n)
		}
		return err
	})
	revoked, late := time.Now(), lateness()
	for _, h := range streams {
		if f, open := h.next(t); !open || f.Method != frameTerminated || f.Params.Error.Code != -32003 {
			t.Errorf("the stream of a revoked grant says %+v, %v", f, h.end)
		}
		h.endsAfterTermination(t)
	}
	for _, r := range []*replica{one, two} {
		eventually(t, "a revoked token is refused", func() bool {
			status, _ := ann.at(r.origin).rest(t, "whoami", nil)
			return status == http.StatusUnauthorized
		})
	}
	if took := time.Since(revoked); took > time.Second+late() {
		t.Errorf("all access ended %s after the revocation", took)
	}
	bob.at(one.origin).must(t, "request_quotes", requestArgs("r"))
	if f, open := spared.next(t); !open || f.Method != frameEvent {
		t.Errorf("the stream of another agent: %+v, %v", f, spared.end)
	}
}

func (h *held) endsAfterTermination(t testing.TB) {
	t.Helper()
	for {
		f, open := h.next(t)
		if !open {
			return
		}
		if f.Result == nil {
			t.Errorf("after it was terminated the stream says %+v", f)
		}
	}
}

// allAtOnce sends one write many times, over several servers, and returns what
// was answered.
func allAtOnce(t testing.TB, n int, a *agent, origins []string, tool string, args map[string]any) []answer {
	t.Helper()
	answers := make([]answer, n)
	var sending sync.WaitGroup
	for i := range n {
		sending.Go(func() {
			var err error
			if answers[i], err = a.at(origins[i%len(origins)]).call(context.Background(), tool, args); err != nil {
				t.Errorf("write %d: %v", i, err)
			}
		})
	}
	sending.Wait()
	return answers
}

func TestFiftyIdenticalWritesOnTwoReplicasHaveOneEffectAndOneAnswer(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	one, two := m.start(t), m.start(t)
	ann := m.join(t, 1, "ann")[0]
	for _, key := range []string{"first", "second", "third"} {
		answers := allAtOnce(t, 50, ann, []string{one.origin, two.origin}, "request_quotes", requestArgs(key))
		for i, a := range answers {
			if !a.OK || a.raw != answers[0].raw {
				t.Errorf("write %d was answered %s, the first %s", i, a.raw, answers[0].raw)
			}
		}
	}
	if n := m.count(t, "request.opened"); n != 3 {
		t.Errorf("three writes, each sent 50 times, opened %d requests", n)
	}
}

// count is how many events of a type there are.
func (m *market) count(t testing.TB, eventType string) int {
	t.Helper()
	return query[int](t, m, `SELECT count(*) FROM log.events WHERE type = $1`, eventType)[0]
}
