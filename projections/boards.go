package projections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/domain"
	"sidequest/eventstore"
)

// Boards is the view of how each board is configured. Members are left out: who may
// come to a private board is never read from a view.
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
		config := event.Board
		config.Members = nil
		b.Queue(`
			INSERT INTO board (slug, config)
			VALUES ($1, $2)
			ON CONFLICT (slug) DO UPDATE
			SET config = excluded.config`, e.Stream.ID(), encode(config))
	},
}

// GetBoard returns the reader's board.
func GetBoard(ctx context.Context, r Reader) (domain.Board, error) {
	b, found, err := BoardBySlug(ctx, r.DB, r.Board)
	if err == nil && !found {
		err = domain.Refuse(domain.NotFound, "there is no such board")
	}
	return b, err
}

// ListBoards returns every board, also private ones, by slug, at most 500.
func ListBoards(ctx context.Context, db *pgxpool.Pool) ([]domain.Board, error) {
	rows, err := db.Query(ctx, `
		SELECT config
		FROM board
		ORDER BY slug
		LIMIT 500`)
	if err != nil {
		return nil, fmt.Errorf("list the boards: %w", err)
	}
	boards, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (domain.Board, error) {
		var raw []byte
		var b domain.Board
		err := row.Scan(&raw)
		if err == nil {
			err = json.Unmarshal(raw, &b)
		}
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the boards: %w", err)
	}
	return boards, nil
}

// BoardBySlug returns the board with a slug, or false.
func BoardBySlug(ctx context.Context, db *pgxpool.Pool, slug string) (domain.Board, bool, error) {
	var raw []byte
	err := db.QueryRow(ctx, `
		SELECT config
		FROM board
		WHERE slug = $1`, slug).Scan(&raw)
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.Board{}, false, nil
	}
	if err != nil {
		return domain.Board{}, false, fmt.Errorf("read board %s: %w", slug, err)
	}
	var b domain.Board
	if err := json.Unmarshal(raw, &b); err != nil {
		return domain.Board{}, false, fmt.Errorf("decode board %s: %w", slug, err)
	}
	return b, true, nil
}
