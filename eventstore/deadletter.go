package eventstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"sidequest/domain"
)

// isolating is how many failures in a row make a consumer go event by event, and
// burying how many more say which event it is that cannot be applied.
const (
	isolating = 3
	burying   = isolating + 3
)

// pageFor is how many events a consumer tries at once after so many failures.
func pageFor(failures int) int {
	if failures >= isolating {
		return 1
	}
	return pageEvents
}

// poisoned is a failure that will come again: the event is at fault, or the
// program, but not the weather.
type poisoned struct{ error }

// isPoison says whether trying again as it is cannot help. Errors of the data
// (SQLSTATE class 22), of constraints (23) and of the statement (42) stay.
func isPoison(err error) bool {
	if _, ok := errors.AsType[*poisoned](err); ok {
		return true
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code[:2] == "22" || pg.Code[:2] == "23" || pg.Code[:2] == "42")
}

// bury writes down that the consumer cannot apply the event it stands before,
// once that has failed often enough by itself. Health shows it from then on.
func (s *Store) bury(ctx context.Context, c Consumer, failures int, failure error) {
	if failures < burying || !isPoison(failure) {
		return
	}
	_, err := s.Pool.Exec(ctx, `
		INSERT INTO log.dead_letters (name, pos, error)
		SELECT name, pos + 1, $2
		FROM log.checkpoints
		WHERE name = $1
		ON CONFLICT (name, pos) DO UPDATE
		SET error = excluded.error`, c.Name, failure.Error())
	if err != nil && ctx.Err() == nil {
		s.Log.Error("cannot write a dead letter", "consumer", c.Name, "error", err)
	}
}

// skipped returns the positions in reach that the consumer is to go on without.
func (s *Store) skipped(ctx context.Context, tx pgx.Tx, c Consumer, at place) (map[int64]bool, error) {
	rows, err := tx.Query(ctx, `
		SELECT pos
		FROM log.dead_letters
		WHERE name IN ($1, $2) AND pos > $3 AND pos <= $4 AND skipped_at IS NOT NULL`, c.Name, c.SkipsOf, at.pos, at.upTo)
	if err != nil {
		return nil, fmt.Errorf("read what to skip: %w", err)
	}
	skipped := map[int64]bool{}
	var pos int64
	_, err = pgx.ForEachRow(rows, []any{&pos}, func() error {
		skipped[pos] = true
		return nil
	})
	return skipped, err
}

// A DeadLetter is an event that a consumer cannot apply.
type DeadLetter struct {
	Consumer string
	Position int64
	Error    string
	At       time.Time
	Skipped  bool
}

// DeadLetters returns the events at which consumers stand still, and those they
// went on without.
func (s *Store) DeadLetters(ctx context.Context) ([]DeadLetter, error) {
	rows, err := s.Pool.Query(ctx, `
		SELECT d.name, d.pos, d.error, d.at, d.skipped_at IS NOT NULL
		FROM log.dead_letters AS d
		JOIN log.checkpoints AS c ON c.name = d.name
		WHERE d.skipped_at IS NOT NULL OR d.pos > c.pos
		ORDER BY d.at`)
	if err != nil {
		return nil, fmt.Errorf("read the dead letters: %w", err)
	}
	letters, err := pgx.CollectRows(rows, pgx.RowToStructByPos[DeadLetter])
	if err != nil {
		return nil, fmt.Errorf("read the dead letters: %w", err)
	}
	return letters, nil
}

// Skip lets a consumer go on without an event that it could not apply. Its view
// lacks that event from then on, also when it is built anew.
func (s *Store) Skip(ctx context.Context, consumer string, position int64) error {
	tag, err := s.Pool.Exec(ctx, `
		UPDATE log.dead_letters
		SET skipped_at = now()
		WHERE name = $1 AND pos = $2 AND skipped_at IS NULL`, consumer, position)
	if err != nil {
		return fmt.Errorf("skip position %d for %s: %w", position, consumer, err)
	}
	if tag.RowsAffected() == 0 {
		return domain.Refuse(domain.NotFound, "%s does not stand still at position %d; /health shows where", consumer, position)
	}
	return nil
}
