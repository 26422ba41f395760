package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// How far back feeds reach: a reader without a cursor begins at the look-back,
// and rows older than the retention are not shown to anyone.
const (
	LookBack  = 7 * 24 * time.Hour
	Retention = 14 * 24 * time.Hour
)

// A Start says where a reader wants to begin.
type Start struct {
	Null   bool          // at the head: only what comes from now on
	Cursor string        // "" with Null unset: at the look-back
	MaxAge time.Duration // bounds how far back, 0 for no bound; ignored with Null
}

// Begin returns the place behind which the reader continues. truncated says that
// rows the cursor still had before it cannot be shown: they are too old, or the
// log is not the one the cursor is from. A cursor that was never one of the feed
// is refused; bound is the feed that cursors of this reader belong to.
func (s Selector) Begin(ctx context.Context, db *pgxpool.Pool, c Cursors, bound FeedID, want Start, now time.Time) (p Place, truncated bool, err error) {
	var epoch int
	if want.Cursor != "" && !want.Null {
		if epoch, p, err = c.Decode(bound, want.Cursor); err != nil {
			return Place{}, false, err
		}
	}
	head, err := Head(ctx, db)
	if err != nil {
		return Place{}, false, err
	}
	switch {
	case want.Null:
		return head.Place, false, nil
	case want.Cursor == "":
		p, err = s.placeAt(ctx, db, now.Add(-within(LookBack, want.MaxAge)), head)
		return p, false, err
	case epoch != head.Epoch || head.Place.Less(p):
		p, err = s.placeAt(ctx, db, now.Add(-within(LookBack, want.MaxAge)), head)
		return p, true, err
	}
	floor, err := s.placeAt(ctx, db, now.Add(-within(Retention, want.MaxAge)), head)
	if err != nil || !p.Less(floor) {
		return p, false, err
	}
	older, err := FeedAfter(ctx, db, s.Feeds, p, 1)
	if err != nil {
		return Place{}, false, err
	}
	if len(older) == 1 && !floor.Less(older[0].Place) {
		return floor, true, nil
	}
	return p, false, nil
}

func within(limit, asked time.Duration) time.Duration {
	if asked > 0 {
		return min(limit, asked)
	}
	return limit
}

// skew bounds how much younger a row can be than one behind it: a write has its
// time when it is asked for and its place when it is recorded.
const skew = time.Minute

// placeAt returns the place just before the first row that is not older than t.
// The oldest such row need not be the first; that one is at most skew younger.
func (s Selector) placeAt(ctx context.Context, db *pgxpool.Pool, t time.Time, head FeedHead) (Place, error) {
	p := head.Place
	for _, f := range s.Feeds {
		var first Place
		err := db.QueryRow(ctx, `
			SELECT pos, ord
			FROM feed_item
			WHERE (board, feed, audience) = ($1, $2, $3) AND occurred_at >= $4
				AND occurred_at <= $5::interval + (
					SELECT min(occurred_at)
					FROM feed_item
					WHERE (board, feed, audience) = ($1, $2, $3) AND occurred_at >= $4)
			ORDER BY pos, ord
			LIMIT 1`, f.Board, f.Feed, f.Audience, t, skew).Scan(&first.Pos, &first.Ord)
		if errors.Is(err, pgx.ErrNoRows) {
			continue
		}
		if err != nil {
			return Place{}, fmt.Errorf("find the start of feed %s: %w", f.Feed, err)
		}
		if first = before(first); first.Less(p) {
			p = first
		}
	}
	return p, nil
}

func before(p Place) Place {
	if p.Ord == 0 {
		return endOf(p.Pos - 1)
	}
	return Place{p.Pos, p.Ord - 1}
}
