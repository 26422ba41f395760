package eventstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/failpoint"
)

// A Consumer follows the log with a checkpoint of its own.
type Consumer struct {
	Name string // of its checkpoint, with the version of its effects: "jobs/1"

	// Apply queues the statements that one event leads to. It sees nothing but
	// the event, so that the effects depend on the log alone.
	Apply func(*pgx.Batch, Recorded)

	// Schema is where the statements' tables are; it becomes the search path.
	Schema string

	// SkipsOf names the consumer whose skipped events this one goes on without,
	// beside its own: the one that it is to replace.
	SkipsOf string

	// After names consumers that must be ahead: this one never passes them. What
	// a reader learns from it, the others then already show.
	After []string
}

// Bounds of one step of a consumer.
const (
	pageEvents = 1000
	idlePoll   = 500 * time.Millisecond // a lost wake-up costs no more than this
	stepLimit  = 30 * time.Second
)

// Consume follows the log until ctx is done: it applies events and moves the
// checkpoint in one transaction. Any number of processes may consume under one
// name; whoever holds the checkpoint works, the others wait for the next ring. A
// process that stops in mid-step loses its hold after a few seconds: see hold.go.
//
// An event that cannot be applied stops this consumer, and no other: it stays
// visible in log.dead_letters and is tried again, until [Store.Skip] says to go on
// without it.
func (s *Store) Consume(ctx context.Context, c Consumer) error {
	topics := []string{TopicLog}
	for _, name := range c.After {
		topics = append(topics, TopicView(name))
	}
	rang, stop := s.Wake.Listen(topics...)
	defer stop()
	failures := 0
	var held time.Time // since when another process holds the checkpoint
	for ctx.Err() == nil {
		n, err := s.step(ctx, c, pageFor(failures))
		if !errors.Is(err, errHeld) {
			held = time.Time{}
		}
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, errHeld):
			held = s.evict(ctx, c, held)
			wait(ctx, rang, idlePoll)
		case err != nil:
			failures++
			s.Log.Error("consumer cannot go on", "consumer", c.Name, "failures", failures, "error", err)
			s.bury(ctx, c, failures, err)
			wait(ctx, nil, min(time.Duration(failures)*100*time.Millisecond, 5*time.Second))
		case n > 0 && failures >= isolating: // one at a time until the culprit is found
		default:
			failures = 0
			if n < pageEvents {
				wait(ctx, rang, idlePoll)
			}
		}
	}
	return nil
}

// wait returns when something rang, after the time, or when ctx is done.
func wait(ctx context.Context, rang <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-rang:
	case <-t.C:
	case <-ctx.Done():
	}
}

// step applies one page of at most limit events and returns how many it had. The
// error is errHeld if another process is at it.
func (s *Store) step(ctx context.Context, c Consumer, limit int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	n := 0
	err := pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		at, err := s.hold(ctx, tx, c, limit)
		if err != nil || at.upTo <= at.pos {
			return err
		}
		failpoint.Reach(failpoint.ViewHeld)
		n, err = s.apply(ctx, tx, c, at)
		failpoint.Reach(failpoint.ViewApplied)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("consume %s: %w", c.Name, err)
	}
	if n > 0 {
		failpoint.Reach(failpoint.ViewCommitted)
		s.Wake.Ring(TopicView(c.Name))
	}
	return n, nil
}

// apply applies the events of (at.pos, at.upTo] and moves the checkpoint.
func (s *Store) apply(ctx context.Context, tx pgx.Tx, c Consumer, at place) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &poisoned{fmt.Errorf("apply positions %d to %d: panic: %v", at.pos+1, at.upTo, p)}
		}
	}()
	events, err := s.read(ctx, tx, at.pos, at.upTo)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	skipped, err := s.skipped(ctx, tx, c, at)
	if err != nil {
		return 0, err
	}
	b := &pgx.Batch{}
	for _, e := range events {
		if !skipped[e.Position] {
			c.Apply(b, e)
		}
	}
	last := events[len(events)-1].Position
	b.Queue(`
		UPDATE log.checkpoints
		SET pos = $2
		WHERE name = $1`, c.Name, last)
	failpoint.Reach(failpoint.ViewQueued)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return 0, fmt.Errorf("apply positions %d to %d: %w", at.pos+1, at.upTo, err)
	}
	return len(events), nil
}
