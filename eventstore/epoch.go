package eventstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// errExchanged says that the log under this process is not the one it knew: it
// was restored, or a server took over that lacks its tail.
var errExchanged = errors.New("the log was exchanged for another one")

// NewEpoch begins a new epoch and returns its number. It is for a log that may
// lack what its followers have already seen, such as one restored from a backup:
// positions may come again and mean something else. From then on cursors of
// before are answered as truncated, the copy in JetStream is begun anew, and
// processes that still remember the former log end themselves.
func (s *Store) NewEpoch(ctx context.Context) (epoch int, err error) {
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			UPDATE log.head
			SET epoch = epoch + 1
			WHERE shard = 0
			RETURNING epoch`).Scan(&epoch)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE log.checkpoints
			SET epoch = $1`, epoch)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("begin a new epoch: %w", err)
	}
	s.Wake.Ring(TopicLog)
	return epoch, nil
}

// end returns the epoch and the last position of the log.
func (s *Store) end(ctx context.Context) (messageID, error) {
	var now messageID
	err := s.Pool.QueryRow(ctx, `
		SELECT epoch, pos
		FROM log.head
		WHERE shard = 0`).Scan(&now.epoch, &now.pos)
	if err != nil {
		return messageID{}, fmt.Errorf("read the head of the log: %w", err)
	}
	return now, nil
}

// continues says whether a log that ends at now can be the one that was seen to
// reach an earlier end.
func (id messageID) continues(earlier messageID) bool {
	return id.epoch == earlier.epoch && id.pos >= earlier.pos
}
