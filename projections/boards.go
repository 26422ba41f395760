package projections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
	"sidequest/eventstore"
)

// Boards is the view of how each board is configured.
var Boards = Projection{
	Name:    "boards",
	Version: 1,
	Tables: `
		CREATE TABLE board (
			slug   text COLLATE "C" PRIMARY KEY,
			config bytea NOT NULL -- JSON
		);`,
	Apply: func(b *pgx.Batch, e eventstore.Recorded) {
		event, ok := e.Event.(domain.BoardConfigured)
		if !ok {
			return
		}
		b.Queue(`
			INSERT INTO board (slug, config)
			VALUES ($1, $2)
			ON CONFLICT (slug) DO UPDATE
			SET config = excluded.config`, e.Stream.ID(), encode(event.Board))
	},
}

// GetBoard returns the reader's board.
func GetBoard(ctx context.Context, r Reader) (domain.Board, error) {
	var raw []byte
	err := r.DB.QueryRow(ctx, `
		SELECT config
		FROM board
		WHERE slug = $1`, r.Board).Scan(&raw)
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.Board{}, domain.Refuse(domain.NotFound, "there is no such board")
	}
	if err != nil {
		return domain.Board{}, fmt.Errorf("read board %s: %w", r.Board, err)
	}
	var b domain.Board
	if err := json.Unmarshal(raw, &b); err != nil {
		return domain.Board{}, fmt.Errorf("decode board %s: %w", r.Board, err)
	}
	return b, nil
}
