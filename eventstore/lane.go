package eventstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"sidequest/domain"
	"sidequest/failpoint"
)

// A lane appends one batch at a time, on a connection of its own.
type lane struct {
	*batcher
	conn       *pgx.Conn
	parameters parameters // of the statement under way

	// token is held by whoever appends in the first lane: its run, or a caller who
	// finds it free and nobody waiting, and so spares the way through the queue.
	token chan struct{}
	last  atomic.Int64 // members of the last batch
}

// alone appends the member in the lane on the caller's goroutine, or returns false
// if the lane is not free.
func (l *lane) alone(m *member) bool {
	select {
	case <-l.token:
	default:
		return false
	}
	defer l.giveToken()
	l.commit([]*member{m})
	return true
}

func (l *lane) giveToken() { l.token <- struct{}{} }

// run appends batch after batch until ctx is done and the queue is empty.
func (l *lane) run(ctx context.Context) {
	defer l.hangUp()
	l.giveToken()
	defer func() { <-l.token }() // for good: who comes now has come too late
	for {
		select {
		case m := <-l.queue:
			<-l.token
			l.work([]*member{m})
			l.giveToken()
		case <-ctx.Done():
			if len(l.queue) == 0 {
				return
			}
		}
	}
}

// help appends what has queued whenever there is a crowd, until ctx is done. The
// first lane takes what is left then.
func (l *lane) help(ctx context.Context) {
	defer l.hangUp()
	for {
		select {
		case <-l.crowded:
			l.work(l.drain(nil))
		case <-ctx.Done():
			return
		}
	}
}

// work appends batches until nothing is left to append.
func (l *lane) work(waiting []*member) {
	for len(waiting) > 0 {
		batch, rest := compatible(l.gather(waiting))
		moved := l.commit(batch)
		l.last.Store(int64(len(batch)))
		waiting = l.drain(dismiss(rest, moved))
	}
}

// returning is how long those who were just answered are let go first.
const returning = 50 * time.Microsecond

// gather takes what has queued. Those whose answers the last batch brought are
// about to run, and often come back with their next write: they are waited for, a
// moment since the last of them came, lest the first become a batch of one and the
// others wait for it. Where appends come one by one there is no wait.
func (l *lane) gather(waiting []*member) []*member {
	waiting = l.drain(waiting)
	for came := time.Now(); len(waiting) < int(l.last.Load()) && time.Since(came) < returning; {
		before := len(waiting)
		runtime.Gosched()
		if waiting = l.drain(waiting); len(waiting) > before {
			came = time.Now()
		}
	}
	return waiting
}

func (l *lane) drain(waiting []*member) []*member {
	for {
		select {
		case m := <-l.queue:
			waiting = append(waiting, m)
		default:
			return waiting
		}
	}
}

