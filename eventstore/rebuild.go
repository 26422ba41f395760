package eventstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// nearly is how close to the head a consumer has caught up.
const nearly = pageEvents

// Begin makes a consumer's checkpoint at the beginning of the log, unless it has one.
func (s *Store) Begin(ctx context.Context, consumer string) error {
	_, err := s.Pool.Exec(ctx, `
		INSERT INTO log.checkpoints (name, epoch, pos)
		SELECT $1, epoch, 0
		FROM log.head
		WHERE shard = 0
		ON CONFLICT DO NOTHING`, consumer)
	if err != nil {
		return fmt.Errorf("begin consumer %s: %w", consumer, err)
	}
	return nil
}

// CatchUp runs a consumer until it is nearly at the head. progress hears how far
// it is after each page.
func (s *Store) CatchUp(ctx context.Context, c Consumer, progress func(pos, head int64)) error {
	for {
		if _, err := s.step(ctx, c, pageEvents); err != nil && !errors.Is(err, errHeld) {
			return err
		}
		var pos, head int64
		err := s.Pool.QueryRow(ctx, `
			SELECT c.pos, h.pos
			FROM log.checkpoints AS c, log.head AS h
			WHERE c.name = $1 AND h.shard = 0`, c.Name).Scan(&pos, &head)
		if err != nil {
			return fmt.Errorf("read the checkpoint of %s: %w", c.Name, err)
		}
		progress(pos, head)
		if head-pos < nearly {
			return nil
		}
	}
}

// CatchUpIn holds another consumer's checkpoint for the rest of the transaction
// and runs c until it stands exactly there.
func (s *Store) CatchUpIn(ctx context.Context, tx pgx.Tx, c Consumer, other string) error {
	var target int64
	err := tx.QueryRow(ctx, `
		SELECT pos
		FROM log.checkpoints
		WHERE name = $1
		FOR UPDATE`, other).Scan(&target)
	if err != nil {
		return fmt.Errorf("hold the checkpoint of %s: %w", other, err)
	}
	for {
		at, err := s.hold(ctx, tx, c, pageEvents)
		if err != nil {
			return err
		}
		at.upTo = min(at.upTo, max(target, at.pos))
		if at.upTo == at.pos {
			return nil
		}
		if _, err := s.apply(ctx, tx, c, at); err != nil {
			return err
		}
	}
}

// Succeed puts a rebuilt consumer's checkpoint in the place of the one it was
// rebuilt for.
func (s *Store) Succeed(ctx context.Context, tx pgx.Tx, rebuilt, live string) error {
	_, err := tx.Exec(ctx, `
		WITH gone AS (
			DELETE FROM log.checkpoints
			WHERE name = $1
			RETURNING epoch, pos)
		UPDATE log.checkpoints AS c
		SET epoch = gone.epoch, pos = greatest(c.pos, gone.pos)
		FROM gone
		WHERE c.name = $2`, rebuilt, live)
	return err
}
