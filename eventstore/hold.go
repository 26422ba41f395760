package eventstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// errHeld says that another process holds a checkpoint.
var errHeld = errors.New("another process holds the checkpoint")

// holdLimit is how long a process that stopped while it held a checkpoint keeps it
// from the others.
const holdLimit = 5 * time.Second

// A place is where a consumer stands and how far it may go in one step.
type place struct {
	pos, upTo int64
}

// hold locks the consumer's checkpoint for this transaction, or returns errHeld.
func (s *Store) hold(ctx context.Context, tx pgx.Tx, c Consumer, limit int) (place, error) {
	var at place
	b := &pgx.Batch{}
	// A process that is stopped while it holds the checkpoint must not stop the
	// view: the server ends its transaction.
	b.Queue(`SELECT set_config('idle_in_transaction_session_timeout', $1, true)`, fmt.Sprint(holdLimit.Milliseconds()))
	b.Queue(`SELECT set_config('search_path', $1, true)`, c.Schema+", pg_catalog")
	b.Queue(`
		SELECT c.pos, least(c.pos + $2, h.pos, (
			SELECT min(a.pos)
			FROM log.checkpoints AS a
			WHERE a.name = ANY ($3)))
		FROM log.checkpoints AS c, log.head AS h
		WHERE c.name = $1 AND h.shard = 0
		FOR UPDATE OF c SKIP LOCKED`, c.Name, limit, c.After).
		QueryRow(func(row pgx.Row) error { return row.Scan(&at.pos, &at.upTo) })
	err := tx.SendBatch(ctx, b).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		return place{}, errHeld
	}
	if err != nil {
		return place{}, fmt.Errorf("hold the checkpoint: %w", err)
	}
	return at, nil
}

// evictSilent ends the sessions of the program that hold locks and whose client
// neither reads nor writes. The server does so by itself only between statements;
// a client that was stopped in the middle of one, or vanished, with a page on its
// way to it or a part of a message from it, would hold what it holds for as long
// as its connection seems to be there. Whoever waits for a lock runs this.
const evictSilent = `
	SELECT pg_terminate_backend(pid)
	FROM pg_stat_activity
	WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()
		AND backend_xid IS NOT NULL AND wait_event_type = 'Client'
		AND greatest(query_start, state_change) < clock_timestamp() - $1::interval`

// evict takes a checkpoint from a process that stands still, once it has been held
// for too long. It returns since when it is held.
func (s *Store) evict(ctx context.Context, c Consumer, held time.Time) time.Time {
	if held.IsZero() {
		return time.Now()
	}
	if time.Since(held) < holdLimit {
		return held
	}
	tag, err := s.Pool.Exec(ctx, evictSilent, holdLimit)
	if err != nil {
		s.Log.Error("cannot look who holds a checkpoint", "consumer", c.Name, "error", err)
	} else if tag.RowsAffected() > 0 {
		s.Log.Warn("ended sessions that hold locks and stand still", "consumer", c.Name, "sessions", tag.RowsAffected())
	}
	return held
}
