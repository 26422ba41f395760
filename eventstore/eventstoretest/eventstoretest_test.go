package eventstoretest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"sidequest/eventstore/eventstoretest"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestEachDatabaseIsMigratedAndAlone(t *testing.T) {
	t.Parallel()
	one, other := eventstoretest.NewDB(t), eventstoretest.NewDB(t)
	owner := connect(t, one.OwnerURL)
	if _, err := owner.Exec(t.Context(), `CREATE TABLE public.mine (n int)`); err != nil {
		t.Fatal(err)
	}

	var migrations int
	var mine *string
	err := connect(t, other.OwnerURL).QueryRow(t.Context(), `
		SELECT count(*), to_regclass('public.mine')::text
		FROM public.migrations`).Scan(&migrations, &mine)
	if err != nil {
		t.Fatal(err)
	}
	if migrations == 0 {
		t.Error("no migration is recorded")
	}
	if mine != nil {
		t.Error("a table made in one database is seen in another")
	}
}

func TestTheProgramsRoleMayMakeSchemasButNoTablesAmongTheOwners(t *testing.T) {
	t.Parallel()
	conn := connect(t, eventstoretest.NewDB(t).URL)
	if _, err := conn.Exec(t.Context(), `CREATE SCHEMA view_try_1`); err != nil {
		t.Errorf("make a schema for a view: %v", err)
	}
	if _, err := conn.Exec(t.Context(), `CREATE TABLE public.mine (n int)`); err == nil {
		t.Error("the program's role made a table in the owner's schema")
	}
}
