package eventstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
)

// Follow calls each with the events after a position, in order, for memory that
// mirrors the log in every process. It also calls it with no events when it has
// looked and there were none, at least twice a second, so that the memory knows
// how fresh it is: asked is when the look began.
//
// It returns nil once ctx is done, and an error if the log was exchanged for
// another one: then the memory is of something that did not happen, and the
// process has to begin anew.
func (s *Store) Follow(ctx context.Context, after int64, each func(events []Recorded, asked time.Time)) error {
	var seen messageID // where the log ended at the last look
	rang, stop := s.Wake.Listen(TopicLog)
	defer stop()
	for ctx.Err() == nil {
		asked := time.Now()
		now, err := s.end(ctx) // before the events: what is up to here, they include
		if err == nil && (now.pos < after || seen.epoch > 0 && !now.continues(seen)) {
			return errExchanged
		}
		var events []Recorded
		if err == nil {
			events, err = s.Read(ctx, after, pageEvents)
		}
		if err != nil {
			if ctx.Err() == nil {
				s.Log.Error("cannot follow the log", "after", after, "error", err)
			}
			wait(ctx, nil, idlePoll)
			continue
		}
		seen = now
		each(events, asked)
		if len(events) == 0 {
			wait(ctx, rang, idlePoll)
			continue
		}
		after = events[len(events)-1].Position
	}
	return nil
}

// seeLimit bounds how long a read waits for its caller's own writes.
const seeLimit = 5 * time.Second

// AwaitOwn returns once the followers have passed the last position the owner
// wrote, so that nobody misses their own write, on whichever process they ask.
// It refuses with unavailable, same-key, when that takes too long.
func (s *Store) AwaitOwn(ctx context.Context, owner domain.AgentKey, followers []string) error {
	return s.await(ctx, followers, func(ctx context.Context) (bool, error) {
		var seen bool
		err := s.Pool.QueryRow(ctx, `
			SELECT coalesce(max(last_pos), 0) <= (
				SELECT coalesce(min(pos), 0)
				FROM log.checkpoints
				WHERE name = ANY ($2))
			FROM log.operations
			WHERE owner = $1`, owner, followers).Scan(&seen)
		return seen, err
	})
}

// AwaitHead returns once the followers have passed what was the head of the log
// when it was called. It refuses like [Store.AwaitOwn].
func (s *Store) AwaitHead(ctx context.Context, followers []string) error {
	head, err := s.Head(ctx)
	if err != nil {
		return err
	}
	return s.await(ctx, followers, func(ctx context.Context) (bool, error) {
		var seen bool
		err := s.Pool.QueryRow(ctx, `
			SELECT coalesce(min(pos), 0) >= $1
			FROM log.checkpoints
			WHERE name = ANY ($2)`, head, followers).Scan(&seen)
		return seen, err
	})
}

// await asks whether the followers are there, again whenever one of them moved.
func (s *Store) await(ctx context.Context, followers []string, there func(context.Context) (bool, error)) error {
	if len(followers) == 0 {
		return nil
	}
	topics := make([]string, len(followers))
	for i, name := range followers {
		topics[i] = TopicView(name)
	}
	rang, stop := s.Wake.Listen(topics...)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, seeLimit)
	defer cancel()
	for {
		seen, err := there(ctx)
		if err == nil && seen {
			return nil
		}
		if ctx.Err() != nil {
			e := domain.Refuse(domain.Unavailable, "what was just written is recorded but not visible yet; repeat the call")
			e.After = 1
			return e
		}
		if err != nil {
			return fmt.Errorf("compare the log with the views: %w", err)
		}
		wait(ctx, rang, 50*time.Millisecond)
	}
}

// Lag returns how many positions each of the followers is behind the head.
func (s *Store) Lag(ctx context.Context, followers []string) (map[string]int64, error) {
	rows, err := s.Pool.Query(ctx, `
		SELECT c.name, h.pos - c.pos
		FROM log.checkpoints AS c, log.head AS h
		WHERE h.shard = 0 AND c.name = ANY ($1)`, followers)
	if err != nil {
		return nil, fmt.Errorf("read the lag of the consumers: %w", err)
	}
	lag := map[string]int64{}
	var name string
	var behind int64
	_, err = pgx.ForEachRow(rows, []any{&name, &behind}, func() error {
		lag[name] = behind
		return nil
	})
	return lag, err
}
