package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidequest/projections"
)

// errHungUp is a client that has heard enough.
var errHungUp = errors.New("hung up")

// TestPollPushAndBothMixedTellTheSame reads one inbox again and again, in pieces
// by random ways over random replicas, while it grows.
func TestPollPushAndBothMixedTellTheSame(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	replicas := []*replica{m.start(t), m.start(t)}
	cast := m.join(t, 60, "ann")
	ann, bob := cast[0], m.join(t, 1, "bob")[0]
	id := read[requested](t, ann.at(replicas[0].origin).must(t, "request_quotes", requestArgs("r"))).RequestID
	quotes, streams := 0, 0
	quote := func(r *replica) {
		quotes++
		bob.at(r.origin).must(t, "submit_quote", bob.quoteArgs(fmt.Sprintf("q%d", quotes), id))
	}
	for range 12 {
		quote(replicas[0])
	}
	rapid.Check(t, func(rt *rapid.T) {
		reader := &reader{params: map[string]any{"name": projections.FeedInbox}}
		for _, way := range rapid.SliceOfN(rapid.SampledFrom([]string{"poll", "push", "write"}), 1, 5).Draw(rt, "ways") {
			r := rapid.SampledFrom(replicas).Draw(rt, "replica")
			c := ann.at(r.origin)
			switch n := rapid.IntRange(1, 6).Draw(rt, "events"); way {
			case "write":
				quote(r)
			case "poll":
				reader.poll(rt, c, n)
			case "push":
				c.token = ann.tokens[streams%len(ann.tokens)] // a grant opens eight streams in a row
				streams++
				reader.push(rt, c, min(n, quotes-len(reader.heard)))
			}
		}
		for len(reader.heard) < quotes {
			reader.poll(rt, ann.at(replicas[0].origin), 100)
		}
		if diff := cmp.Diff(m.feedIDs(t, projections.FeedInbox, string(ann.key)), reader.heard); diff != "" {
			rt.Fatalf("what was heard (-feed +heard):\n%s", diff)
		}
	})
}

// A reader takes one feed piece by piece.
type reader struct {
	params map[string]any // with the cursor of the last piece
	heard  []string
}

// poll takes up to n events, and waits for the first.
func (r *reader) poll(t *rapid.T, c connection, n int) {
	r.params["maxEvents"], r.params["timeoutMs"] = n, 1
	p, err := c.poll(context.Background(), r.params)
	delete(r.params, "maxEvents")
	delete(r.params, "timeoutMs")
	if err != nil || p.Truncated {
		t.Fatalf("poll: %v, %+v", err, p)
	}
	for _, o := range p.Events {
		r.heard = append(r.heard, o.EventID)
	}
	r.params["cursor"] = p.Cursor
}

// push takes n events from a stream and hangs up, whatever else is on its way.
func (r *reader) push(t *rapid.T, c connection, n int) {
	err := c.listen(context.Background(), r.params, func(f frame) error {
		if f.Params.Truncated {
			return errors.New("the stream says truncated")
		}
		if f.Method == frameEvent {
			r.heard = append(r.heard, f.Params.EventID)
			n--
		}
		r.params["cursor"] = f.Params.Cursor
		if n <= 0 {
			return errHungUp
		}
		return nil
	})
	if !errors.Is(err, errHungUp) {
		t.Fatalf("stream: %v", err)
	}
}
