package delivery

import (
	"context"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/failpoint"
	"sidequest/projections"
)

const (
	ringSize = 4096 // rows that the tail keeps, at least
	tailPage = 500  // rows read at a time
)

// A tail is the one reader of the feed in a process. It keeps the newest rows of
// all feeds, each encoded once, and wakes those who wait for one.
type tail struct {
	db     *pgxpool.Pool
	encode func([]projections.FeedRow, int) ([]entry, error)
	heard  func(map[projections.FeedID]bool) // told of feeds that have new rows
	ready  chan struct{}                     // closed once it has a head

	mu        sync.RWMutex
	line      line
	rows      []entry           // those in (floor, head], in order
	floor     projections.Place // rows up to here are not kept
	head      projections.Place // all feeds have been checked up to here
	listeners map[projections.FeedID]map[*listener]struct{}
}

// A line is one history of the feed. Places of another one mean nothing on it.
type line struct {
	epoch int // of the log, as cursors carry it
	begun int // counts the histories this process has seen
}

// An entry is a row and its occurrence as JSON.
type entry struct {
	row        projections.FeedRow
	occurrence jsontext.Value
}

// A listener is a reader's place in the feed. It belongs to the reader, but for
// pending, which is the tail's.
type listener struct {
	selector projections.Selector
	wake     chan struct{} // has a value if something came since the last receive
	line     line
	place    projections.Place // the reader has all up to here
	pending  bool              // there may be rows for it between place and the head
}

func newTail(db *pgxpool.Pool, encode func([]projections.FeedRow, int) ([]entry, error)) *tail {
	return &tail{
		db:        db,
		encode:    encode,
		heard:     func(map[projections.FeedID]bool) {},
		ready:     make(chan struct{}),
		listeners: map[projections.FeedID]map[*listener]struct{}{},
	}
}

// listen makes a listener known. A row that becomes visible afterwards wakes it,
// so a reader that listens first and reads then misses none.
func (t *tail) listen(s projections.Selector) *listener {
	l := &listener{selector: s, wake: make(chan struct{}, 1), pending: true}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range s.Feeds {
		if t.listeners[f] == nil {
			t.listeners[f] = map[*listener]struct{}{}
		}
		t.listeners[f][l] = struct{}{}
	}
	return l
}

// forget undoes listen.
func (t *tail) forget(l *listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range l.selector.Feeds {
		delete(t.listeners[f], l)
		if len(t.listeners[f]) == 0 {
			delete(t.listeners, f)
		}
	}
}

// now returns the history of the feed that is valid at the moment. A reader asks
// before it looks for its place, so that a change in between is noticed.
func (t *tail) now() line {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.line
}

// A reading is what a look into the ring gave.
type reading struct {
	page   []entry
	more   bool // there is more behind the page
	behind bool // the place is not in the ring: read the database
	reset  bool // the place means nothing any more: begin anew from its cursor
}

// next returns up to limit rows behind the listener's place and moves it. A
// listener that nothing came for is level with the head without a look at a row.
func (t *tail) next(l *listener, limit int) reading {
	t.mu.RLock()
	defer t.mu.RUnlock()
	switch {
	case l.line != t.line:
		return reading{reset: true}
	case !l.pending:
		l.advance(t.head)
		return reading{}
	case l.place.Less(t.floor):
		return reading{behind: true}
	}
	var r reading
	for i := t.after(l.place); i < len(t.rows); i++ {
		if l.selector.Match(t.rows[i].row) {
			if len(r.page) == limit {
				r.more = true
				return r
			}
			r.page = append(r.page, t.rows[i])
		}
		l.place = t.rows[i].row.Place
	}
	l.advance(t.head)
	l.pending = false
	return r
}

// advance moves the place forward only: a reader that had to read the database
// can be ahead of the tail.
func (l *listener) advance(p projections.Place) {
	if l.place.Less(p) {
		l.place = p
	}
}

// after returns the index of the first kept row behind a place.
func (t *tail) after(p projections.Place) int {
	i, found := slices.BinarySearchFunc(t.rows, p, func(e entry, p projections.Place) int {
		switch {
		case e.row.Less(p):
			return -1
		case p.Less(e.row.Place):
			return 1
		}
		return 0
	})
	if found {
		i++
	}
	return i
}

// catchUp reads what became visible since the last time. Only one goroutine may
// call it.
func (t *tail) catchUp(ctx context.Context) error {
	head, err := projections.Head(ctx, t.db) // before the rows: what is up to here, they include
	if err != nil {
		return err
	}
	at, same := t.stand(head)
	for same && at.Less(head.Place) {
		rows, err := projections.FeedTail(ctx, t.db, at, tailPage)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			at = rows[len(rows)-1].Place
		}
		if len(rows) < tailPage && at.Less(head.Place) {
			at = head.Place
		}
		if err := t.append(rows, at); err != nil {
			return err
		}
		failpoint.Reach(failpoint.FeedTailed)
	}
	return nil
}

// stand returns where the tail stands, and whether the feed is the one it knows.
// One that is not (the first, or one restored from a backup) it takes up at the
// head.
func (t *tail) stand(head projections.FeedHead) (at projections.Place, same bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.ready:
		if t.line.epoch == head.Epoch && !head.Place.Less(t.head) {
			return t.head, true
		}
	default:
		close(t.ready)
	}
	t.line = line{head.Epoch, t.line.begun + 1}
	t.rows, t.floor, t.head = nil, head.Place, head.Place
	for _, set := range t.listeners {
		for l := range set {
			l.pending = true // wherever it begins anew, there may be rows
			l.stir()
		}
	}
	return t.head, false
}

// append takes rows in and wakes whom they may concern.
func (t *tail) append(rows []projections.FeedRow, head projections.Place) error {
	entries, err := t.encode(rows, t.line.epoch)
	if err != nil {
		return err
	}
	feeds := map[projections.FeedID]bool{}
	for _, r := range rows {
		feeds[r.FeedID] = true
	}
	if len(feeds) > 0 {
		t.heard(feeds)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows, t.head = append(t.rows, entries...), head
	if extra := len(t.rows) - ringSize; extra >= ringSize {
		t.floor = t.rows[extra-1].row.Place
		t.rows = slices.Clone(t.rows[extra:])
	}
	for f := range feeds {
		for l := range t.listeners[f] {
			l.pending = true
			l.stir()
		}
	}
	return nil
}

func (l *listener) stir() {
	select {
	case l.wake <- struct{}{}:
	default: // it has not looked since the last time
	}
}
