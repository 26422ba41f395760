package eventstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"sidequest/domain"
	"sidequest/failpoint"
)

// Bounds of one batch and of the queue before it. A full queue is an answer,
// overloaded, and never a growing delay.
const (
	batchMembers = 256
	batchBytes   = 1 << 20
	queueMembers = 2048
)

// uncertain bounds how long a batch whose outcome is unknown is sent again
// before its callers hear that they have to ask.
const uncertain = 15 * time.Second

// errMoved says that a guarded stream moved after the decision: decide again.
var errMoved = errors.New("a guarded stream has moved")

// A batcher appends decisions by natural group commit: whatever queued while the
// last batch was being committed is the next one. It has one connection, so a
// process has one append under way.
type batcher struct {
	url   string
	wake  *Wake
	log   *slog.Logger
	queue chan *member
	conn  *pgx.Conn

	// fresh hands committed events to a relay in this process, so that it need not
	// read them again. Nobody has to listen: what does not fit is dropped.
	fresh chan []Recorded
}

// freshBatches is how many committed batches wait for the relay.
const freshBatches = 16

// A member is a decision in the queue, and where its outcome goes.
type member struct {
	*decision
	done chan outcome // has room for the one outcome
}

type outcome struct {
	receipt Receipt
	err     error
}

func newBatcher(url string, wake *Wake, log *slog.Logger) *batcher {
	return &batcher{url: url, wake: wake, log: log, queue: make(chan *member, queueMembers), fresh: make(chan []Recorded, freshBatches)}
}

// append queues a decision and waits for its outcome. A caller that leaves does
// not stop the write.
func (b *batcher) append(ctx context.Context, d *decision) (Receipt, error) {
	m := &member{d, make(chan outcome, 1)}
	select {
	case b.queue <- m:
	default:
		return Receipt{}, busy()
	}
	select {
	case o := <-m.done:
		return o.receipt, o.err
	case <-ctx.Done():
		return Receipt{}, fmt.Errorf("append %s: %w", d.op.Tool, ctx.Err())
	}
}

// run appends batch after batch until ctx is done and the queue is empty.
func (b *batcher) run(ctx context.Context) error {
	defer b.hangUp()
	var waiting []*member
	for {
		if len(waiting) == 0 {
			select {
			case m := <-b.queue:
				waiting = append(waiting, m)
			case <-ctx.Done():
				if len(b.queue) == 0 {
					return nil
				}
				continue
			}
		}
		waiting = b.drain(waiting)
		batch, rest := compatible(waiting)
		b.commit(batch)
		waiting = rest
	}
}

func (b *batcher) drain(waiting []*member) []*member {
	for {
		select {
		case m := <-b.queue:
			waiting = append(waiting, m)
		default:
			return waiting
		}
	}
}

// compatible splits off the members that can be appended by one statement: no
// two share an operation key, and none guards a stream that another one writes.
// The others keep their order for the next batch.
func compatible(waiting []*member) (batch, rest []*member) {
	keys, written, size := map[string]bool{}, map[domain.Stream]bool{}, 0
	for _, m := range waiting {
		key := string(m.op.Owner) + "\x00" + m.op.Key
		fits := len(batch) < batchMembers && (size == 0 || size+m.size <= batchBytes) && !keys[key]
		for _, g := range m.guards {
			fits = fits && !written[g.stream]
		}
		if !fits {
			rest = append(rest, m)
			keys[key] = true // an earlier member must not be overtaken by its repeat
			continue
		}
		batch, size, keys[key] = append(batch, m), size+m.size, true
		for _, e := range m.events {
			written[e.Stream] = true
		}
	}
	return batch, rest
}

// commit appends the batch and hands out the outcomes. A statement that fails as
// a whole is repeated member by member, so that one cannot fail its neighbours.
func (b *batcher) commit(batch []*member) {
	outcomes, err := b.insist(batch)
	if err != nil && len(batch) > 1 {
		b.log.Warn("append batch failed, appending its members one by one", "members", len(batch), "error", err)
		for _, m := range batch {
			b.commit([]*member{m})
		}
		return
	}
	for i, m := range batch {
		if err != nil {
			m.done <- outcome{err: err}
			continue
		}
		m.done <- outcomes[i]
	}
}

