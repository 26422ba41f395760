// Package eventstore is the only way to write to the log and the only way to
// follow it.
//
// It owns the Postgres schema "log": events, stream versions, receipts and
// checkpoints. It guarantees that
//   - an operation key has one effect for ever, and a repeat of it one answer;
//   - positions have no gaps, and position order is commit order, so a reader
//     needs nothing but "after position p";
//   - a write is recorded only if every stream it was decided on stands where it
//     stood, and is answered only once it is durable;
//   - a follower's effects and its checkpoint move in one transaction.
//
// NATS carries wake-ups and a copy of the log; losing it costs latency, never
// facts. The package must not know what any event means, nor any view.
package eventstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/domain"
	"sidequest/failpoint"
)

// A Store reads and writes one log. Open makes one; Run must be running for
// writes to be answered.
type Store struct {
	Pool *pgxpool.Pool // for reads, as the program's own role
	Wake *Wake
	Log  *slog.Logger

	categories map[string]domain.AnyCategory
	wrapping   Wrapping
	batcher    *batcher
	turns      turns
}

// Config is what a Store needs.
type Config struct {
	URL        string        // Postgres, as the program's own role
	Pool       *pgxpool.Pool // to the same database
	Wake       *Wake
	Log        *slog.Logger
	Categories []domain.AnyCategory
	Wrapping   Wrapping // of the keys of personal data; without it there can be none
}

// Open returns a store over an already migrated database.
func Open(cfg Config) *Store {
	s := &Store{
		Pool: cfg.Pool, Wake: cfg.Wake, Log: cfg.Log,
		categories: map[string]domain.AnyCategory{}, wrapping: cfg.Wrapping,
	}
	for _, c := range cfg.Categories {
		s.categories[c.CategoryName()] = c
	}
	s.batcher = newBatcher(cfg.URL, cfg.Wake, cfg.Log)
	return s
}

// Run appends what Execute decides until ctx is done. What is already queued
// then is still written. It returns an error only to be run like other loops.
func (s *Store) Run(ctx context.Context) error {
	s.batcher.run(ctx)
	return nil
}

// An Operation is one intended action. Its key belongs to its owner: the agent,
// or before there is one the operator's connection.
type Operation struct {
	Owner       domain.AgentKey
	Key         string // 1–128 characters of [A-Za-z0-9_-]
	Tool        string
	ArgsHash    [32]byte // of the tool's arguments as sent: see HashArgs
	Board       string   // slug, or "" for none
	Correlation string   // the operation that began the chain; "" for its own
	At          time.Time
}

// ID names the operation to its owner. It depends on owner and key alone.
func (op Operation) ID() string {
	return op.meta().OperationID()
}

func (op Operation) meta() domain.Meta {
	return domain.Meta{Actor: op.Owner, Board: op.Board, OperationKey: op.Key, At: op.At, Hash: Keccak}
}

// A Receipt tells how an operation ended.
type Receipt struct {
	OperationID string
	Result      json.RawMessage // canonical JSON of the command's answer
	Replayed    bool            // it had already ended before this call
}

// patience bounds how long a write competes for its streams before it gives up.
const patience = 10 * time.Second

// Execute carries out one operation: it loads what the command reads, decides,
// and appends. A repeat of the key is answered from its receipt without deciding
// again; where another writer moved a stream first it decides anew.
//
// Refusals are [*domain.Error]: the command's own, key-conflict for a key used
// with other arguments, overloaded or unavailable with retry same-key. After any
// other error the outcome may be unknown; the same key finds out.
func Execute[R any](ctx context.Context, s *Store, op Operation, cmd domain.Command[R]) (Receipt, error) {
	op.At = op.At.UTC().Truncate(time.Microsecond)
	deadline := time.Now().Add(patience)
	giveBack := func() {}
	defer func() { giveBack() }()
	for attempt := 1; ; attempt++ {
		receipt, d, err := try(ctx, s, op, cmd)
		if !errors.Is(err, errMoved) {
			return receipt, err
		}
		if attempt > 1 {
			pause(ctx, attempt)
		} else if giveBack, err = s.turns.take(ctx, deadline, d.writes()); err != nil {
			return Receipt{}, err
		}
		if time.Now().After(deadline) {
			return Receipt{}, busy()
		}
	}
}

// try carries out the operation once. The error is errMoved if another writer was
// first, and then the decision says which streams it wanted.
func try[R any](ctx context.Context, s *Store, op Operation, cmd domain.Command[R]) (Receipt, *decision, error) {
	seen, err := s.look(ctx, op, cmd.Reads(op.meta()))
	if err != nil {
		return Receipt{}, nil, err
	}
	failpoint.Reach(failpoint.WriteLooked)
	if seen.receipt != nil {
		r, err := seen.receipt.answer(op)
		return r, nil, err
	}
	d, err := decide(ctx, s, seen, op, cmd)
	if err != nil {
		r, err := s.refused(ctx, op, err)
		return r, nil, err
	}
	receipt, err := s.append(ctx, d)
	failpoint.Reach(failpoint.WriteAnswered)
	if err == nil && !receipt.Replayed {
		s.keep(ctx, seen, d)
	}
	return receipt, d, err
}

// append appends a decision. If the operation was ended meanwhile by another call,
// or by this one when its outcome was unknown, the receipt is the answer.
func (s *Store) append(ctx context.Context, d *decision) (Receipt, error) {
	receipt, err := s.batcher.append(ctx, d)
	if !errors.Is(err, errKnown) {
		return receipt, err
	}
	receipt, ended, err := s.Repeated(ctx, d.op)
	if !ended && err == nil {
		return Receipt{}, fmt.Errorf("append %s: no receipt of an operation that has one", d.op.ID())
	}
	return receipt, err
}

// Repeated returns the receipt of an operation that has already ended, or false.
// The error is the recorded refusal, or key-conflict.
func (s *Store) Repeated(ctx context.Context, op Operation) (Receipt, bool, error) {
	seen, err := s.look(ctx, op, nil)
	if err != nil || seen.receipt == nil {
		return Receipt{}, false, err
	}
	r, err := seen.receipt.answer(op)
	return r, true, err
}

// refused answers a refusal that leaves no receipt. The very operation may have
// ended between the look at its receipt and the look at the streams, and then
// the refusal was decided on its own effect: the receipt is what counts.
func (s *Store) refused(ctx context.Context, op Operation, refusal error) (Receipt, error) {
	r, ended, err := s.Repeated(ctx, op)
	if ended || err != nil {
		return r, err
	}
	return Receipt{}, refusal
}

func busy() error {
	e := domain.Refuse(domain.Overloaded, "too many writes compete for the same records; repeat the call with the same key")
	e.After = 1
	return e
}

// pause waits a little, longer with each attempt and never in step with others.
func pause(ctx context.Context, attempt int) {
	t := time.NewTimer(rand.N(time.Duration(min(attempt, 10)) * 2 * time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
