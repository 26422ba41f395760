package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"sidequest/postgres"
)

// testFolders begins the name of the folder of every throwaway cluster.
const testFolders = "sidequest-testdb-"

// testdb runs a command beside a throwaway Postgres cluster, whose superuser's
// URL it finds in TEST_DATABASE_URL:
//
//	sidequest testdb -- go test ./eventstore
//
// A command that fails is returned as an [*exec.ExitError].
func testdb(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return errors.New("testdb needs a command, such as: sidequest testdb -- go test ./eventstore")
	}
	sweepTestFolders(ctx)

	dir, err := os.MkdirTemp("", testFolders)
	if err != nil {
		return fmt.Errorf("make folder for test cluster: %w", err)
	}
	cluster := &postgres.Cluster{
		Dir:       dir,
		Throwaway: true,
		Log:       slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	defer func() { err = errors.Join(err, discard(ctx, cluster)) }()
	if err := cluster.Start(ctx); err != nil {
		return fmt.Errorf("start test cluster: %w", err)
	}
	return runBeside(ctx, cluster, args, stdout, stderr)
}

// runBeside runs the command in a process group of its own, so that a signal to
// us reaches it and all that it started once, and before the cluster stops.
func runBeside(ctx context.Context, cluster *postgres.Cluster, args []string, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Env = append(os.Environ(), "TEST_DATABASE_URL="+cluster.URL(postgres.Super, postgres.Super))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	return cmd.Run()
}

// discard stops the cluster and removes all it had, also when ctx has ended.
func discard(ctx context.Context, cluster *postgres.Cluster) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := cluster.Stop(ctx); err != nil {
		return fmt.Errorf("stop test cluster: %w", err)
	}
	return errors.Join(os.RemoveAll(cluster.Home()), os.RemoveAll(cluster.Dir))
}

// sweepTestFolders discards the clusters of earlier runs that were killed. What
// cannot be swept now is left to the next run.
func sweepTestFolders(ctx context.Context) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), testFolders+"*"))
	for _, dir := range left {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue // a run that is just starting has not locked its folder yet
		}
		cluster := &postgres.Cluster{Dir: dir, Throwaway: true}
		if !cluster.InUse() {
			_ = discard(ctx, cluster)
		}
	}
}
