package eventstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
)

// snapshotEvery is after how many events of a stream its state is kept anew.
const snapshotEvery = 100

// A kept is a state as it stands in log.snapshots.
type kept struct {
	stream domain.Stream
	head
	state []byte
}

// forms returns for each stream the form in which its state may be kept.
func (s *Store) forms(streams []domain.Stream) []int {
	forms := make([]int, len(streams))
	for i, stream := range streams {
		forms[i] = s.categories[stream.Category()].Form()
	}
	return forms
}

// restore begins the states from snapshots.
func (s *Store) restore(snapshots []kept, seen *sight) error {
	for _, k := range snapshots {
		state, err := s.categories[k.stream.Category()].DecodeState(k.state)
		if err != nil {
			return fmt.Errorf("read the snapshot of %s: %w", k.stream, err)
		}
		seen.states[k.stream], seen.heads[k.stream] = state, k.head
	}
	return nil
}

func collectKept(rows pgx.Rows) ([]kept, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (kept, error) {
		var k kept
		err := row.Scan(&k.stream, &k.version, &k.hash, &k.state)
		return k, err
	})
}

// keep writes snapshots of the streams that the decision has taken past another
// hundred events. A snapshot that cannot be written costs time, nothing else.
func (s *Store) keep(ctx context.Context, seen sight, d *decision) {
	before := map[domain.Stream]int{}
	for _, g := range d.guards {
		before[g.stream] = g.version
	}
	for stream, version := range before {
		c := s.categories[stream.Category()]
		now := seen.heads[stream]
		if c.Form() == 0 || now.version/snapshotEvery == version/snapshotEvery {
			continue
		}
		state := seen.states[stream]
		for _, e := range d.events {
			if e.Stream == stream {
				state = c.Fold(state, e.Event)
			}
		}
		if err := s.writeSnapshot(ctx, c, kept{stream: stream, head: now}, state); err != nil && ctx.Err() == nil {
			s.Log.Warn("cannot keep a snapshot", "stream", stream, "error", err)
		}
	}
}

func (s *Store) writeSnapshot(ctx context.Context, c domain.AnyCategory, k kept, state any) error {
	raw, err := c.EncodeState(state)
	if err != nil {
		return err
	}
	_, err = s.Pool.Exec(ctx, `
		INSERT INTO log.snapshots AS s (stream_id, version, form, hash, state)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (stream_id) DO UPDATE
		SET version = excluded.version, form = excluded.form, hash = excluded.hash, state = excluded.state
		WHERE s.version < excluded.version OR s.form <> excluded.form`, k.stream, k.version, c.Form(), k.hash, raw)
	return err
}
