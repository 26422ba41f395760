// Package eventstoretest gives each test a migrated database of its own.
//
// It owns the template databases and the copies of a test cluster. It guarantees
// that a copy has all migrations of this build, that nobody else uses it and that
// it is dropped with its test. It is for tests alone.
package eventstoretest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/migrations"
	"sidequest/postgres"
)

// Env names the variable that holds the URL of the test cluster's superuser.
// "sidequest testdb" sets it.
const Env = "TEST_DATABASE_URL"

// templateLock makes one process at a time build a template. The number is arbitrary.
const templateLock = 2_871_604_418_093_327

// A DB is a database that belongs to one test.
type DB struct {
	Name     string
	URL      string // for the program's role, which may only do what the program may
	OwnerURL string // for the role that owns the tables
}

// NewDB returns a new database with all migrations applied. It is dropped, with
// whatever connections are left, when the test ends. Take one per top-level test;
// subtests share it by using streams of their own.
func NewDB(t testing.TB) *DB {
	t.Helper()
	return newDB(t, ensureTemplate)
}

// NewEmptyDB returns a new database without any table, for what has to migrate it
// itself.
func NewEmptyDB(t testing.TB) *DB {
	t.Helper()
	return newDB(t, func(context.Context, *pgx.Conn, string) (string, error) { return "template0", nil })
}

// newDB copies the template that is found or made.
func newDB(t testing.TB, find func(ctx context.Context, conn *pgx.Conn, admin string) (string, error)) *DB {
	t.Helper()
	admin := os.Getenv(Env)
	if admin == "" {
		t.Fatalf("%s is not set: run the tests with `make test`, or `bin/sidequest testdb -- go test ./...`", Env)
	}
	db := &DB{Name: "test_" + strings.ToLower(rand.Text()[:12])}
	db.URL = address(t, admin, db.Name, postgres.Program)
	db.OwnerURL = address(t, admin, db.Name, postgres.Owner)

	// A test's own context ends before its cleanups run, and a database half
	// made would stay behind.
	withAdmin(t, admin, func(ctx context.Context, conn *pgx.Conn) error {
		template, err := find(ctx, conn, admin)
		if err != nil {
			return err
		}
		return postgres.CreateDatabase(ctx, conn, db.Name, template)
	})
	t.Cleanup(func() {
		withAdmin(t, admin, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "DROP DATABASE "+db.Name+" WITH (FORCE)")
			return err
		})
	})
	return db
}

// withAdmin does something as the superuser, within a minute, or fails the test.
func withAdmin(t testing.TB, admin string, do func(context.Context, *pgx.Conn) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		t.Fatalf("connect to test cluster: %v", err)
	}
	defer conn.Close(ctx)
	if err := do(ctx, conn); err != nil {
		t.Fatalf("prepare test database: %v", err)
	}
}

// ensureTemplate returns the name of a database with all migrations, to copy
// from. It is built under another name and renamed last, so a name that exists
// is complete; its name depends on the migrations, so it is never out of date.
func ensureTemplate(ctx context.Context, conn *pgx.Conn, admin string) (string, error) {
	fingerprint, err := migrations.Fingerprint()
	if err != nil {
		return "", err
	}
	template := "template_" + fingerprint
	if done, err := exists(ctx, conn, template); done || err != nil {
		return template, err
	}

	// The lock goes with the connection, which lives for this call alone.
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, templateLock); err != nil {
		return "", fmt.Errorf("wait for another builder: %w", err)
	}
	defer conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, templateLock) //nolint:errcheck // see above
	if done, err := exists(ctx, conn, template); done || err != nil {
		return template, err
	}
	return template, build(ctx, conn, admin, template)
}

func build(ctx context.Context, conn *pgx.Conn, admin, template string) error {
	unfinished := template + "_unfinished"
	if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+unfinished+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop unfinished template: %w", err)
	}
	if err := postgres.CreateDatabase(ctx, conn, unfinished, "template0"); err != nil {
		return err
	}
	if err := migrate(ctx, admin, unfinished); err != nil {
		return err
	}
	// A database that somebody is connected to cannot be copied.
	_, err := conn.Exec(ctx, "ALTER DATABASE "+unfinished+" ALLOW_CONNECTIONS false")
	if err != nil {
		return fmt.Errorf("close template: %w", err)
	}
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+unfinished+" RENAME TO "+template); err != nil {
		return fmt.Errorf("name template: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, admin, database string) error {
	u, err := rolesURL(admin, database, postgres.Owner)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, u)
	if err != nil {
		return fmt.Errorf("connect to new template: %w", err)
	}
	defer conn.Close(ctx)
	return migrations.Up(ctx, conn)
}

func exists(ctx context.Context, conn *pgx.Conn, database string) (found bool, err error) {
	err = conn.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, database).Scan(&found)
	return found, err
}

func address(t testing.TB, admin, database, role string) string {
	t.Helper()
	u, err := rolesURL(admin, database, role)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// rolesURL returns the superuser's URL with another database and role.
func rolesURL(admin, database, role string) (string, error) {
	u, err := url.Parse(admin)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", Env, err)
	}
	u.User = url.User(role)
	u.Path = "/" + database
	return u.String(), nil
}
