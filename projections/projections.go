// Package projections owns the views: what readers see of the log.
//
// Each view is one file: its tables, how events change them, and its queries. A
// view is a fold of the log alone, so it can be built anew from zero at any time
// and comes out the same. Its tables live in a Postgres schema of its own that
// carries its version: a new version is built beside the old one, and old and
// new copies of the program read each its own.
//
// The package must not know tools, protocols or tokens, and writes nothing but
// views.
package projections

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/eventstore"
)

// A Projection is one view.
type Projection struct {
	Name    string // [a-z]+, unique for ever
	Version int    // raise it when Tables or Apply change what comes out
	Tables  string // the statements that make its tables, unqualified
	Apply   func(*pgx.Batch, eventstore.Recorded)
	After   []*Projection // views that must show what this one announces
}

// All is every view of the program.
func All() []*Projection {
	return []*Projection{&Operators, &Boards, &Agents, &Approvals, &Connections, &Requests, &Hires, &Operations, &Feed}
}

// Checkpoint names the view's place in the log.
func (p *Projection) Checkpoint() string { return fmt.Sprintf("%s/%d", p.Name, p.Version) }

// Schema names the Postgres schema of the view's tables.
func (p *Projection) Schema() string { return fmt.Sprintf("view_%s_%d", p.Name, p.Version) }

// Consumer returns what keeps the view up to date.
func (p *Projection) Consumer() eventstore.Consumer {
	return eventstore.Consumer{Name: p.Checkpoint(), Apply: p.Apply, Schema: p.Schema(), After: checkpoints(p.After)}
}

func checkpoints(views []*Projection) []string {
	names := make([]string, len(views))
	for i, v := range views {
		names[i] = v.Checkpoint()
	}
	return names
}

// SearchPath makes the tables of all views visible to a connection.
func SearchPath() string {
	var schemas []string
	for _, p := range All() {
		schemas = append(schemas, p.Schema())
	}
	return strings.Join(append(schemas, "pg_catalog"), ", ")
}

// Prepare makes the tables of views that have none yet, at the beginning of the
// log. Any number of processes may call it at once.
func Prepare(ctx context.Context, db *pgxpool.Pool) error {
	for _, p := range All() {
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return p.prepare(ctx, tx) })
		if err != nil {
			return fmt.Errorf("prepare view %s: %w", p.Name, err)
		}
	}
	return nil
}

func (p *Projection) prepare(ctx context.Context, tx pgx.Tx) error {
	if err := lock(ctx, tx, p); err != nil {
		return err
	}
	var there bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (
			SELECT
			FROM log.checkpoints
			WHERE name = $1)`, p.Checkpoint()).Scan(&there)
	if err != nil || there {
		return err
	}
	return p.create(ctx, tx, p.Schema(), p.Checkpoint())
}

// lock lets one transaction at a time make or exchange the view's tables.
func lock(ctx context.Context, tx pgx.Tx, p *Projection) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext($1))`, "view "+p.Name)
	return err
}

// create makes the view's tables in a schema, with a checkpoint at zero.
func (p *Projection) create(ctx context.Context, tx pgx.Tx, schema, checkpoint string) error {
	name := pgx.Identifier{schema}.Sanitize()
	for _, sql := range []string{
		`DROP SCHEMA IF EXISTS ` + name + ` CASCADE`,
		`CREATE SCHEMA ` + name,
		`SET LOCAL search_path TO ` + name,
		p.Tables,
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO log.checkpoints (name, epoch, pos)
		SELECT $1, epoch, 0
		FROM log.head
		WHERE shard = 0
		ON CONFLICT (name) DO UPDATE
		SET epoch = excluded.epoch, pos = 0`, checkpoint)
	return err
}
