package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"
)

// A listener follows one feed for as long as it runs, through any number of lost
// connections: it continues from the last cursor it has, and keeps what it heard.
type listener struct {
	feed    string
	origin  func() string // where to connect next
	tokens  []string      // taken in turn, so that no grant opens too many streams
	version string

	mu     sync.Mutex
	cursor string // "" before the first frame
	heard  []occurrence
	opened int // streams
	moved  chan struct{}
}

// follow runs a listener of an agent in the background until the test ends.
func (a *agent) follow(t testing.TB, feed string, origin func() string) *listener {
	t.Helper()
	l := &listener{feed: feed, origin: origin, tokens: a.tokens, version: a.version, moved: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return l
}

func (l *listener) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		c := connection{http: http.DefaultClient, origin: l.origin(), token: l.tokens[n%len(l.tokens)], version: l.version}
		// Whatever ended the stream, the answer is to come back.
		_ = c.listen(ctx, l.params(), l.hear)
		select {
		case <-time.After(10*time.Millisecond + rand.N(20*time.Millisecond)):
		case <-ctx.Done():
		}
	}
}

// params asks for all there is at first, and then for what the listener lacks.
func (l *listener) params() map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	params := map[string]any{"name": l.feed}
	if l.cursor != "" {
		params["cursor"] = l.cursor
	}
	return params
}

func (l *listener) hear(f frame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.Params.Cursor != "" {
		l.cursor = f.Params.Cursor
	}
	switch f.Method {
	case frameActive:
		l.opened++
	case frameEvent:
		l.heard = append(l.heard, f.Params.occurrence)
	}
	close(l.moved)
	l.moved = make(chan struct{})
	return nil
}

// until waits for an occurrence of a kind and request, and returns it.
func (l *listener) until(t testing.TB, kind, requestID string) occurrence {
	t.Helper()
	var found occurrence
	l.wait(t, kind+" of "+requestID, func() bool {
		for _, o := range l.heard {
			if o.Data.Kind == kind && o.Data.RequestID == requestID {
				found = o
				return true
			}
		}
		return false
	})
	return found
}

// active waits until the listener has an open stream.
func (l *listener) active(t testing.TB) {
	t.Helper()
	l.wait(t, "a stream is active", func() bool { return l.opened > 0 })
}

// wait waits until something holds of what the listener heard.
func (l *listener) wait(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !l.comesToHold(holds) {
		t.Fatalf("%s: waited in vain for: %s", l.feed, what)
	}
}

// comesToHold says whether something holds of what the listener heard, in time.
func (l *listener) comesToHold(holds func() bool) bool {
	deadline := time.After(30 * time.Second)
	for {
		l.mu.Lock()
		done, moved := holds(), l.moved
		l.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-moved:
		case <-deadline:
			return false
		}
	}
}

// ids are the events that were heard, in the order they came.
func (l *listener) ids() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for _, o := range l.heard {
		ids = append(ids, o.EventID)
	}
	return ids
}

// feedIDs are the events of a feed as they stand in the database, in order.
func (m *market) feedIDs(t testing.TB, feed, audience string) []string {
	t.Helper()
	return query[string](t, m, `
		SELECT feed || ':' || row_id
		FROM view_feed_3.feed_item
		WHERE board = 'main' AND feed = $1 AND audience = $2
		ORDER BY pos, ord`, feed, audience)
}
