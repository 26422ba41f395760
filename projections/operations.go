package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/domain"
	"sidequest/eventstore"
)

// Operations is the view of what each operation put on the record.
var Operations = Projection{
	Name:    "operations",
	Version: 1,
	Tables: `
		CREATE TABLE operation_fact (
			operation_id text COLLATE "C" NOT NULL,
			pos          bigint NOT NULL,
			event_id     text COLLATE "C" NOT NULL,
			type         text NOT NULL,
			at           timestamptz NOT NULL,
			hash         bytea NOT NULL,
			PRIMARY KEY (operation_id, pos)
		);`,
	Apply: func(b *pgx.Batch, e eventstore.Recorded) {
		b.Queue(`
			INSERT INTO operation_fact (operation_id, pos, event_id, type, at, hash)
			VALUES ($1, $2, $3, $4, $5, $6)`, e.Causation, e.Position, e.ID, e.Type, e.At, e.Hash)
	},
}

// An Operation is how one operation of an agent ended.
type Operation struct {
	ID     string
	Tool   string
	Status string // confirmed or refused
	Result []byte // the answer, or the refusal, as JSON
	At     time.Time
	Facts  []OperationFact
}

// An OperationFact is one event an operation recorded, with its hash.
type OperationFact struct {
	EventID string
	Type    string
	At      time.Time
	Hash    []byte // SHA-256
}

// GetOperation returns the owner's operation with an id, or false. Another
// owner's operation is as unknown as one that never was.
func GetOperation(ctx context.Context, db *pgxpool.Pool, owner domain.AgentKey, id string) (Operation, bool, error) {
	op := Operation{ID: id}
	err := db.QueryRow(ctx, `
		SELECT tool, status, result, at
		FROM log.operations
		WHERE operation_id = $1 AND owner = $2`, id, owner).Scan(&op.Tool, &op.Status, &op.Result, &op.At)
	if errors.Is(err, pgx.ErrNoRows) {
		return Operation{}, false, nil
	}
	if err != nil {
		return Operation{}, false, fmt.Errorf("read operation %s: %w", id, err)
	}
	rows, err := db.Query(ctx, `
		SELECT event_id, type, at, hash
		FROM operation_fact
		WHERE operation_id = $1
		ORDER BY pos`, id)
	if err != nil {
		return Operation{}, false, fmt.Errorf("read the facts of operation %s: %w", id, err)
	}
	op.Facts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[OperationFact])
	if err != nil {
		return Operation{}, false, fmt.Errorf("read the facts of operation %s: %w", id, err)
	}
	return op, true, nil
}