// commit appends the batch, hands out the outcomes and returns the streams that
// moved. A statement that fails as a whole is repeated member by member, so that
// one cannot fail its neighbours.
func (l *lane) commit(batch []*member) map[domain.Stream]bool {
	moved := map[domain.Stream]bool{}
	outcomes, err := l.insist(batch)
	if err != nil && len(batch) > 1 {
		l.log.Warn("append batch failed, appending its members one by one", "members", len(batch), "error", err)
		for _, m := range batch {
			maps.Copy(moved, l.commit([]*member{m}))
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
func (l *lane) insist(batch []*member) ([]outcome, error) {
	deadline := time.Now().Add(uncertain)
	for attempt := 1; ; attempt++ {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		outcomes, err := l.send(ctx, batch)
		if err == nil || !l.passing(err) || ctx.Err() != nil {
			cancel()
			return outcomes, err
		}
		l.log.Warn("append: outcome unknown, asking again", "attempt", attempt, "error", err)
		l.makeWay(ctx, err)
		l.hangUp()
		pause(ctx, attempt*10)
		cancel()
	}
}

// passing says whether sending the same batch again may help: there is no
// connection any more, or the server was busy, starting or stopping. A batch that
// cannot even be encoded stays so.
func (l *lane) passing(err error) bool {
	pg, answered := errors.AsType[*pgconn.PgError](err)
	if !answered {
		return l.conn == nil || l.conn.IsClosed()
	}
	return passingState(pg.Code)
}

// makeWay ends sessions that stand still and hold the log, if that is why an
// append failed.
func (l *lane) makeWay(ctx context.Context, failure error) {
	const lockNotAvailable = "55P03"
	if pg, ok := errors.AsType[*pgconn.PgError](failure); !ok || pg.Code != lockNotAvailable {
		return
	}
	if _, err := l.conn.Exec(ctx, evictSilent, holdLimit); err != nil {
		l.log.Error("cannot look who holds the log", "error", err)
	}
}

func (l *lane) send(ctx context.Context, batch []*member) ([]outcome, error) {
	if err := l.dial(ctx); err != nil {
		return nil, err
	}
	failpoint.Reach(failpoint.WriteAppending)
	base, codes, err := l.call(ctx, batch)
	if err != nil { // only without one is it known to be committed
		return nil, fmt.Errorf("append %d operations: %w", len(batch), err)
	}
	failpoint.Reach(failpoint.WriteCommitted)
	outcomes, recorded := settle(batch, base, codes)
	if len(recorded) > 0 {
		l.handOver(recorded)
		l.mark()
	}
	return outcomes, nil
}

// call has the server append the batch. codes has an outcome for each member, or
// nothing if all were recorded.
func (l *lane) call(ctx context.Context, batch []*member) (base int64, codes []int, err error) {
	l.parameters.reset()
	switch m := batch[0]; {
	case len(batch) > 1:
		l.parameters.batch(batch)
		row, err := l.row(ctx, stmtBatch)
		if err != nil {
			return 0, nil, err
		}
		return answeredBatch(row)
	case m.inOneStream():
		l.parameters.single(m)
		row, err := l.row(ctx, stmtSingle)
		if keyTaken(err) {
			return 0, []int{codeKnown}, nil
		}
		if err != nil {
			return 0, nil, err
		}
		return answeredSingle(row)
	default:
		l.parameters.one(m)
		row, err := l.row(ctx, stmtOne)
		if err != nil {
			return 0, nil, err
		}
		return answeredOne(row)
	}
}

// row executes one of the append statements with the parameters that are set, and
// returns the one row it answers, in binary.
func (l *lane) row(ctx context.Context, statement string) ([][]byte, error) {
	binary := []int16{pgx.BinaryFormatCode}
	result := l.conn.PgConn().ExecPrepared(ctx, statement, l.parameters.values(), binary, binary).Read()
	if result.Err == nil && len(result.Rows) != 1 {
		result.Err = fmt.Errorf("%s answered %d rows", statement, len(result.Rows))
	}
	if result.Err != nil {
		return nil, result.Err
	}
	return result.Rows[0], nil
}

// dial opens the connection for appends if there is none. Its time limits keep a
// stuck server or lock from holding the batch, and its parameters are fixed here
// so that nothing in the environment weakens durability. The statements of an
// append are planned once: by index, since planning anew for each batch costs
// more than half of the append, and what the plan meets is in no statistics yet.
func (l *lane) dial(ctx context.Context) error {
	if l.conn != nil {
		return nil
	}
	cfg, err := pgx.ParseConfig(l.url)
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
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("append: connect: %w", err)
	}
	l.conn = conn
	for name, sql := range appendStatements {
		if _, err := conn.PgConn().Prepare(ctx, name, sql, nil); err != nil {
			l.hangUp()
			return fmt.Errorf("append: prepare %s: %w", name, err)
		}
	}
	return nil
}

func (l *lane) hangUp() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.conn.Close(ctx) // it is given up either way
	l.conn = nil
}
