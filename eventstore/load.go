package eventstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
)

// A sight is what one round trip shows before a decision.
type sight struct {
	receipt *stored
	states  domain.States
	heads   map[domain.Stream]head
}

// errHole says that a stream does not continue where its snapshot ends.
var errHole = errors.New("the stream has a hole")

// look reads the operation's receipt and the streams in one round trip. The
// receipt is read first: one that appears later is found at append. A snapshot
// that is replaced between its reading and that of the events behind it leaves a
// hole; then the streams are read whole.
func (s *Store) look(ctx context.Context, op Operation, streams []domain.Stream) (sight, error) {
	for _, stream := range streams {
		if _, ok := s.categories[stream.Category()]; !ok {
			return sight{}, fmt.Errorf("no category for stream %s", stream)
		}
	}
	seen, err := s.see(ctx, op, streams, s.forms(streams))
	if errors.Is(err, errHole) {
		seen, err = s.see(ctx, op, streams, make([]int, len(streams)))
	}
	if err != nil {
		return sight{}, fmt.Errorf("load %v: %w", streams, err)
	}
	return seen, nil
}

// see is look with snapshots of the given forms; no snapshot has form 0.
func (s *Store) see(ctx context.Context, op Operation, streams []domain.Stream, forms []int) (sight, error) {
	seen := sight{states: domain.States{}, heads: map[domain.Stream]head{}}
	for _, stream := range streams {
		seen.states[stream], seen.heads[stream] = s.categories[stream.Category()].Zero(), head{}
	}
	var snapshots []kept
	var events []Recorded
	b := &pgx.Batch{}
	b.Queue(`
		SELECT operation_id, tool, args_hash, status, result
		FROM log.operations
		WHERE operation_id = $1`, op.ID()).
		QueryRow(seen.scanReceipt)
	if len(streams) > 0 {
		b.Queue(byIndex)
		b.Queue(`
			SELECT s.stream_id, s.version, s.hash, s.state
			FROM unnest($1::text[], $2::int[]) AS w(stream, form)
			JOIN log.snapshots AS s ON s.stream_id = w.stream AND s.form = w.form`, streams, forms).
			Query(func(rows pgx.Rows) (err error) {
				snapshots, err = collectKept(rows)
				return err
			})
		// OFFSET 0 keeps the planner from turning the subquery into a join, which
		// would read what is before the snapshots as well, to throw it away.
		b.Queue(`
			SELECT `+eventList+`
			FROM unnest($1::text[], $2::int[]) AS w(wanted, wanted_form)
			LEFT JOIN (
				SELECT stream_id AS kept_stream, form AS kept_form, version AS kept_version
				FROM log.snapshots) AS s ON kept_stream = wanted AND kept_form = wanted_form
			CROSS JOIN LATERAL (`+selectEvents+`
				WHERE stream_id = wanted AND version > coalesce(kept_version, 0)
				OFFSET 0) AS e
			ORDER BY stream_id, version`, streams, forms).
			Query(func(rows pgx.Rows) (err error) {
				events, err = s.collect(rows)
				return err
			})
	}
	if err := s.Pool.SendBatch(ctx, b).Close(); err != nil {
		return sight{}, err
	}
	if err := s.restore(snapshots, &seen); err != nil {
		return sight{}, err
	}
	if err := s.openPersonal(ctx, s.Pool, events); err != nil {
		return sight{}, err
	}
	err := s.fold(events, &seen)
	return seen, err
}

// byIndex has the statements of this transaction planned once and by index. The
// planner would do it anew each time, for it counts what the arrays hold, and that
// costs thrice the reading.
const byIndex = `
	SELECT set_config('plan_cache_mode', 'force_generic_plan', true),
	       set_config('enable_seqscan', 'off', true),
	       set_config('enable_hashjoin', 'off', true),
	       set_config('enable_mergejoin', 'off', true),
	       set_config('jit', 'off', true)`

func (seen *sight) scanReceipt(row pgx.Row) error {
	var r stored
	err := row.Scan(&r.operationID, &r.tool, &r.argsHash, &r.status, &r.result)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err == nil {
		seen.receipt = &r
	}
	return err
}

// fold applies the events to the states.
func (s *Store) fold(events []Recorded, seen *sight) error {
	for _, e := range events {
		if want := seen.heads[e.Stream].version + 1; e.Version != want {
			return fmt.Errorf("stream %s continues with version %d, want %d: %w", e.Stream, e.Version, want, errHole)
		}
		seen.states[e.Stream] = s.categories[e.Stream.Category()].Fold(seen.states[e.Stream], e.Event)
		seen.heads[e.Stream] = head{e.Version, e.Hash}
	}
	return nil
}

