package oauth

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Uses remembers when grants were last used, to the minute, for their operators to
// see. Calls only leave a note in memory; Run writes the notes down, once a minute
// for each grant and in one statement. What a process that ends has not written
// yet is lost, and nothing depends on it.
type Uses struct {
	db *pgxpool.Pool

	mu      sync.Mutex
	noted   map[string]time.Time // not written yet
	written map[string]time.Time // within the last minute
}

const (
	usePrecision = time.Minute
	useFlush     = 10 * time.Second
)

// NewUses returns the memory of one process.
func NewUses(db *pgxpool.Pool) *Uses {
	return &Uses{db: db, noted: map[string]time.Time{}, written: map[string]time.Time{}}
}

// Note remembers that a grant is being used now.
func (u *Uses) Note(grantID string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Sub(u.written[grantID]) >= usePrecision {
		u.noted[grantID] = now
	}
}

// Run writes notes down until ctx is done. What cannot be written is tried again
// and reported by report.
func (u *Uses) Run(ctx context.Context, report func(error)) {
	tick := time.NewTicker(useFlush)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if err := u.Flush(ctx, now); err != nil && ctx.Err() == nil {
				report(err)
			}
		}
	}
}

// Flush writes down what was noted.
func (u *Uses) Flush(ctx context.Context, now time.Time) error {
	ids, times := u.due(now)
	if len(ids) == 0 {
		return nil
	}
	_, err := u.db.Exec(ctx, `
		INSERT INTO auth.grant_use AS u (grant_id, used_at)
		SELECT grant_id, used_at
		FROM unnest($1::text[], $2::timestamptz[]) AS n(grant_id, used_at)
		ON CONFLICT (grant_id) DO UPDATE
		SET used_at = excluded.used_at
		WHERE u.used_at <= excluded.used_at - $3::interval`, ids, times, usePrecision)
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, id := range ids {
		if err == nil {
			u.written[id] = times[i]
		} else if u.noted[id].IsZero() {
			u.noted[id] = times[i]
		}
	}
	if err != nil {
		return fmt.Errorf("write down when grants were used: %w", err)
	}
	return nil
}

// due takes the notes, and forgets what was written long ago.
func (u *Uses) due(now time.Time) (ids []string, times []time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, at := range u.noted {
		ids, times = append(ids, id), append(times, at)
	}
	clear(u.noted)
	for id, at := range u.written {
		if now.Sub(at) >= usePrecision {
			delete(u.written, id)
		}
	}
	return ids, times
}
