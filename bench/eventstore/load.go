package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sidequest/bench/rounds"
	"sidequest/domain"
	"sidequest/eventstore"
)

// A tally is the state of the streams that are written to: how many events.
type tally struct{ N int }

var loads = domain.Category[tally]{Name: "load", Events: []domain.Event[tally]{added{}}}

// An added is the event of the benchmark, about 400 bytes of JSON.
type added struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

func (added) EventType() string     { return "load.added" }
func (a added) Apply(t tally) tally { return tally{t.N + a.N} }

var filler = strings.Repeat("All work and no play makes a log. ", 11)

// eventsPerWrite is what one operation records.
const eventsPerWrite = 2

// An add records two events in a stream.
type add struct{ id string }

type addAnswer struct {
	N int `json:"n"`
}

// Reads implements [domain.Command].
func (a add) Reads(domain.Meta) []domain.Stream { return []domain.Stream{loads.Stream(a.id)} }

// Decide implements [domain.Command].
func (a add) Decide(states domain.States, _ domain.Meta) ([]domain.Fact, addAnswer, error) {
	t := loads.In(states, a.id)
	var facts []domain.Fact
	for range eventsPerWrite {
		facts = append(facts, loads.Record(a.id, added{1, filler}))
	}
	return facts, addAnswer{t.N + eventsPerWrite}, nil
}

// fill makes a log of so many events by SQL alone, ten events a stream and one
// receipt for two events. Its hashes are of the right length and mean nothing.
func (s *store) fill(ctx context.Context, events int) error {
	for _, sql := range []string{`
		INSERT INTO log.streams (stream_id, version, first_pos)
		SELECT 'load-' || n, 10, 1
		FROM generate_series(0, $1::int / 10 - 1) AS n`, `
		INSERT INTO log.events (pos, id, stream_id, version, type, schema_v, actor, board, causation, correlation, at, data, prev_hash, hash)
		SELECT pos, 'fill-' || pos, 'load-' || (pos - 1) % ($1::int / 10), 1 + (pos - 1) / ($1::int / 10), 'load.added', 1,
			'ak_filler', 'main', 'op_' || pos / 2, 'op_' || pos / 2, now(),
			convert_to('{"n":1,"text":"` + filler + `"}', 'UTF8'), sha256(int8send(pos - 1)), sha256(int8send(pos))
		FROM generate_series(1, $1::int) AS pos`, `
		INSERT INTO log.operations (owner, op_key, operation_id, tool, args_hash, status, result, last_pos, at)
		SELECT 'ak_filler', 'fill-' || n, 'op_' || n, 'add', sha256(int8send(n)), 'confirmed', '{"n":10}', n * 2, now()
		FROM generate_series(1, $1::int / 2) AS n`, `
		UPDATE log.head SET pos = $1::int`,
	} {
		if _, err := s.owns.Exec(ctx, sql, events); err != nil {
			return fmt.Errorf("fill %s: %w", s.name, err)
		}
	}
	if _, err := s.owns.Exec(ctx, `SELECT log.make_partitions()`); err != nil {
		return fmt.Errorf("fill %s: %w", s.name, err)
	}
	if _, err := s.owns.Exec(ctx, `VACUUM ANALYZE`); err != nil {
		return fmt.Errorf("fill %s: %w", s.name, err)
	}
	if _, err := s.super.Exec(ctx, `CHECKPOINT`); err != nil {
		return fmt.Errorf("fill %s: %w", s.name, err)
	}
	return nil
}

// A load writes to the streams of a filled store, each time to the next one, so
// that nothing competes for a stream.
type load struct {
	store   *store
	streams int64
	next    atomic.Int64 // numbers operations and, over and over, streams
	acked   atomic.Int64

	ready []prepared
	taken atomic.Int64
}

// A prepared write is decided and goes to a stream.
type prepared struct {
	eventstore.Prepared
	stream string
}

func (l *load) operation() (eventstore.Operation, add) {
	n := l.next.Add(1)
	op := eventstore.Operation{
		Owner: "ak_bench", Key: fmt.Sprint("k", n), Tool: "add", Board: "main", At: time.Now(),
		ArgsHash: [32]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)},
	}
	return op, add{fmt.Sprint(n % l.streams)}
}

// execute does the whole of a write: look, decide, append.
func (l *load) execute(ctx context.Context, _ int) error {
	op, cmd := l.operation()
	_, err := eventstore.Execute(ctx, l.store.Store, op, cmd)
	if err == nil {
		l.acked.Add(1)
	}
	return err
}

// prepare decides on as many writes as a turn may take. Only appends are measured
// then.
func (l *load) prepare(ctx context.Context, writers int, span time.Duration) error {
	n := int(1500 * span.Seconds() * min(float64(writers), 4))
	if used := int(l.taken.Load()); used >= len(l.ready) {
		n = max(n, 2*len(l.ready)) // it ended before its time
	} else {
		n = max(n, used*3/2)
	}
	return l.stock(ctx, n)
}

// stock decides on so many writes, but on one to each stream at most.
func (l *load) stock(ctx context.Context, n int) error {
	l.ready = make([]prepared, min(n, int(l.streams)))
	l.taken.Store(0)
	const workers = 8
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(l.ready) && errs[w] == nil; i += workers {
				op, cmd := l.operation()
				l.ready[i].stream = cmd.id
				l.ready[i].Prepared, errs[w] = eventstore.Prepare(ctx, l.store.Store, op, cmd)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// append appends the next of the decisions that were prepared.
func (l *load) append(ctx context.Context, _ int) error {
	i := int(l.taken.Add(1)) - 1
	if i >= len(l.ready) {
		return rounds.ErrSpent
	}
	_, err := l.ready[i].Append(ctx)
	if err == nil {
		l.acked.Add(1)
	}
	return err
}

// check compares the log with what was acknowledged: nothing lost, nothing twice,
// no gap. It returns how many operations or events are wrong.
func (l *load) check(ctx context.Context) (wrong int, err error) {
	err = l.store.Pool.QueryRow(ctx, `
		SELECT abs($1 - (SELECT count(*) FROM log.operations WHERE owner = 'ak_bench'))
			+ abs($1 * $2 - (SELECT count(*) FROM log.events WHERE actor = 'ak_bench'))
			+ abs((SELECT pos FROM log.head) - (SELECT count(*) FROM log.events))`,
		l.acked.Load(), eventsPerWrite).Scan(&wrong)
	return wrong, err
}
