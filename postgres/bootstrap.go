package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The roles of a cluster, and the name of the program's database.
const (
	Super    = "postgres"        // may do everything; also the name of its database
	Owner    = "sidequest_owner" // owns the databases and runs the migrations
	App      = "sidequest_app"   // the group that holds the program's rights
	Program  = "sidequest"       // what the program logs in as, a member of App
	Database = "sidequest"
)

// bootstrap makes the roles and the database that are missing.
func (c *Cluster) bootstrap(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.URL(Super, Super))
	if err != nil {
		return fmt.Errorf("connect as %s: %w", Super, err)
	}
	defer conn.Close(ctx)

	for _, role := range []struct{ name, options string }{
		{Owner, "LOGIN CREATEROLE"},
		{App, "NOLOGIN"},
		{Program, "LOGIN IN ROLE " + App},
	} {
		if err := ensureRole(ctx, conn, role.name, role.options); err != nil {
			return err
		}
	}
	return ensureDatabase(ctx, conn, Database)
}

func ensureRole(ctx context.Context, conn *pgx.Conn, name, options string) error {
	var exists bool
	err := conn.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`, name).Scan(&exists)
	if err != nil {
		return fmt.Errorf("look for role %s: %w", name, err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE ROLE "+name+" "+options); err != nil {
		return fmt.Errorf("create role %s: %w", name, err)
	}
	return nil
}

func ensureDatabase(ctx context.Context, conn *pgx.Conn, name string) error {
	var exists bool
	err := conn.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&exists)
	if err != nil {
		return fmt.Errorf("look for database %s: %w", name, err)
	}
	if exists {
		return grant(ctx, conn, name)
	}
	return CreateDatabase(ctx, conn, name, "template0")
}

// CreateDatabase makes a database that belongs to [Owner] and in which [App] may
// create schemas, as a copy of a template ("template0" is an empty one). Text
// sorts by its bytes, the same on every machine. The connection is [Super]'s.
func CreateDatabase(ctx context.Context, conn *pgx.Conn, name, template string) error {
	_, err := conn.Exec(ctx, `
		CREATE DATABASE `+pgx.Identifier{name}.Sanitize()+`
		OWNER `+Owner+`
		TEMPLATE `+pgx.Identifier{template}.Sanitize()+`
		ENCODING 'UTF8'
		LC_COLLATE 'C'
		LC_CTYPE 'C'`)
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return grant(ctx, conn, name)
}

// grant gives the rights on a database as a whole, which a copy does not inherit.
func grant(ctx context.Context, conn *pgx.Conn, database string) error {
	name := pgx.Identifier{database}.Sanitize()
	_, err := conn.Exec(ctx, `
		REVOKE ALL ON DATABASE `+name+` FROM PUBLIC;
		GRANT CREATE, CONNECT, TEMPORARY ON DATABASE `+name+` TO `+App)
	if err != nil {
		return fmt.Errorf("grant rights on database %s: %w", database, err)
	}
	return nil
}
