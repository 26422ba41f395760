package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/postgres"
)

// startAndDie is set in the environment of a copy of this test binary: it starts
// the cluster in that folder, says so and waits to be killed.
const startAndDie = "POSTGRES_TEST_START_AND_DIE"

func TestMain(m *testing.M) {
	dir := os.Getenv(startAndDie)
	if dir == "" {
		os.Exit(m.Run())
	}
	c := postgres.Cluster{Dir: dir, Throwaway: true}
	if err := c.Start(context.Background()); err != nil {
		_, _ = os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString("started\n")
	select {}
}

func TestWhatWasCommittedIsThereAfterARestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, dataFolder(t))
	start(t, c)
	execute(t, c, `CREATE TABLE kept (n int)`)
	stop(t, c)
	if _, err := pgx.Connect(t.Context(), c.URL(postgres.Super, postgres.Super)); err == nil {
		t.Fatal("the server answers after it was stopped")
	}
	start(t, c)
	execute(t, c, `INSERT INTO kept VALUES (1)`)
}

func TestAServerWhoseStarterWasKilledIsTakenOver(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	killStarter(t, dir)

	c := newCluster(t, dir)
	start(t, c)
	first := postmaster(t, c)
	execute(t, c, `SELECT 1`)
	stop(t, c)
	start(t, c)
	if postmaster(t, c) == first {
		t.Error("the server that was taken over did not stop")
	}
}

func TestAServerThatWasKilledItselfIsStartedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, dataFolder(t))
	start(t, c)
	execute(t, c, `CREATE TABLE kept (n int)`)
	// A busy backend outlives its server for a while and keeps the memory.
	busy := connect(t, c.URL(postgres.Super, postgres.Super))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = busy.Exec(context.Background(), `SELECT pg_sleep(1)`)
	}()
	if err := syscall.Kill(postmaster(t, c), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	start(t, c)
	execute(t, c, `INSERT INTO kept VALUES (1)`)
	<-ended
	stop(t, c)
	if running(c) {
		t.Error("the server that was started again goes on after its last user")
	}
}

func TestANoteThatNamesAnotherProcessIsStale(t *testing.T) {
	t.Parallel()
	c := newCluster(t, dataFolder(t))
	start(t, c)
	stop(t, c)
	note := []byte(strconv.Itoa(os.Getpid()) + "\n" + filepath.Join(c.Home(), "data") + "\n")
	if err := os.WriteFile(filepath.Join(c.Home(), "data", "postmaster.pid"), note, 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, c)
	execute(t, c, `SELECT 1`)
}

func TestTheLastUserEndsTheServer(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	one, other := newCluster(t, dir), newCluster(t, dir)
	start(t, one)
	start(t, other)
	stop(t, one)
	execute(t, other, `SELECT 1`)
	if !one.InUse() {
		t.Error("the cluster counts as unused while another uses it")
	}
	stop(t, other)
	if one.InUse() {
		t.Error("the cluster counts as used after the last one stopped")
	}
	if running(other) {
		t.Error("the server goes on after its last user")
	}
}

func TestStartsAtOnceMakeOneServer(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	failures := make(chan error)
	var all []*postgres.Cluster
	for range 3 {
		c := newCluster(t, dir)
		all = append(all, c)
		go func() { failures <- c.Start(t.Context()) }()
	}
	for range all {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	for _, c := range all {
		execute(t, c, `SELECT 1`)
	}
}

func TestAFolderMayHaveAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"with spaces", `q'uo"te $HOME`, strings.Repeat("long", 40)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, filepath.Join(dataFolder(t), name))
			start(t, c)
			execute(t, c, `CREATE TABLE kept (n int)`)
			stop(t, c)
			start(t, c)
			execute(t, c, `SELECT n FROM kept`)
		})
	}
}

func TestAFolderClosedToTheServersUserHasItsClusterElsewhere(t *testing.T) {
	t.Parallel()
	closed := filepath.Join(dataFolder(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(closed, "data")
	c := newCluster(t, dir)
	start(t, c)
	home := c.Home()
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	execute(t, c, `CREATE TABLE kept (n int)`)
	stop(t, c)

	inside := strings.HasPrefix(home, closed)
	if root := os.Geteuid() == 0; root == inside {
		t.Errorf("as root %v, the cluster is in %s", root, home)
	}
	again := newCluster(t, dir)
	start(t, again)
	execute(t, again, `SELECT n FROM kept`)
}

func TestOtherUsersCannotReachTheServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, dataFolder(t))
	start(t, c)
	for _, dir := range []string{c.Home(), socketFolder(t, c)} {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %o", dir, info.Mode().Perm())
		}
	}
	var addresses string
	err := connect(t, c.URL(postgres.Super, postgres.Super)).QueryRow(t.Context(), `SHOW listen_addresses`).Scan(&addresses)
	if err != nil {
		t.Fatal(err)
	}
	if addresses != "" {
		t.Errorf("the server listens on %q", addresses)
	}
}

