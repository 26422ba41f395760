package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	dataFolder    = "data"       // in the cluster's home
	logFile       = "server.log" // in the cluster's home
	oldestVersion = 15
)

// placesOfPrograms are the folders, as patterns, where packages put the server's
// programs without adding them to PATH.
var placesOfPrograms = []string{
	"/usr/lib/postgresql/*/bin",         // Debian
	"/usr/pgsql-*/bin",                  // the PostgreSQL project's RPMs
	"/opt/homebrew/opt/postgresql*/bin", // Homebrew on Apple silicon
	"/usr/local/opt/postgresql*/bin",    // Homebrew on Intel
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/usr/local/pgsql/bin", // built from source
}

var majorVersion = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// findPrograms returns the folder of the newest server programs, or of those
// that can read files of a given major version.
func findPrograms(ctx context.Context, wanted string) (string, error) {
	best, newest := "", 0
	for _, dir := range programFolders() {
		major := versionOf(ctx, dir)
		if major < oldestVersion || (wanted != "" && strconv.Itoa(major) != wanted) {
			continue
		}
		if major > newest {
			best, newest = dir, major
		}
	}
	switch {
	case best != "":
		return best, nil
	case wanted != "":
		return "", fmt.Errorf("the cluster was made by PostgreSQL %s, whose server is not installed", wanted)
	}
	return "", fmt.Errorf("no PostgreSQL server of version %d or later found: install one, or put its programs on PATH", oldestVersion)
}

func programFolders() []string {
	var dirs []string
	if p, err := exec.LookPath("pg_ctl"); err == nil {
		if program, err := filepath.EvalSymlinks(p); err == nil {
			dirs = append(dirs, filepath.Dir(program))
		}
	}
	for _, pattern := range placesOfPrograms {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		dirs = append(dirs, found...)
	}
	return dirs
}

// versionOf returns the major version of the server in a folder, 0 if the folder
// lacks one of the programs.
func versionOf(ctx context.Context, dir string) int {
	for _, program := range []string{"initdb", "pg_ctl", "postgres"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			return 0
		}
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0
	}
	found := majorVersion.FindSubmatch(out)
	if found == nil {
		return 0
	}
	major, _ := strconv.Atoi(string(found[1]))
	return major
}

// run runs one of the server's programs as the server's user, in the cluster's
// folder. Paths are given relative to it: pg_ctl passes them through a shell.
func (c *Cluster) run(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(c.programs, program), args...)
	cmd.Dir = c.home
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")} // no PG… variable of ours may interfere
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.runAs}
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// stillHeld is what a server says that starts while the children of a killed one
// have not noticed its death yet.
const stillHeld = "pre-existing shared memory block"

// startServer starts a server, once the remains of a killed one are gone.
func (c *Cluster) startServer(ctx context.Context) error {
	if err := c.configure(); err != nil {
		return err
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); ; {
		said, err := c.tryStart(ctx)
		if err == nil {
			c.log().Info("postgres started", "folder", c.home)
			return c.ping(ctx)
		}
		if !strings.Contains(said, stillHeld) || time.Now().After(end) {
			return fmt.Errorf("start postgres: %w; its log %s says: %s", err, filepath.Join(c.home, logFile), said)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("start postgres: %w", err)
		}
	}
}

// tryStart returns what the server logged meanwhile. It clears the socket's
// folder first: nobody listens there, but a note of a dead server whose process
// id is taken would stop the new one.
func (c *Cluster) tryStart(ctx context.Context) (said string, err error) {
	if err := os.RemoveAll(c.sockets); err != nil {
		return "", fmt.Errorf("clear socket folder: %w", err)
	}
	if err := makeFolder(c.sockets, c.runAs); err != nil {
		return "", err
	}
	before := c.logSize()
	err = c.run(ctx, "pg_ctl", "start", "-D", dataFolder, "-l", logFile, "-w", "-t", "120")
	return c.logSince(before), err
}

// configure writes the server's settings, all of them: what is not here has
// PostgreSQL's own default.
func (c *Cluster) configure() error {
	settings := `# Written at every start. Changes made here are lost.
listen_addresses = ''
unix_socket_directories = '` + c.sockets + `'
unix_socket_permissions = 0700
max_connections = 200
shared_buffers = 128MB
timezone = 'UTC'
lc_messages = 'C'
default_text_search_config = 'pg_catalog.simple'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %q%u@%d '
log_checkpoints = off
# Values that callers sent stay out of the log.
log_min_error_statement = panic
log_error_verbosity = terse
`
	if c.Throwaway {
		// Whole deployments run side by side in tests, as many as there are processors.
		settings += `max_connections = 2000
fsync = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
max_wal_size = 4GB
`
	}
	path := filepath.Join(c.data(), "postgresql.conf")
	if err := os.WriteFile(path, []byte(settings), 0o600); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}

// postmaster returns the process id of the server that runs on the folder, 0 if
// there is none. A note left by a dead server whose id some other process has
// now would keep a new server from starting, so it is removed.
func (c *Cluster) postmaster(ctx context.Context) int {
	note := filepath.Join(c.data(), "postmaster.pid")
	b, err := os.ReadFile(note)
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 0 || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return 0 // PostgreSQL itself deals with the note of a dead process
	}
	if !c.serves(ctx, pid) {
		c.log().Warn("postgres left a stale postmaster.pid, removed", "folder", c.home, "pid", pid)
		_ = os.Remove(note)
		return 0
	}
	return pid
}

// serves says whether a process is a server on our folder. A server's working
// folder is its data folder; where the system does not show that, its name must do.
func (c *Cluster) serves(ctx context.Context, pid int) bool {
	_, err := os.Stat("/proc/self/cwd")
	if errors.Is(err, fs.ErrNotExist) {
		out, err := exec.CommandContext(ctx, "ps", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
		return err == nil && strings.Contains(string(out), "postgres")
	}
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	return err == nil && cwd == c.data()
}

func (c *Cluster) logSize() int64 {
	info, err := os.Stat(filepath.Join(c.home, logFile))
	if err != nil {
		return 0
	}
	return info.Size()
}

// logSince returns what the server logged after a size, two kilobytes at most.
func (c *Cluster) logSince(size int64) string {
	b, err := os.ReadFile(filepath.Join(c.home, logFile))
	if err != nil {
		return err.Error()
	}
	b = b[min(size, int64(len(b))):]
	return strings.TrimSpace(string(b[max(0, len(b)-2048):]))
}
