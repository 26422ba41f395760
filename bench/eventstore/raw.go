package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sidequest/postgres"
)

// A raw inserts one row of 400 bytes and commits, each writer on a connection of
// its own: what the machine can do at all.
type raw struct {
	url   string
	conns []*pgx.Conn
}

func (r *raw) create(ctx context.Context, owner *pgx.Conn) error {
	_, err := owner.Exec(ctx, `
		CREATE SCHEMA raw;
		CREATE TABLE raw.rows (
			id   bigserial PRIMARY KEY,
			data jsonb NOT NULL
		);
		GRANT USAGE ON SCHEMA raw TO `+postgres.App+`;
		GRANT INSERT ON raw.rows TO `+postgres.App+`;
		GRANT USAGE ON SEQUENCE raw.rows_id_seq TO `+postgres.App)
	if err != nil {
		return fmt.Errorf("create the table of single rows: %w", err)
	}
	return nil
}

func (r *raw) connect(ctx context.Context, writers int) error {
	for len(r.conns) < writers {
		conn, err := pgx.Connect(ctx, r.url)
		if err != nil {
			return fmt.Errorf("connect writer %d: %w", len(r.conns), err)
		}
		r.conns = append(r.conns, conn)
	}
	return nil
}

func (r *raw) hangUp(ctx context.Context) {
	for _, conn := range r.conns {
		conn.Close(ctx)
	}
	r.conns = nil
}

func (r *raw) once(ctx context.Context, writer int) error {
	_, err := r.conns[writer].Exec(ctx, `INSERT INTO raw.rows (data) VALUES ($1)`, added{1, filler})
	return err
}
