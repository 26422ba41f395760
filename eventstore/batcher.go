package eventstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
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

// errKnown says that the operation has ended by now: its receipt is the answer.
var errKnown = errors.New("the operation has a receipt")

// ringPace is the shortest time between two rings.
const ringPace = 2 * time.Millisecond

// A batcher appends decisions by natural group commit: whatever queued while the
// last batch was being committed is the next one. It has one connection, so a
// process has one append under way.
type batcher struct {
	url   string
	wake  *Wake
	log   *slog.Logger
	queue chan *member
	conn  *pgx.Conn

	// token is held by whoever appends: run, or a caller who finds it free and
	// nobody waiting, and so spares the way through the queue.
	token chan struct{}
	last  atomic.Int64 // members of the last batch

	marked chan struct{} // has a value when followers are to be woken

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
	return &batcher{
		url: url, wake: wake, log: log,
		queue: make(chan *member, queueMembers), token: make(chan struct{}, 1), marked: make(chan struct{}, 1), fresh: make(chan []Recorded, freshBatches),
	}
}

// append appends a decision, by itself if nothing else is to be appended, else
// with all others that queue, and returns its outcome. A caller that leaves does
// not stop the write.
func (b *batcher) append(ctx context.Context, d *decision) (Receipt, error) {
	m := &member{d, make(chan outcome, 1)}
	if b.alone(m) {
		o := <-m.done
		return o.receipt, o.err
	}
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

// alone appends the member on the caller's goroutine, or returns false where it
// had better queue: while appends come in batches, they do best together.
func (b *batcher) alone(m *member) bool {
	if b.last.Load() > 1 || len(b.queue) > 0 {
		return false
	}
	select {
	case <-b.token:
	default:
		return false
	}
	defer b.giveToken()
	b.commit([]*member{m})
	return true
}

func (b *batcher) giveToken() { b.token <- struct{}{} }

// run appends batch after batch until ctx is done and the queue is empty.
func (b *batcher) run(ctx context.Context) error {
	defer b.hangUp()
	var ringing sync.WaitGroup
	defer ringing.Wait()
	stopped := make(chan struct{})
	defer close(stopped)
	ringing.Go(func() { b.ring(stopped) })

	b.giveToken()
	defer func() { <-b.token }() // for good: who comes now has come too late
	for {
		select {
		case m := <-b.queue:
			<-b.token
			b.work([]*member{m})
			b.giveToken()
		case <-ctx.Done():
			if len(b.queue) == 0 {
				return nil
			}
		}
	}
}

// work appends batches until nothing is left to append.
func (b *batcher) work(waiting []*member) {
	for len(waiting) > 0 {
		batch, rest := compatible(b.gather(waiting))
		moved := b.commit(batch)
		b.last.Store(int64(len(batch)))
		waiting = b.drain(dismiss(rest, moved))
	}
}

// returning is how long those who were just answered are let go first.
const returning = 50 * time.Microsecond

// gather takes what has queued. Those whose answers the last batch brought are
// about to run, and often come back with their next write: they are waited for, a
// moment since the last of them came, lest the first become a batch of one and the
// others wait for it. Where appends come one by one there is no wait.
func (b *batcher) gather(waiting []*member) []*member {
	waiting = b.drain(waiting)
	for came := time.Now(); len(waiting) < int(b.last.Load()) && time.Since(came) < returning; {
		before := len(waiting)
		runtime.Gosched()
		if waiting = b.drain(waiting); len(waiting) > before {
			came = time.Now()
		}
	}
	return waiting
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

// dismiss sends back at once whoever waited while a stream they guard was moved:
// appending them could only tell them so.
func dismiss(waiting []*member, moved map[domain.Stream]bool) (rest []*member) {
	for _, m := range waiting {
		if slices.ContainsFunc(m.guards, func(g guard) bool { return moved[g.stream] }) {
			m.done <- outcome{err: errMoved}
			continue
		}
		rest = append(rest, m)
	}
	return rest
}

// commit appends the batch, hands out the outcomes and returns the streams that
// moved. A statement that fails as a whole is repeated member by member, so that
// one cannot fail its neighbours.
func (b *batcher) commit(batch []*member) map[domain.Stream]bool {
	moved := map[domain.Stream]bool{}
	outcomes, err := b.insist(batch)
	if err != nil && len(batch) > 1 {
		b.log.Warn("append batch failed, appending its members one by one", "members", len(batch), "error", err)
		for _, m := range batch {
			maps.Copy(moved, b.commit([]*member{m}))
		}
		return moved
	}
	for i, m := range batch {
		if err != nil {
			m.done <- outcome{err: err}
			continue
		}
		if outcomes[i].err == nil && !outcomes[i].receipt.Replayed {
			for _, e := range m.events {
				moved[e.Stream] = true
			}
		}
		m.done <- outcomes[i]
	}
	return moved
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
		b.makeWay(ctx, err)
		b.hangUp()
		pause(ctx, attempt*10)
		cancel()
	}
}

// passing says whether sending the same batch again may help: there is no
// connection any more, or the server was busy, starting or stopping. A batch that
// cannot even be encoded stays so.
func (b *batcher) passing(err error) bool {
	pg, answered := errors.AsType[*pgconn.PgError](err)
	if !answered {
		return b.conn == nil || b.conn.IsClosed()
	}
	return passingState(pg.Code)
}

// makeWay ends sessions that stand still and hold the log, if that is why an
// append failed.
func (b *batcher) makeWay(ctx context.Context, failure error) {
	const lockNotAvailable = "55P03"
	if pg, ok := errors.AsType[*pgconn.PgError](failure); !ok || pg.Code != lockNotAvailable {
		return
	}
	if _, err := b.conn.Exec(ctx, evictSilent, holdLimit); err != nil {
		b.log.Error("cannot look who holds the log", "error", err)
	}
}

func (b *batcher) send(ctx context.Context, batch []*member) ([]outcome, error) {
	if err := b.dial(ctx); err != nil {
		return nil, err
	}
	failpoint.Reach(failpoint.WriteAppending)
	base, codes, err := b.call(ctx, batch)
	if err != nil { // only without one is it known to be committed
		return nil, fmt.Errorf("append %d operations: %w", len(batch), err)
	}
	failpoint.Reach(failpoint.WriteCommitted)
	outcomes, recorded := settle(batch, base, codes)
	if len(recorded) > 0 {
		b.handOver(recorded)
		b.mark()
	}
	return outcomes, nil
}

// call has the server append the batch. codes has an outcome for each member, or
// nothing if all were recorded.
func (b *batcher) call(ctx context.Context, batch []*member) (base int64, codes []int, err error) {
	if len(batch) == 1 {
		codes = make([]int, 1)
		err = b.conn.QueryRow(ctx, `
			SELECT base, outcome
			FROM log.append_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
				$14, $15, $16, $17, $18, $19, $20, $21)`, scalars(batch[0])...).Scan(&base, &codes[0])
		return base, codes, err
	}
	err = b.conn.QueryRow(ctx, `
		SELECT base, outcomes
		FROM log.append_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
			$14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)`, columns(batch)...).Scan(&base, &codes)
	return base, codes, err
}

// settle gives each member its outcome, and each recorded event its position.
func settle(batch []*member, base int64, codes []int) (outcomes []outcome, recorded []Recorded) {
	outcomes = make([]outcome, len(batch))
	recorded = make([]Recorded, 0, 2*len(batch))
	for i, m := range batch {
		if len(codes) > 0 && codes[i] != 0 {
			outcomes[i].err = notRecorded[codes[i]]
			continue
		}
		outcomes[i].receipt, outcomes[i].err = ended(m.id, m.status, m.result, false)
		for n := range m.events {
			m.events[n].Position = base + int64(len(recorded)+n) + 1
		}
		recorded = append(recorded, m.events...)
	}
	return outcomes, recorded
}

// notRecorded says what the outcomes of log.append_batch mean, but for 0.
var notRecorded = map[int]error{1: errKnown, 2: errMoved}

func (b *batcher) handOver(events []Recorded) {
	select {
	case b.fresh <- events:
	default: // no relay here, or one that is behind and will read them
	}
}

// mark has the followers woken.
func (b *batcher) mark() {
	select {
	case b.marked <- struct{}{}:
	default: // they will be woken for this too
	}
}

// ring wakes the followers after commits, until the batcher has stopped. A ring
// comes at once, but no two within a moment: what a busy log would spend on
// waking, it has for writing.
func (b *batcher) ring(stopped <-chan struct{}) {
	pace := time.NewTicker(ringPace)
	defer pace.Stop()
	for {
		select {
		case <-b.marked:
			b.wake.Ring(TopicLog)
		case <-stopped:
			if len(b.marked) > 0 {
				b.wake.Ring(TopicLog)
			}
			return
		}
		<-pace.C
	}
}

// dial opens the connection for appends if there is none. Its time limits keep a
// stuck server or lock from holding the batch, and its parameters are fixed here
// so that nothing in the environment weakens durability. The statements of an
// append are planned once: by index, since planning anew for each batch costs
// more than half of the append, and what the plan meets is in no statistics yet.
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
	cfg.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	cfg.RuntimeParams["enable_seqscan"] = "off"
	cfg.RuntimeParams["enable_hashjoin"] = "off"
	cfg.RuntimeParams["enable_mergejoin"] = "off"
	cfg.RuntimeParams["jit"] = "off"
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
