package migrations_test

import (
	"context"
	"fmt"
	"io/fs"
	"regexp"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"sidequest/eventstore/eventstoretest"
	"sidequest/migrations"
)

func TestEveryFileHasANumberOfItsOwn(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`^(\d{4})_[a-z0-9_]+\.sql$`)
	taken := map[string]string{}
	for _, name := range names {
		m := form.FindStringSubmatch(name)
		if m == nil {
			t.Errorf("%s is not named like 0001_log.sql", name)
			continue
		}
		if other := taken[m[1]]; other != "" {
			t.Errorf("%s and %s have the same number", other, name)
		}
		taken[m[1]] = name
	}
}

func TestEachFileIsAppliedOnceInTheOrderOfTheNumbers(t *testing.T) {
	t.Parallel()
	db := eventstoretest.NewDB(t)
	conn := connect(t, db.OwnerURL)
	dir := fstest.MapFS{
		"9001_steps.sql":  {Data: []byte(`CREATE TABLE steps (n int PRIMARY KEY); INSERT INTO steps VALUES (1)`)},
		"9002_second.sql": {Data: []byte(`INSERT INTO steps SELECT max(n) + 1 FROM steps`)},
	}
	for range 2 {
		if err := migrations.UpWith(t.Context(), conn, dir); err != nil {
			t.Fatal(err)
		}
	}
	dir["9003_third.sql"] = &fstest.MapFile{Data: []byte(`INSERT INTO steps SELECT max(n) + 1 FROM steps`)}
	if err := migrations.UpWith(t.Context(), conn, dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{1, 2, 3}, steps(t, conn)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestAFileThatFailsLeavesNothingAndIsTriedAgain(t *testing.T) {
	t.Parallel()
	db := eventstoretest.NewDB(t)
	conn := connect(t, db.OwnerURL)
	dir := fstest.MapFS{
		"9001_steps.sql": {Data: []byte(`CREATE TABLE steps (n int PRIMARY KEY)`)},
		"9002_half.sql":  {Data: []byte(`INSERT INTO steps VALUES (1); INSERT INTO nowhere VALUES (1)`)},
	}
	if err := migrations.UpWith(t.Context(), conn, dir); err == nil {
		t.Fatal("a file with a fault was applied")
	}
	if got := steps(t, conn); len(got) != 0 {
		t.Errorf("half a file was applied: %v", got)
	}
	dir["9002_half.sql"] = &fstest.MapFile{Data: []byte(`INSERT INTO steps VALUES (2)`)}
	if err := migrations.UpWith(t.Context(), conn, dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{2}, steps(t, conn)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestProcessesThatMigrateAtOnceWaitForEachOther(t *testing.T) {
	t.Parallel()
	db := eventstoretest.NewDB(t)
	dir := fstest.MapFS{}
	for i := range 5 {
		dir[fmt.Sprintf("900%d_step.sql", i)] = &fstest.MapFile{
			Data: fmt.Appendf(nil, `CREATE TABLE IF NOT EXISTS steps (n int PRIMARY KEY); INSERT INTO steps VALUES (%d)`, i),
		}
	}
	group, ctx := errgroup.WithContext(t.Context())
	for range 8 {
		group.Go(func() error { return migrate(ctx, db.OwnerURL, dir) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{0, 1, 2, 3, 4}, steps(t, connect(t, db.OwnerURL))); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func migrate(ctx context.Context, url string, dir fs.FS) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return migrations.UpWith(ctx, conn, dir)
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func steps(t *testing.T, conn *pgx.Conn) []int {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
		SELECT n
		FROM steps
		ORDER BY n`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	return all
}
