package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidequest/projections"
)

// TestEveryViewIsRebuiltWhileAgentsWrite runs the command against a market in use,
// and compares what readers see with what was written.
func TestEveryViewIsRebuiltWhileAgentsWrite(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	cast := m.join(t, 2, "ann", "bob")
	ann, bob := cast[0].at(r.origin), cast[1].at(r.origin)
	heard := cast[0].follow(t, projections.FeedInbox, func() string { return r.origin })
	id := read[requested](t, ann.must(t, "request_quotes", requestArgs("r"))).RequestID

	ctx, stop := context.WithCancel(t.Context())
	written := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			if a, err := bob.call(context.Background(), "submit_quote", cast[1].quoteArgs(fmt.Sprintf("q%d", n), id)); err != nil || !a.OK {
				t.Errorf("quote %d: %v, %s", n, err, a.raw)
			}
		}
		written <- n
	}()
	for _, view := range projections.All() {
		rebuilding := launch(t, m.environment(), "rebuild", view.Name)
		rebuilding.until(t, "view "+view.Name+" is new and in use")
		if err := rebuilding.wait(t); err != nil {
			t.Errorf("rebuild %s: %v\n%s", view.Name, err, rebuilding.said())
		}
	}
	stop()
	n := <-written

	eventually(t, "the feed shows every quote", func() bool {
		return len(m.feedIDs(t, projections.FeedInbox, string(cast[0].key))) == n
	})
	want := m.feedIDs(t, projections.FeedInbox, string(cast[0].key))
	heard.wait(t, "every quote", func() bool { return len(heard.heard) >= n })
	if diff := cmp.Diff(want, heard.ids()); diff != "" {
		t.Errorf("what was heard while views were rebuilt (-feed +heard):\n%s", diff)
	}
	quotes := read[projections.QuoteList](t, ann.must(t, "list_quotes", map[string]any{"requestId": id})).Quotes
	last := heard.heard[n-1].Data.Summary
	if len(quotes) != 1 || !strings.Contains(last, string(quotes[0].QuoteID)) {
		t.Errorf("the last of %d quotes is told as %q, and the list has %+v", n, last, quotes)
	}
}

func TestAViewThatDoesNotExistCannotBeRebuilt(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"rebuild"}, {"rebuild", "nonsense"}, {"rebuild", "feed", "agents"}} {
		if err := dispatch(t.Context(), args, nil, nil); err == nil {
			t.Errorf("%v succeeds", args)
		}
	}
}
