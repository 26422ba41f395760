package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/docs"
)

// loadDocs reads the documentation, and puts it where it can be searched.
func loadDocs(ctx context.Context, pool *pgxpool.Pool) (*docs.Index, error) {
	book, err := docs.Load()
	if err != nil {
		return nil, err
	}
	index := &docs.Index{DB: pool, Book: book}
	if err := index.Fill(ctx); err != nil {
		return nil, err
	}
	return index, nil
}
