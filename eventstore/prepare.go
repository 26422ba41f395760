package eventstore

import (
	"context"
	"time"

	"sidequest/domain"
)

// A Prepared operation is decided and not yet appended.
type Prepared struct {
	store    *Store
	decision *decision
}

// Prepare looks and decides as [Execute] does and stops there, for those who
// measure an append by itself. The operation must be new.
func Prepare[R any](ctx context.Context, s *Store, op Operation, cmd domain.Command[R]) (Prepared, error) {
	op.At = op.At.UTC().Truncate(time.Microsecond)
	seen, err := s.look(ctx, op, cmd.Reads(op.meta()))
	if err != nil {
		return Prepared{}, err
	}
	d, err := decide(ctx, s, seen, op, cmd)
	return Prepared{s, d}, err
}

// Append appends the operation. Where another writer moved one of its streams
// since, it fails and has to be prepared again.
func (p Prepared) Append(ctx context.Context) (Receipt, error) {
	return p.store.append(ctx, p.decision)
}
