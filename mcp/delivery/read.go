package delivery

import (
	"context"
	"errors"
	"time"

	"sidequest/domain"
	"sidequest/mcp"
	"sidequest/projections"
)

// readyLimit is how long a request waits for a process that has just started.
const readyLimit = 2 * time.Second

// awaitTail refuses with unavailable if the process does not follow the feed.
func (f *Feeds) awaitTail(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	select {
	case <-f.tail.ready:
	case <-ctx.Done():
	}
	if !fired(f.draining) && fired(f.tail.ready) {
		return nil
	}
	return notNow()
}

func notNow() *domain.Error {
	e := domain.Refuse(domain.Unavailable, "the feed cannot be read at the moment; repeat the call")
	e.After = 1
	return e
}

func fired(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// begin puts the listener where a subscription begins. A cursor that is not one
// of the feed is refused as a parameter.
func (f *Feeds) begin(ctx context.Context, l *listener, s subscription) (truncated bool, err error) {
	line := f.tail.now()
	place, truncated, err := l.selector.Begin(ctx, f.DB, f.Cursors, s.feed(), s.start, f.Now())
	if e, ok := errors.AsType[*domain.Error](err); ok && e.Class == domain.Invalid {
		return false, mcp.InvalidParams("params.cursor: %s.", e.Message)
	}
	if err != nil {
		return false, err
	}
	l.line, l.place = line, place
	return truncated, nil
}

// cursor returns the cursor of the listener's place.
func (f *Feeds) cursor(l *listener, feed projections.FeedID) string {
	return f.Cursors.Encode(feed, l.line.epoch, l.place)
}

// page reads rows from the database, encoded, and moves on until there is one or
// the head is reached.
func (f *Feeds) page(ctx context.Context, l *listener, limit int) ([]entry, bool, error) {
	for {
		p, err := l.selector.Page(ctx, f.DB, l.place, limit)
		if err != nil {
			return nil, false, err
		}
		if p.Epoch != l.line.epoch {
			return nil, false, notNow() // until the tail knows
		}
		l.place = p.Checked
		if len(p.Rows) > 0 || !p.More {
			page, err := f.encodeAll(p.Rows, p.Epoch)
			return page, p.More, err
		}
	}
}

// read returns up to limit rows behind the listener's place and moves it. Most
// times they are in the ring; a listener behind it waits for its turn to read the
// database, and looks into the ring again after that, so there is more. truncated
// says that rows before the page cannot be shown any more.
func (f *Feeds) read(ctx context.Context, l *listener, feed projections.FeedID, limit int) (page []entry, more, truncated bool, err error) {
	r := f.tail.next(l, limit)
	switch {
	case r.reset:
		truncated, err = f.resume(ctx, l, feed)
	case r.behind:
		f.misses.Add(1)
		err = f.inTurn(ctx, func() (err error) {
			page, _, err = f.page(ctx, l, limit)
			return err
		})
	default:
		return r.page, r.more, false, nil
	}
	return page, err == nil, truncated, err
}

// resume begins anew at the listener's cursor after the feed was exchanged for
// another, such as one restored from a backup.
func (f *Feeds) resume(ctx context.Context, l *listener, feed projections.FeedID) (truncated bool, err error) {
	s := subscription{l.selector, projections.Start{Cursor: f.cursor(l, feed)}}
	err = f.inTurn(ctx, func() (err error) {
		truncated, err = f.begin(ctx, l, s)
		return err
	})
	return truncated, err
}

// inTurn runs a read of a reader that is behind. Few may run at a time.
func (f *Feeds) inTurn(ctx context.Context, read func() error) error {
	select {
	case f.catchUp <- struct{}{}:
		defer func() { <-f.catchUp }()
		return read()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// encodeAll returns rows with their occurrences: the same bytes in every way of
// delivery. The rows' own data goes, since the occurrences hold it.
func (f *Feeds) encodeAll(rows []projections.FeedRow, epoch int) ([]entry, error) {
	entries := make([]entry, len(rows))
	for i, r := range rows {
		b, err := r.OccurrenceJSON(f.Cursors, f.ChainID, epoch)
		if err != nil {
			return nil, err
		}
		r.Data = nil
		entries[i] = entry{r, b}
	}
	return entries, nil
}
