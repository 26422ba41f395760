package eventstore_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"sidequest/eventstore/eventstoretest"
)

// A process can be stopped at any moment: between statements, when a page is on
// its way to it, when it has sent half of what it wanted to. It holds a view's
// checkpoint then, and must lose it.
func TestAProcessThatIsStoppedInMidStepLosesTheCheckpoint(t *testing.T) {
	t.Parallel()
	for _, stop := range []struct {
		name string
		at   func(t *testing.T, conn *pgx.Conn)
	}{
		{"while a page is on its way to it", func(t *testing.T, conn *pgx.Conn) {
			t.Helper()
			conn.PgConn().Frontend().Send(&pgproto3.Query{String: `SELECT repeat('x', 1000000) FROM generate_series(1, 100)`})
			flush(t, conn)
		}},
		{"when it has sent a part of its statements", func(t *testing.T, conn *pgx.Conn) {
			t.Helper()
			conn.PgConn().Frontend().Send(&pgproto3.Parse{Query: `SELECT 1`})
			flush(t, conn)
		}},
	} {
		t.Run(stop.name, func(t *testing.T) {
			t.Parallel()
			db := eventstoretest.NewDB(t)
			p := start(t, db, eventstoretest.NewNATS(t))
			c := totals(t, p)
			stopped := lockRow(t, db, `SELECT pos FROM log.checkpoints WHERE name = $1 FOR UPDATE`, c.Name)
			stop.at(t, stopped)
			if _, err := count(t, p, "ann", "1", Count{ID: "a", By: 1}); err != nil {
				t.Fatal(err)
			}
			consume(t, p, c)
			eventually(t, "the view goes on", func() bool {
				var n int
				err := p.Pool.QueryRow(t.Context(), `SELECT events FROM totals.total`).Scan(&n)
				return err == nil && n == 1
			})
		})
	}
}

// The same with the head of the log, which every append of every process needs.
func TestAProcessThatIsStoppedInMidAppendLosesTheHead(t *testing.T) {
	t.Parallel()
	db := eventstoretest.NewDB(t)
	p := start(t, db, eventstoretest.NewNATS(t))
	stopped := lockRow(t, db, `SELECT pos FROM log.head WHERE shard = $1 FOR UPDATE`, 0)
	stopped.PgConn().Frontend().Send(&pgproto3.Parse{Query: `SELECT 1`})
	flush(t, stopped)
	if _, err := count(t, p, "ann", "1", Count{ID: "a", By: 1}); err != nil {
		t.Fatal(err)
	}
}

// lockRow returns a connection of the program that holds a row.
func lockRow(t *testing.T, db *eventstoretest.DB, sql string, args ...any) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var pos int64
	if err := tx.QueryRow(t.Context(), sql, args...).Scan(&pos); err != nil {
		t.Fatal(err)
	}
	return conn
}

func flush(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if err := conn.PgConn().Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
}
