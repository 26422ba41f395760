package delivery

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/eventstore"
)

// MaxStreams bounds the open streams of a grant, over all processes. One more
// ends the oldest.
const MaxStreams = 4

// A grant may open openingBurst streams at once, and one more each openingEvery.
// Clients that end each other's streams in turn are slowed down by it.
const (
	openingEvery = 5 * time.Second
	openingBurst = 8
)

// A kind of stream is counted apart from others.
type kind string

const (
	eventStream  kind = "events"
	listenStream kind = "listen"
)

// processGone is after how long streams that are not renewed do not count.
const processGone = time.Minute

// closeLimit bounds the note that a stream is closed; without it the stream would
// count for another minute.
const closeLimit = 5 * time.Second

// A register is this process's part of the list of open streams.
type register struct {
	db   *pgxpool.Pool
	wake *eventstore.Wake

	mu   sync.Mutex
	open map[string]*registration // by stream id
}

// A registration is an open stream.
type registration struct {
	id    string
	grant string
	ended <-chan struct{} // has a value once the stream is to end
	stop  func()
}

func newRegister(db *pgxpool.Pool, wake *eventstore.Wake) *register {
	return &register{db: db, wake: wake, open: map[string]*registration{}}
}

func topicEnd(streamID string) string { return "stream." + streamID }

// enter registers a stream and ends the oldest of its kind beyond the grant's
// limit, wherever they are. A positive wait means that the grant opens too many; nothing is
// registered then.
func (r *register) enter(ctx context.Context, k kind, grant string) (s *registration, wait time.Duration, err error) {
	s = &registration{id: rand.Text(), grant: grant}
	s.ended, s.stop = r.wake.Listen(topicEnd(s.id))
	var ended []string
	err = pgx.BeginFunc(ctx, r.db, func(tx pgx.Tx) error {
		if wait, err = spend(ctx, tx, k, grant); err != nil || wait > 0 {
			return err
		}
		ended, err = insert(ctx, tx, k, s)
		return err
	})
	if err != nil || wait > 0 {
		s.stop()
		return nil, wait, err
	}
	for _, id := range ended {
		r.wake.Ring(topicEnd(id))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[s.id] = s
	return s, 0, nil
}

// spend takes one opening from what the grant has, or returns how long until it
// has one. Its row is locked until the transaction ends, so that openings of a
// grant see each other.
func spend(ctx context.Context, tx pgx.Tx, k kind, grant string) (wait time.Duration, err error) {
	if k != eventStream {
		grant = string(k) + " " + grant
	}
	rows, err := tx.Query(ctx, `
		INSERT INTO live.openings AS o (grant_id, full_at)
		VALUES ($1, clock_timestamp() + $2::interval)
		ON CONFLICT (grant_id) DO UPDATE
		SET full_at = greatest(o.full_at, clock_timestamp()) + $2::interval
		WHERE o.full_at + $2::interval <= clock_timestamp() + $3::interval
		RETURNING full_at`, grant, openingEvery, openingBurst*openingEvery)
	if err != nil {
		return 0, fmt.Errorf("count the openings of %s: %w", grant, err)
	}
	spent, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return 0, fmt.Errorf("count the openings of %s: %w", grant, err)
	}
	if len(spent) == 1 {
		return 0, nil
	}
	err = tx.QueryRow(ctx, `
		SELECT full_at + $2::interval - clock_timestamp() - $3::interval
		FROM live.openings
		WHERE grant_id = $1`, grant, openingEvery, openingBurst*openingEvery).Scan(&wait)
	if err != nil {
		return 0, fmt.Errorf("read when %s may open a stream: %w", grant, err)
	}
	return max(wait, time.Millisecond), nil
}

// insert adds the stream and marks the oldest ones beyond the limit as ended.
func insert(ctx context.Context, tx pgx.Tx, k kind, s *registration) (ended []string, err error) {
	rows, err := tx.Query(ctx, `
		WITH others AS (
			SELECT stream_id, row_number() OVER (ORDER BY opened_at DESC, stream_id) AS nth
			FROM live.streams
			WHERE grant_id = $2 AND kind = $5 AND NOT ended AND seen_at > clock_timestamp() - $3::interval),
		added AS (
			INSERT INTO live.streams (stream_id, grant_id, kind)
			VALUES ($1, $2, $5))
		UPDATE live.streams AS s
		SET ended = true
		FROM others AS o
		WHERE s.stream_id = o.stream_id AND o.nth >= $4
		RETURNING s.stream_id`, s.id, s.grant, processGone, MaxStreams, k)
	if err == nil {
		ended, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return nil, fmt.Errorf("register a stream of %s: %w", s.grant, err)
	}
	return ended, nil
}

// leave takes a stream off the list, also when its client is gone.
func (r *register) leave(ctx context.Context, s *registration) error {
	s.stop()
	r.mu.Lock()
	delete(r.open, s.id)
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	_, err := r.db.Exec(ctx, `
		DELETE FROM live.streams
		WHERE stream_id = $1`, s.id)
	if err != nil {
		return fmt.Errorf("note that a stream of %s is closed: %w", s.grant, err)
	}
	return nil
}

// renew says that the streams of this process are open still, and ends those that
// were to end but whose ring was lost. A row that somebody else has locked is just
// being ended or removed.
func (r *register) renew(ctx context.Context) error {
	rows, err := r.db.Query(ctx, `
		WITH mine AS (
			SELECT stream_id
			FROM live.streams
			WHERE stream_id = ANY ($1)
			FOR UPDATE SKIP LOCKED)
		UPDATE live.streams AS s
		SET seen_at = clock_timestamp()
		FROM mine
		WHERE s.stream_id = mine.stream_id
		RETURNING s.stream_id, s.ended`, r.ids())
	if err != nil {
		return fmt.Errorf("renew the open streams: %w", err)
	}
	var id string
	var ended bool
	_, err = pgx.ForEachRow(rows, []any{&id, &ended}, func() error {
		if ended {
			r.wake.Ring(topicEnd(id))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("renew the open streams: %w", err)
	}
	return r.sweep(ctx)
}

func (r *register) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.open))
}

// sweep removes what no process will remove any more.
func (r *register) sweep(ctx context.Context) error {
	for _, sql := range []string{`
		DELETE FROM live.streams
		WHERE seen_at < clock_timestamp() - 10 * $1::interval`, `
		DELETE FROM live.openings
		WHERE full_at < clock_timestamp() - 10 * $1::interval`,
	} {
		if _, err := r.db.Exec(ctx, sql, processGone); err != nil {
			return fmt.Errorf("sweep the open streams: %w", err)
		}
	}
	return nil
}
