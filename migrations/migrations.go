// Package migrations holds the database's definition as numbered SQL files and
// applies those that a database lacks.
//
// It guarantees that each file is applied once, in the order of the numbers,
// whole or not at all, however many processes try at a time. Files only go
// forward, and a program of the version before must be able to run before,
// during and after each of them. It must not know what the tables mean.
package migrations

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
)

//go:embed *.sql
var files embed.FS

// advisoryLock keeps a second process out while one migrates. The number is
// arbitrary and must not change.
const advisoryLock = 7_405_239_178_166_513

// Up brings the database up to date. The connection is the owner's.
func Up(ctx context.Context, conn *pgx.Conn) error { return up(ctx, conn, files) }

// Fingerprint names the content of all files: two programs with the same
// fingerprint define the same database.
func Fingerprint() (string, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", fmt.Errorf("list migrations: %w", err)
	}
	h := sha256.New()
	for _, name := range names {
		sql, err := files.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("read migration: %w", err)
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(sql), sql)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

func up(ctx context.Context, conn *pgx.Conn, dir fs.FS) (err error) {
	names, err := fs.Glob(dir, "*.sql") // sorted
	if err != nil {
		return fmt.Errorf("list migrations: %w", err)
	}
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, advisoryLock); err != nil {
		return fmt.Errorf("wait for other migrations: %w", err)
	}
	defer func() {
		// If the caller has given up, the connection is gone and the lock with it.
		_, _ = conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, advisoryLock)
	}()

	_, err = conn.Exec(ctx, `
		CREATE TABLE IF NOT EXISTS public.migrations (
			name       text        PRIMARY KEY,
			applied_at timestamptz NOT NULL DEFAULT now()
		)`)
	if err != nil {
		return fmt.Errorf("create table of migrations: %w", err)
	}
	for _, name := range names {
		if err := apply(ctx, conn, dir, name); err != nil {
			return fmt.Errorf("apply migration %s: %w", name, err)
		}
	}
	return nil
}

// apply runs one file and notes its name, in one transaction, unless that was done.
func apply(ctx context.Context, conn *pgx.Conn, dir fs.FS, name string) error {
	sql, err := fs.ReadFile(dir, name)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			INSERT INTO public.migrations (name)
			VALUES ($1)
			ON CONFLICT (name) DO NOTHING`, name)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		_, err = tx.Exec(ctx, string(sql))
		return err
	})
}
