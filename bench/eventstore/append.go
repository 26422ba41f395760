package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/bench/rounds"
	"sidequest/postgres"
)

// A raw inserts one row of 400 bytes and commits, each writer on a connection of
// its own: what the machine can do at all.
type raw struct {
	url   string
	conns []*pgx.Conn
}

func (r *raw) create(ctx context.Context, owner *pgx.Conn) error {
	_, err := owner.Exec(ctx, `
		CREATE SCHEMA raw;
		CREATE TABLE raw.rows (
			id   bigserial PRIMARY KEY,
			data jsonb NOT NULL
		);
		GRANT USAGE ON SCHEMA raw TO `+postgres.App+`;
		GRANT INSERT ON raw.rows TO `+postgres.App+`;
		GRANT USAGE ON SEQUENCE raw.rows_id_seq TO `+postgres.App)
	return err
}

func (r *raw) connect(ctx context.Context, writers int) error {
	for len(r.conns) < writers {
		conn, err := pgx.Connect(ctx, r.url)
		if err != nil {
			return fmt.Errorf("connect writer %d: %w", len(r.conns), err)
		}
		r.conns = append(r.conns, conn)
	}
	return nil
}

func (r *raw) hangUp(ctx context.Context) {
	for _, conn := range r.conns {
		conn.Close(ctx)
	}
	r.conns = nil
}

func (r *raw) once(ctx context.Context, writer int) error {
	_, err := r.conns[writer].Exec(ctx, `INSERT INTO raw.rows (data) VALUES ($1)`, added{1, filler})
	return err
}

// fsyncs of Go's own collection are kept out of short turns by warming up first.
const warmUp = 200 * time.Millisecond

// append compares appends with single-row inserts over numbers of writers.
func (b *bench) append(ctx context.Context) (err error) {
	s, err := b.open(ctx, "bench_append")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := s.fill(ctx, min(b.rows, 400_000)); err != nil {
		return err
	}
	r := &raw{url: b.cluster.URL(s.name, postgres.Program)}
	if err := r.create(ctx, s.owns); err != nil {
		return fmt.Errorf("create the raw table: %w", err)
	}
	l := &load{store: s, streams: int64(min(b.rows, 400_000) / 10)}
	for _, writers := range []int{1, 8, 32, 128} {
		if err := r.connect(ctx, writers); err != nil {
			return err
		}
		result, err := rounds.Run(ctx, rounds.Plan{Rounds: b.rounds, Span: b.span, Writers: writers, Meter: b.meter},
			rounds.Contestant{Name: "raw", Once: r.once},
			rounds.Contestant{Name: "append", Ready: l.prepare, Once: l.append},
			rounds.Contestant{Name: "execute", Once: l.execute})
		r.hangUp(ctx)
		if err != nil {
			return err
		}
		for _, n := range []string{"raw", "append", "execute"} {
			fmt.Printf("%4d %-8s %7.0f/s p50 %6.2f p99 %6.2f ms cpu %4.0f us syncs %.3f ratio %.2f load %s\n", writers, n, result.Median(n, rounds.Rate),
				result.Median(n, rounds.P50)*1e3, result.Median(n, rounds.P99)*1e3, result.Median(n, rounds.CPU)*1e6, result.Median(n, rounds.Syncs), result.Ratio(n, "raw", rounds.Rate), rounds.Load())
		}
	}
	return nil
}
