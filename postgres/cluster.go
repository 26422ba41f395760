// Package postgres runs a private PostgreSQL cluster for development and tests.
//
// It owns the cluster's folder, its server process, its roles and its empty
// databases. It guarantees that the server listens on a unix socket alone, in a
// folder closed to other users of the machine; that a server left behind by a
// killed process is taken over, not fought; and that what was committed stays,
// unless the cluster was asked to be a throwaway. It must not know what the
// databases hold. In production the server is somebody else's, and this package
// is not used.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Cluster is a PostgreSQL server on a folder of its own. Several processes may
// start the same cluster: the first one runs it, the last one to stop ends it.
type Cluster struct {
	// Dir is the data folder, made if it is missing. The cluster lives in its
	// subfolder "postgres", or elsewhere if the server's user cannot reach that:
	// see [Cluster.Home].
	Dir string

	// Throwaway trades safety for speed: after a crash of the machine the data
	// may be lost. For tests.
	Throwaway bool

	// Log is told what happens to the server. Nil keeps silent.
	Log *slog.Logger

	programs string              // folder of initdb, pg_ctl and postgres
	runAs    *syscall.Credential // the server's user; nil if that is ours
	home     string              // absolute, without symbolic links
	sockets  string              // folder of the unix socket
	inUse    *os.File            // held shared from Start to Stop
}

// Home returns the folder that holds the cluster and the server's log. It is
// known once Start has returned.
func (c *Cluster) Home() string { return c.home }

// URL returns the address of a database for a role. It serves pgx and psql.
func (c *Cluster) URL(database, role string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.User(role),
		Path:     "/" + database,
		RawQuery: "host=" + c.sockets, // plain characters only: see socketFolder
	}
	return u.String()
}

// Start brings the server up, or takes over the one that runs on the folder, and
// sees to it that the roles and the database of the program exist.
func (c *Cluster) Start(ctx context.Context) error {
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	if err := c.prepare(ctx); err != nil {
		return err
	}
	if err := c.initialise(ctx); err != nil {
		return err
	}
	if err := c.ensureServer(ctx); err != nil {
		return err
	}
	if err := c.bootstrap(ctx); err != nil {
		return err
	}
	if c.inUse == nil { // else started before, and the server died since
		c.inUse, err = flock(c.usersFile(), syscall.LOCK_SH)
	}
	return err
}

// Stop ends the server, unless another process still uses it. It also ends a
// server that a killed process left behind, without a Start before.
func (c *Cluster) Stop(ctx context.Context) error {
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	if c.inUse != nil {
		unflock(c.inUse)
		c.inUse = nil
	}
	last, err := flock(c.usersFile(), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		c.log().Info("postgres goes on, another process uses it", "folder", c.home)
		return nil
	}
	if err != nil {
		return err
	}
	defer unflock(last)
	return c.stopServer(ctx)
}

func (c *Cluster) stopServer(ctx context.Context) error {
	if c.programs == "" {
		if err := c.prepare(ctx); err != nil {
			return err
		}
	}
	if c.postmaster(ctx) == 0 {
		return nil
	}
	if err := c.run(ctx, "pg_ctl", "stop", "-D", dataFolder, "-m", "fast", "-w", "-t", "60"); err != nil {
		return fmt.Errorf("stop postgres: %w", err)
	}
	_ = os.Remove(c.sockets) // empty now; the next start makes it again
	c.log().Info("postgres stopped", "folder", c.home)
	return nil
}

// prepare finds out who runs the server, where it lives and which programs to use.
func (c *Cluster) prepare(ctx context.Context) error {
	var err error
	if c.runAs, err = serverUser(ctx); err != nil {
		return err
	}
	if c.home, err = c.settle(ctx); err != nil {
		return err
	}
	if c.sockets, err = socketFolder(c.home, c.runAs); err != nil {
		return err
	}
	c.programs, err = findPrograms(ctx, c.dataVersion())
	return err
}

// initialise makes the cluster's files if there are none. They get their name
// last, so that a run that was killed half way leaves nothing to trip over.
func (c *Cluster) initialise(ctx context.Context) error {
	if c.dataVersion() != "" {
		return nil
	}
	unfinished := filepath.Join(c.home, dataFolder+".new")
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("clear unfinished cluster: %w", err)
	}
	if err := makeFolder(unfinished, c.runAs); err != nil {
		return err
	}
	err := c.run(ctx, "initdb", "-D", filepath.Base(unfinished), "--username="+Super,
		"--auth-local=trust", "--auth-host=reject", "--encoding=UTF8", "--locale=C", "--no-sync")
	if err != nil {
		return fmt.Errorf("create postgres cluster in %s: %w", c.home, err)
	}
	if err := os.Rename(unfinished, c.data()); err != nil {
		return fmt.Errorf("name the new cluster: %w", err)
	}
	c.log().Info("postgres cluster created", "folder", c.home)
	return nil
}

// ensureServer takes over a living server or starts one.
func (c *Cluster) ensureServer(ctx context.Context) error {
	if pid := c.postmaster(ctx); pid != 0 {
		c.log().Info("postgres is running already", "folder", c.home, "pid", pid)
		return c.awaitServer(ctx, pid)
	}
	return c.startServer(ctx)
}

// awaitServer waits until a server that is starting, recovering or stopping has
// made up its mind, and starts another if it went away.
func (c *Cluster) awaitServer(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.ping(ctx)
		if err == nil {
			return nil
		}
		if c.postmaster(ctx) == 0 {
			return c.ensureServer(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for postgres (pid %d) on %s: %w", pid, c.home, err)
		}
	}
}

// ping asks the server which folder it serves, to be sure that it is ours.
func (c *Cluster) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL(Super, Super))
	if err != nil {
		return fmt.Errorf("reach postgres: %w", err)
	}
	defer conn.Close(ctx)
	var folder string
	if err := conn.QueryRow(ctx, `SHOW data_directory`).Scan(&folder); err != nil {
		return fmt.Errorf("reach postgres: %w", err)
	}
	if folder != c.data() {
		return fmt.Errorf("the server at %s serves %s, not %s", c.sockets, folder, c.data())
	}
	return nil
}

// data returns the folder that postgres calls its data directory.
func (c *Cluster) data() string { return filepath.Join(c.home, dataFolder) }

// dataVersion returns the major version of the cluster's files, "" if there are none.
func (c *Cluster) dataVersion() string {
	b, err := os.ReadFile(filepath.Join(c.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (c *Cluster) log() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log
}
