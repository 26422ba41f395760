package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/bench/rounds"
	"sidequest/eventstore"
)

// page is how many events a follower reads at a time.
const page = 1000

// read compares catching up by pages with message-db, and a projection that
// moves its checkpoint once a page with one that moves it with each event.
func (b *bench) read(ctx context.Context) (err error) {
	s, err := b.open(ctx, "bench_read")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	events := min(b.events, 400_000)
	if err := s.fill(ctx, events); err != nil {
		return err
	}
	if err := b.catchUp(ctx, s, events); err != nil {
		return err
	}
	return b.project(ctx, s)
}

func (b *bench) catchUp(ctx context.Context, s *store, events int) error {
	if b.peers == "" {
		return nil
	}
	m, err := b.messageDB(ctx)
	if err != nil {
		return err
	}
	defer m.pool.Close()
	if err := m.fill(ctx, events); err != nil {
		return fmt.Errorf("fill message-db: %w", err)
	}
	after := 0
	ours := rounds.Contestant{Name: "read", Once: func(ctx context.Context, _ int) error {
		after = (after + page) % (events - page)
		got, err := s.Read(ctx, int64(after), page)
		return full(len(got), err)
	}}
	from := 0
	theirs := rounds.Contestant{Name: nameMessageDB, Once: func(ctx context.Context, _ int) error {
		from = (from + page) % (events - page)
		got, err := m.category(ctx, from)
		return full(got, err)
	}}
	r, err := b.compare(ctx, 1, []rounds.Contestant{ours, theirs})
	if err != nil {
		return err
	}
	b.add(rounds.AtLeast("catch-up by pages of 1000 against message-db", "events/s",
		page*r.Median(ours.Name, rounds.Rate), page*r.Median(theirs.Name, rounds.Rate), r.Ratio(ours.Name, theirs.Name, rounds.Rate), 1))
	return nil
}

func full(n int, err error) error {
	if err == nil && n != page {
		return fmt.Errorf("a page has %d events, want %d", n, page)
	}
	return err
}

// category reads and decodes a page of messages.
func (m *messageDB) category(ctx context.Context, from int) (int, error) {
	rows, err := m.pool.Query(ctx, `
		SELECT id, stream_name, type, position, global_position, data::jsonb, metadata, time
		FROM get_category_messages('fill', $1, $2)`, from+1, page)
	if err != nil {
		return 0, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[message])
	return len(all), err
}

// A message is what message-db returns, decoded as far as our events are.
type message struct {
	ID, Stream, Type string
	Position, Global int64
	Data             added
	Metadata         *string
	Time             time.Time
}

// follower names the projection of the benchmark: how many events a stream has.
const follower = "count/1"

const upsert = `
	INSERT INTO view_count_1.counts AS c (stream_id, n)
	VALUES ($1, 1)
	ON CONFLICT (stream_id) DO UPDATE SET n = c.n + 1`

func (b *bench) project(ctx context.Context, s *store) error {
	for _, sql := range []string{
		`CREATE SCHEMA view_count_1`,
		`CREATE TABLE view_count_1.counts (stream_id text PRIMARY KEY, n int NOT NULL)`,
	} {
		if _, err := s.Pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("make the view: %w", err)
		}
	}
	paged := rounds.Contestant{Name: "by pages", Ready: s.rewind, Turn: s.consume}
	var queue []eventstore.Recorded
	single := rounds.Contestant{
		Name: "one at a time",
		Ready: func(ctx context.Context, writers int, span time.Duration) (err error) {
			if err := s.rewind(ctx, writers, span); err != nil {
				return err
			}
			queue, err = s.Read(ctx, 0, int(max(span.Seconds()*10_000, page)))
			return err
		},
		Once: func(ctx context.Context, _ int) error {
			if len(queue) == 0 {
				return rounds.ErrSpent
			}
			e := queue[0]
			queue = queue[1:]
			return s.applyOne(ctx, e)
		},
	}
	r, err := b.compare(ctx, 1, []rounds.Contestant{paged, single})
	if err != nil {
		return err
	}
	b.add(rounds.AtLeast("projection by pages against one transaction an event", "events/s",
		r.Median(paged.Name, rounds.Rate), r.Median(single.Name, rounds.Rate), r.Ratio(paged.Name, single.Name, rounds.Rate), 25))
	return nil
}

// rewind empties the view.
func (s *store) rewind(ctx context.Context, _ int, _ time.Duration) error {
	return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `TRUNCATE view_count_1.counts`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO log.checkpoints AS c (name, epoch, pos)
			VALUES ($1, 1, 0)
			ON CONFLICT (name) DO UPDATE SET pos = 0`, follower)
		return err
	})
}

// consume follows the log for a while, or to its end, and tells how far it came.
func (s *store) consume(ctx context.Context, _ int, span time.Duration) (rounds.Sample, error) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	gone := make(chan error, 1)
	go func() {
		gone <- s.Consume(limited, eventstore.Consumer{
			Name: follower, Schema: "view_count_1",
			Apply: func(b *pgx.Batch, e eventstore.Recorded) { b.Queue(upsert, e.Stream) },
		})
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		lag, err := s.Lag(ctx, []string{follower})
		if err != nil {
			return rounds.Sample{}, err
		}
		if lag[follower] == 0 {
			cancel()
		}
		if limited.Err() != nil {
			elapsed := time.Since(began)
			err := <-gone
			return rounds.Sample{Done: int(s.checkpoint(ctx)), Elapsed: elapsed}, err
		}
		<-tick.C
	}
}

func (s *store) checkpoint(ctx context.Context) (pos int64) {
	_ = s.Pool.QueryRow(ctx, `SELECT pos FROM log.checkpoints WHERE name = $1`, follower).Scan(&pos) // 0 is far too little to pass
	return pos
}

// applyOne moves the checkpoint by one event in a transaction of its own.
func (s *store) applyOne(ctx context.Context, e eventstore.Recorded) error {
	return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(upsert, e.Stream)
		batch.Queue(`UPDATE log.checkpoints SET pos = $2 WHERE name = $1 AND pos = $2 - 1`, follower, e.Position)
		return tx.SendBatch(ctx, batch).Close()
	})
}