// insist sends the batch until its outcome is known or patience ends. Sending it
// again is safe: members already committed come back as replays.
func (b *batcher) insist(batch []*member) ([]outcome, error) {
	deadline := time.Now().Add(uncertain)
	for attempt := 1; ; attempt++ {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		outcomes, err := b.send(ctx, batch)
		if err == nil || !b.passing(err) || ctx.Err() != nil {
			cancel()
			return outcomes, err
		}
		b.log.Warn("append: outcome unknown, asking again", "attempt", attempt, "error", err)
		b.hangUp()
		pause(ctx, attempt*10)
		cancel()
	}
}

// passing says whether sending the same batch again may help: there is no
// connection any more, or the server was busy, starting or stopping (SQLSTATE
// classes 40, 53, 55, 57, 58 and 08). A batch that cannot even be encoded stays so.
func (b *batcher) passing(err error) bool {
	pg, answered := errors.AsType[*pgconn.PgError](err)
	if !answered {
		return b.conn == nil || b.conn.IsClosed()
	}
	switch pg.Code[:2] {
	case "08", "40", "53", "55", "57", "58":
		return true
	}
	return false
}

func (b *batcher) send(ctx context.Context, batch []*member) ([]outcome, error) {
	if err := b.dial(ctx); err != nil {
		return nil, err
	}
	failpoint.Reach(failpoint.WriteAppending)
	rows, err := b.conn.Query(ctx, `
		SELECT outcome, epoch, coalesce(last_pos, 0), operation_id, status, result
		FROM log.append_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
			$14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)`, columns(batch)...)
	if err != nil {
		return nil, fmt.Errorf("append batch: %w", err)
	}
	var recorded []Recorded
	outcomes := make([]outcome, 0, len(batch))
	for rows.Next() {
		o, wrote, err := scanOutcome(rows, batch[len(outcomes)])
		if err != nil {
			rows.Close()
			return nil, err
		}
		outcomes, recorded = append(outcomes, o), append(recorded, wrote...)
	}
	if err := rows.Err(); err != nil { // only now is it known to be committed
		return nil, fmt.Errorf("append batch: %w", err)
	}
	failpoint.Reach(failpoint.WriteCommitted)
	if len(recorded) > 0 {
		b.handOver(recorded)
		b.wake.Ring(TopicLog)
	}
	return outcomes, nil
}

func (b *batcher) handOver(events []Recorded) {
	select {
	case b.fresh <- events:
	default: // no relay here, or one that is behind and will read them
	}
}

// scanOutcome reads one row of append_batch: 0 recorded, 1 replay, 2 moved, 3
// reused. wrote are the events that were recorded, with their positions.
func scanOutcome(rows pgx.Rows, m *member) (o outcome, wrote []Recorded, err error) {
	var code, epoch int
	var last int64
	var r struct{ id, status *string }
	var result []byte
	if err := rows.Scan(&code, &epoch, &last, &r.id, &r.status, &result); err != nil {
		return outcome{}, nil, fmt.Errorf("append batch: read outcome: %w", err)
	}
	switch code {
	case 0:
		o.receipt, o.err = ended(m.op.ID(), m.status, m.result, false)
		for i := range m.events {
			m.events[i].Position = last - int64(len(m.events)-1-i)
		}
		return o, m.events, nil
	case 1:
		o.receipt, o.err = ended(*r.id, *r.status, result, true)
	case 2:
		o.err = errMoved
	default:
		o.err = keyConflict()
	}
	return o, nil, nil
}

// dial opens the connection for appends if there is none. Its time limits keep a
// stuck server or lock from holding the batch, and its parameters are fixed here
// so that nothing in the environment weakens durability.
func (b *batcher) dial(ctx context.Context) error {
	if b.conn != nil {
		return nil
	}
	cfg, err := pgx.ParseConfig(b.url)
	if err != nil {
		return fmt.Errorf("append: parse the database URL: %w", err)
	}
	cfg.RuntimeParams["application_name"] = "sidequest append"
	cfg.RuntimeParams["synchronous_commit"] = "on"
	cfg.RuntimeParams["lock_timeout"] = "2s"
	cfg.RuntimeParams["statement_timeout"] = "5s"
	b.conn, err = pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		b.conn = nil
		return fmt.Errorf("append: connect: %w", err)
	}
	return nil
}

func (b *batcher) hangUp() {
	if b.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = b.conn.Close(ctx) // it is given up either way
	b.conn = nil
}
