package projections

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sidequest/eventstore"
	"sidequest/failpoint"
)

// Find returns the view with a name.
func Find(name string) (*Projection, error) {
	var names []string
	for _, p := range All() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return nil, fmt.Errorf("there is no view %q; the views are %v", name, names)
}

// Rebuild folds the log anew into tables beside the live ones, while writes and
// reads go on, and then puts them in the place of the live ones in one step.
// progress hears how far it is.
func (p *Projection) Rebuild(ctx context.Context, s *eventstore.Store, progress func(pos, head int64)) error {
	free, err := p.rebuildAlone(ctx, s)
	if err != nil {
		return err
	}
	defer free()
	next := *p
	next.Name += "_next"
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		if err := lock(ctx, tx, p); err != nil {
			return err
		}
		return p.create(ctx, tx, next.Schema(), next.Checkpoint())
	})
	if err != nil {
		return fmt.Errorf("rebuild %s: make the new tables: %w", p.Name, err)
	}
	consumer := next.Consumer()
	consumer.SkipsOf = p.Checkpoint()
	if err := s.CatchUp(ctx, consumer, progress); err != nil {
		return fmt.Errorf("rebuild %s: %w", p.Name, err)
	}
	failpoint.Reach(failpoint.ViewRebuilt)
	if err := p.exchange(ctx, s, &next, consumer); err != nil {
		return fmt.Errorf("rebuild %s: exchange the tables: %w", p.Name, err)
	}
	s.Wake.Ring(eventstore.TopicView(p.Checkpoint()))
	return nil
}

// rebuildAlone sees that nobody else rebuilds the view at the same time.
func (p *Projection) rebuildAlone(ctx context.Context, s *eventstore.Store) (free func(), err error) {
	conn, err := s.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("rebuild %s: %w", p.Name, err)
	}
	var alone bool
	err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtext($1))`, "rebuild "+p.Name).Scan(&alone)
	if err == nil && !alone {
		err = errors.New("it is being rebuilt already; wait until that is done")
	}
	if err != nil {
		conn.Release()
		return nil, fmt.Errorf("rebuild %s: %w", p.Name, err)
	}
	return func() {
		_ = conn.Conn().Close(context.WithoutCancel(ctx)) // and the lock with it
		conn.Release()
	}, nil
}

// exchange holds the live view still, applies the little that is missing, and
// gives the new tables its name. Readers in the middle of a query finish on the
// old tables.
func (p *Projection) exchange(ctx context.Context, s *eventstore.Store, next *Projection, consumer eventstore.Consumer) error {
	old := p.Schema() + "_old"
	err := pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		if err := lock(ctx, tx, p); err != nil {
			return err
		}
		if err := s.CatchUpIn(ctx, tx, consumer, p.Checkpoint()); err != nil {
			return err
		}
		for _, sql := range []string{
			`DROP SCHEMA IF EXISTS ` + old + ` CASCADE`, // left by a rebuild that died here
			fmt.Sprintf(`ALTER SCHEMA %s RENAME TO %s`, p.Schema(), old),
			fmt.Sprintf(`ALTER SCHEMA %s RENAME TO %s`, next.Schema(), p.Schema()),
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		failpoint.Reach(failpoint.ViewExchanging)
		return s.Succeed(ctx, tx, next.Checkpoint(), p.Checkpoint())
	})
	if err != nil {
		return err
	}
	failpoint.Reach(failpoint.ViewExchanged)
	_, err = s.Pool.Exec(ctx, `DROP SCHEMA `+old+` CASCADE`)
	return err
}
