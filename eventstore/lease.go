package eventstore

import (
	"context"
	"fmt"
	"time"
)

// leaseTerm is how long a process that stopped keeps a lease from the others.
const leaseTerm = 3 * time.Second

// lease takes or renews a lease for owner and says whether it has it. The clock
// is the database's. A lease spares double work; it never makes work safe.
func (s *Store) lease(ctx context.Context, name, owner string) (bool, error) {
	tag, err := s.Pool.Exec(ctx, `
		INSERT INTO log.leases AS l (name, owner, until)
		VALUES ($1, $2, clock_timestamp() + $3)
		ON CONFLICT (name) DO UPDATE
		SET owner = excluded.owner, until = excluded.until
		WHERE l.owner = excluded.owner OR l.until < clock_timestamp()`, name, owner, leaseTerm)
	if err != nil {
		return false, fmt.Errorf("take lease %s: %w", name, err)
	}
	return tag.RowsAffected() == 1, nil
}

// release gives a lease up, so that the next process need not wait it out.
func (s *Store) release(ctx context.Context, name, owner string) error {
	_, err := s.Pool.Exec(ctx, `
		DELETE FROM log.leases
		WHERE name = $1 AND owner = $2`, name, owner)
	if err != nil {
		return fmt.Errorf("release lease %s: %w", name, err)
	}
	return nil
}

// Singly runs work again and again, in one process of all that call it with the
// name: every interval, while this process holds the lease. Work that overruns
// the lease may briefly run twice, so it must be safe to repeat.
func (s *Store) Singly(ctx context.Context, name, owner string, every time.Duration, work func(context.Context) error) {
	for ctx.Err() == nil {
		mine, err := s.lease(ctx, name, owner)
		if err == nil && mine {
			err = work(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.Log.Error("work under a lease failed", "lease", name, "error", err)
		}
		wait(ctx, nil, every)
	}
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.release(bye, name, owner) // else it runs out by itself
}
