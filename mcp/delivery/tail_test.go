package delivery

import (
	"testing"

	"sidequest/projections"
)

// rowsOf returns n rows of a feed, at positions of their own from first on.
func rowsOf(f projections.FeedID, first, n int) []projections.FeedRow {
	rows := make([]projections.FeedRow, n)
	for i := range rows {
		rows[i] = projections.FeedRow{FeedID: f, Place: projections.Place{Pos: int64(first + i)}, Kind: "a.b"}
	}
	return rows
}

// newTestTail returns a tail that has taken up the feed at its beginning.
func newTestTail() *tail {
	t := newTail(nil, func(rows []projections.FeedRow, _ int) ([]entry, error) {
		entries := make([]entry, len(rows))
		for i, r := range rows {
			entries[i].row = r
		}
		return entries, nil
	})
	t.stand(projections.FeedHead{Epoch: 1})
	return t
}

// take lets the tail take rows in.
func (t *tail) take(tb testing.TB, rows []projections.FeedRow) {
	tb.Helper()
	if err := t.append(rows, rows[len(rows)-1].Place); err != nil {
		tb.Fatal(err)
	}
}

func (t *tail) hear(s projections.Selector) *listener {
	l := t.listen(s)
	l.line = t.now()
	return l
}

var (
	inboxOfAnn = projections.FeedID{Board: "main", Feed: projections.FeedInbox, Audience: "ann"}
	inboxOfBob = projections.FeedID{Board: "main", Feed: projections.FeedInbox, Audience: "bob"}
	ofAnn      = projections.Selector{Feeds: []projections.FeedID{inboxOfAnn}}
)

func TestTheRingKeepsItsSizeAndSaysWhoIsBehind(t *testing.T) {
	t.Parallel()
	tail := newTestTail()
	late, level := tail.hear(ofAnn), tail.hear(ofAnn)
	const all = 5 * ringSize
	for first := 1; first <= all; first += 500 {
		tail.take(t, rowsOf(inboxOfAnn, first, min(500, all-first+1)))
		for more := true; more; {
			r := tail.next(level, 50)
			if r.behind {
				t.Fatalf("a reader who keeps up is behind at %v", level.place)
			}
			more = r.more
		}
	}
	if n := len(tail.rows); n < ringSize || n >= 2*ringSize {
		t.Errorf("the ring holds %d rows", n)
	}
	if r := tail.next(late, 50); !r.behind || len(r.page) > 0 {
		t.Errorf("a reader who has read nothing gets %d rows and is behind: %v", len(r.page), r.behind)
	}
	late.place = tail.floor
	if r := tail.next(late, 50); r.behind || len(r.page) != 50 || r.page[0].row.Pos != tail.floor.Pos+1 {
		t.Errorf("a reader at the edge of the ring gets %d rows", len(r.page))
	}
}

func TestRowsOfOthersWakeNobodyAndAreNotLookedAt(t *testing.T) {
	t.Parallel()
	tail := newTestTail()
	ann := tail.hear(ofAnn)
	tail.next(ann, 50)
	for first := 1; first <= 3*ringSize; first += 500 {
		tail.take(t, rowsOf(inboxOfBob, first, 500))
	}
	if len(ann.wake) > 0 {
		t.Error("a row of another woke her")
	}
	if r := tail.next(ann, 50); r.behind || len(r.page) > 0 || ann.place != tail.head {
		t.Errorf("she stands at %v and is behind: %v; the head is %v", ann.place, r.behind, tail.head)
	}
}

func TestAReaderAheadOfTheTailNeitherGoesBackNorHearsTwice(t *testing.T) {
	t.Parallel()
	tail := newTestTail()
	ann := tail.hear(ofAnn)
	ann.place = projections.Place{Pos: 7} // read from the database
	tail.next(ann, 50)
	tail.take(t, rowsOf(inboxOfAnn, 1, 10))
	r := tail.next(ann, 50)
	if len(r.page) != 3 || r.page[0].row.Pos != 8 {
		t.Errorf("she gets %d rows from %v on", len(r.page), r.page)
	}
}

func TestRowsThatAReaderDidNotSelectMoveItsPlace(t *testing.T) {
	t.Parallel()
	tail := newTestTail()
	selector := ofAnn
	selector.Kinds = []string{"c.d"}
	ann := tail.hear(selector)
	tail.take(t, rowsOf(inboxOfAnn, 1, 60))
	if len(ann.wake) == 0 {
		t.Error("a row of her feed did not wake her")
	}
	if r := tail.next(ann, 50); len(r.page) > 0 || r.more || ann.place != tail.head {
		t.Errorf("she gets %d rows and stands at %v", len(r.page), ann.place)
	}
}

func TestAnotherHistoryResetsEveryReaderAndLooksAgainForIt(t *testing.T) {
	t.Parallel()
	tail := newTestTail()
	ann := tail.hear(ofAnn)
	tail.take(t, rowsOf(inboxOfAnn, 1, 10))
	tail.next(ann, 50)
	for _, head := range []projections.FeedHead{
		{Epoch: 2, Place: projections.Place{Pos: 20}}, // another epoch
		{Epoch: 2, Place: projections.Place{Pos: 5}},  // a head that went back
	} {
		if _, same := tail.stand(head); same {
			t.Errorf("the history of %v is taken for the one before", head)
		}
		if r := tail.next(ann, 50); !r.reset || len(ann.wake) == 0 {
			t.Errorf("after %v the reader is not told", head)
		}
		ann.line, ann.place = tail.now(), projections.Place{}
		if r := tail.next(ann, 50); !r.behind {
			t.Errorf("after %v the reader skips what is before the head", head)
		}
	}
}

func TestAListenerThatIsForgottenLeavesNothing(t *testing.T) {
	t.Parallel()
	tail := newTestTail()
	tail.forget(tail.hear(ofAnn))
	if len(tail.listeners) > 0 {
		t.Errorf("left: %v", tail.listeners)
	}
}
