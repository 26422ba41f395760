package eventstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"sidequest/domain"
)

// A decision is one operation ready to be appended: its receipt, the versions of
// the streams it was decided on, and the events it records.
type decision struct {
	id     string // of the operation
	op     Operation
	status string
	result []byte
	guards []guard
	events []Recorded
	size   int // bytes, roughly
}

type guard struct {
	stream  domain.Stream
	version int
}

// The ways an operation ends.
const (
	confirmed = "confirmed"
	refused   = "refused"
)

// decide asks the command. A refusal that belongs on the record is a decision
// without events; every other refusal is an error.
func decide[R any](ctx context.Context, s *Store, seen sight, op Operation, cmd domain.Command[R]) (*decision, error) {
	facts, answer, err := cmd.Decide(seen.states, op.meta())
	d := &decision{id: op.ID(), op: op, status: confirmed}
	var payload any = answer
	if refusal, ok := errors.AsType[*domain.Error](err); ok && refusal.Class.LeavesReceipt() {
		facts, d.status, payload = nil, refused, refusal
	} else if err != nil {
		return nil, err
	}
	if d.result, err = canonical(payload); err != nil {
		return nil, fmt.Errorf("encode the answer of %s: %w", op.Tool, err)
	}
	for stream, h := range seen.heads {
		d.guards = append(d.guards, guard{stream, h.version})
	}
	slices.SortFunc(d.guards, func(a, b guard) int { return cmp.Compare(a.stream, b.stream) })
	if err := d.record(ctx, s, facts, seen.heads); err != nil {
		return nil, err
	}
	return d, nil
}

// record numbers and hashes the facts, each after its predecessor in its stream.
func (d *decision) record(ctx context.Context, s *Store, facts []domain.Fact, heads map[domain.Stream]head) error {
	for i, f := range facts {
		h, read := heads[f.Stream]
		if !read {
			return fmt.Errorf("%s writes to %s, which it did not read", d.op.Tool, f.Stream)
		}
		var err error
		if f.Event, err = s.sealPersonal(ctx, f.Event); err != nil {
			return err
		}
		e, err := compose(d.op, i, f, h)
		if err != nil {
			return err
		}
		heads[f.Stream] = head{e.Version, e.Hash}
		d.events = append(d.events, e)
		d.size += len(e.Data)
	}
	return nil
}

// writes returns the streams the decision records events in. One that records
// none, a refusal, wants those it was decided on.
func (d *decision) writes() []domain.Stream {
	var streams []domain.Stream
	for _, e := range d.events {
		streams = append(streams, e.Stream)
	}
	if len(streams) > 0 {
		return streams
	}
	for _, g := range d.guards {
		streams = append(streams, g.stream)
	}
	return streams
}

// A stored receipt, as it stands in log.operations.
type stored struct {
	operationID string
	tool        string
	argsHash    []byte
	status      string
	result      []byte
}

// answer returns what the ended operation answered, if this is a repeat of it.
func (r stored) answer(op Operation) (Receipt, error) {
	if r.tool != op.Tool || !bytes.Equal(r.argsHash, op.ArgsHash[:]) {
		return Receipt{}, keyConflict()
	}
	return ended(r.operationID, r.status, r.result, true)
}

func ended(operationID, status string, result []byte, replayed bool) (Receipt, error) {
	if status != refused {
		return Receipt{OperationID: operationID, Result: result, Replayed: replayed}, nil
	}
	refusal := new(domain.Error)
	if err := json.Unmarshal(result, refusal); err != nil {
		return Receipt{}, fmt.Errorf("decode the refusal of %s: %w", operationID, err)
	}
	return Receipt{OperationID: operationID, Replayed: replayed}, refusal
}

func keyConflict() error {
	return domain.Refuse(domain.KeyConflict,
		"this operationKey was already used for another tool or with other arguments; repeat exactly that call, or take a new key for a new action").
		At("/operationKey")
}