func TestTheRolesHaveTheirRightsAndNoMore(t *testing.T) {
	t.Parallel()
	c := newCluster(t, dataFolder(t))
	start(t, c)
	owner := connect(t, c.URL(postgres.Database, postgres.Owner))
	program := connect(t, c.URL(postgres.Database, postgres.Program))
	for _, step := range []struct {
		conn    *pgx.Conn
		sql     string
		refused bool
	}{
		{conn: owner, sql: `CREATE TABLE public.theirs (n int)`},
		{conn: owner, sql: `CREATE SCHEMA log`},
		{conn: program, sql: `CREATE SCHEMA view_try_1`},
		{conn: program, sql: `CREATE TEMPORARY TABLE t (n int)`},
		{conn: program, sql: `CREATE TABLE public.mine (n int)`, refused: true},
		{conn: program, sql: `SELECT n FROM public.theirs`, refused: true},
		{conn: program, sql: `CREATE ROLE more`, refused: true},
	} {
		if _, err := step.conn.Exec(t.Context(), step.sql); (err != nil) != step.refused {
			t.Errorf("%s: %v, refused should be %v", step.sql, err, step.refused)
		}
	}
}

func TestThrowawayAloneGivesUpSafety(t *testing.T) {
	t.Parallel()
	for throwaway, want := range map[bool]string{true: "off", false: "on"} {
		c := newCluster(t, dataFolder(t))
		c.Throwaway = throwaway
		start(t, c)
		var fsync string
		err := connect(t, c.URL(postgres.Super, postgres.Super)).QueryRow(t.Context(), `SHOW fsync`).Scan(&fsync)
		if err != nil {
			t.Fatal(err)
		}
		if fsync != want {
			t.Errorf("throwaway %v: fsync is %s", throwaway, fsync)
		}
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	c := newCluster(t, dataFolder(t))
	start(t, c)
	stop(t, c)
	hba := filepath.Join(c.Home(), "data", "pg_hba.conf")
	if err := os.WriteFile(hba, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := c.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "pg_hba.conf") {
		t.Errorf("start answered %v", err)
	}
}

// dataFolder makes a folder that the server's user can reach, which t.TempDir is
// not for root.
func dataFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sidequest-postgres-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// newCluster returns a cluster that is stopped with the test.
func newCluster(t *testing.T, dir string) *postgres.Cluster {
	t.Helper()
	var log bytes.Buffer
	c := &postgres.Cluster{Dir: dir, Throwaway: true, Log: slog.New(slog.NewTextHandler(&log, nil))}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return c
}

func start(t *testing.T, c *postgres.Cluster) {
	t.Helper()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func stop(t *testing.T, c *postgres.Cluster) {
	t.Helper()
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// killStarter lets another process start the cluster and kills it.
func killStarter(t *testing.T, dir string) {
	t.Helper()
	starter := exec.CommandContext(t.Context(), os.Args[0])
	starter.Env = append(os.Environ(), startAndDie+"="+dir)
	out, err := starter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1000)
	n, _ := out.Read(answer)
	if got := string(answer[:n]); got != "started\n" {
		t.Fatalf("the starter says: %s", got)
	}
	if err := starter.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = starter.Wait() // it was killed
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

func execute(t *testing.T, c *postgres.Cluster, sql string) {
	t.Helper()
	conn := connect(t, c.URL(postgres.Super, postgres.Super))
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(t.Context())
}

// running says whether a server left its note in the folder.
func running(c *postgres.Cluster) bool {
	_, err := os.Stat(filepath.Join(c.Home(), "data", "postmaster.pid"))
	return !errors.Is(err, fs.ErrNotExist)
}

// postmaster returns the process id of the running server.
func postmaster(t *testing.T, c *postgres.Cluster) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(c.Home(), "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// socketFolder reads from the URL where the socket is.
func socketFolder(t *testing.T, c *postgres.Cluster) string {
	t.Helper()
	config, err := pgx.ParseConfig(c.URL(postgres.Super, postgres.Super))
	if err != nil {
		t.Fatal(err)
	}
	return config.Host
}