// State returns the state of one stream as it stands in the log, which is what a
// command would see, and needs no view.
func State[S any](ctx context.Context, s *Store, c domain.Category[S], id string) (S, error) {
	seen, err := s.look(ctx, Operation{}, []domain.Stream{c.Stream(id)})
	return c.In(seen.states, id), err
}

const (
	eventList    = `pos, id, stream_id, version, type, schema_v, actor, board, causation, correlation, at, data, prev_hash, hash`
	selectEvents = `
	SELECT ` + eventList + `
	FROM log.events`
)

// scanEvent reads a row of selectEvents.
func scanEvent(row pgx.CollectableRow, e *Recorded) error {
	err := row.Scan(&e.Position, &e.ID, &e.Stream, &e.Version, &e.Type, &e.Schema, &e.Actor, &e.Board,
		&e.Causation, &e.Correlation, &e.At, &e.Data, &e.PrevHash, &e.Hash)
	e.At = e.At.UTC()
	return err
}

// collect reads rows of selectEvents and decodes their events.
func (s *Store) collect(rows pgx.Rows) ([]Recorded, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Recorded, error) {
		var e Recorded
		if err := scanEvent(row, &e); err != nil {
			return e, err
		}
		c, ok := s.categories[e.Stream.Category()]
		if !ok {
			return e, fmt.Errorf("no category for stream %s at position %d", e.Stream, e.Position)
		}
		var err error
		e.Event, err = c.Decode(e.Type, e.Data)
		return e, err
	})
}

// Read returns up to limit events after a position, in order.
func (s *Store) Read(ctx context.Context, after int64, limit int) ([]Recorded, error) {
	return s.read(ctx, s.Pool, after, after+int64(limit))
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// read returns the events in (after, upTo].
func (s *Store) read(ctx context.Context, q querier, after, upTo int64) ([]Recorded, error) {
	events, err := stretch(ctx, q, after, upTo, s.collect)
	if err != nil {
		return nil, err
	}
	return events, s.openPersonal(ctx, q, events)
}

// stretch returns the events in (after, upTo] as collect reads them. Positions
// have no gaps; a hole means an archived partition or a fault, and following must
// not step over it.
func stretch(ctx context.Context, q querier, after, upTo int64, collect func(pgx.Rows) ([]Recorded, error)) ([]Recorded, error) {
	rows, err := q.Query(ctx, selectEvents+`
		WHERE pos > $1 AND pos <= $2
		ORDER BY pos`, after, upTo)
	if err != nil {
		return nil, fmt.Errorf("read after position %d: %w", after, err)
	}
	events, err := collect(rows)
	if err != nil {
		return nil, fmt.Errorf("read after position %d: %w", after, err)
	}
	for i, e := range events {
		if want := after + int64(i) + 1; e.Position != want {
			return nil, fmt.Errorf("the log has a hole: position %d follows %d", e.Position, want-1)
		}
	}
	return events, nil
}

// asRecorded reads rows of selectEvents as they are, for those who pass them on.
func asRecorded(rows pgx.Rows) ([]Recorded, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Recorded, error) {
		var e Recorded
		err := scanEvent(row, &e)
		return e, err
	})
}

// Category returns every event of one category and the position up to which that
// is complete, for memory that follows the log from there.
func (s *Store) Category(ctx context.Context, name string) ([]Recorded, int64, error) {
	pos, err := s.Head(ctx)
	if err != nil {
		return nil, 0, err
	}
	rows, err := s.Pool.Query(ctx, selectEvents+`
		WHERE stream_id >= $1 || '-' AND stream_id < $1 || '.' AND pos <= $2
		ORDER BY pos`, name, pos)
	if err != nil {
		return nil, 0, fmt.Errorf("read category %s: %w", name, err)
	}
	events, err := s.collect(rows)
	if err != nil {
		return nil, 0, fmt.Errorf("read category %s: %w", name, err)
	}
	return events, pos, s.openPersonal(ctx, s.Pool, events)
}

// Head returns the last position of the log, 0 when it is empty.
func (s *Store) Head(ctx context.Context) (int64, error) {
	var pos int64
	err := s.Pool.QueryRow(ctx, `SELECT pos FROM log.head WHERE shard = 0`).Scan(&pos)
	if err != nil {
		return 0, fmt.Errorf("read the head of the log: %w", err)
	}
	return pos, nil
}
