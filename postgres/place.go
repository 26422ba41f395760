package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

const (
	serverUserName = "postgres"           // who runs the server when we are root
	sharedHome     = "/var/lib/sidequest" // where clusters go whose data folder the server cannot reach
	locationFile   = "postgres.location"  // in the data folder: says where its cluster went
	longestSocket  = 90                   // bytes of a socket folder: the system's limit is 103 with the file
)

// plainPath matches folders that need no quoting in postgresql.conf and in URLs.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9/._-]+$`)

// serverUser returns the user who runs the server: nil means ourselves. The
// server refuses to run as root, so root needs another one.
func serverUser(ctx context.Context) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(serverUserName)
	if errors.As(err, new(user.UnknownUserError)) {
		u, err = makeServerUser(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("find user %s to run the server: %w", serverUserName, err)
	}
	uid, errU := strconv.ParseUint(u.Uid, 10, 32)
	gid, errG := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(errU, errG); err != nil {
		return nil, fmt.Errorf("read ids of user %s: %w", serverUserName, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func makeServerUser(ctx context.Context) (*user.User, error) {
	out, err := exec.CommandContext(ctx, "useradd", "--system", "--user-group", "--no-create-home",
		"--shell", "/bin/false", serverUserName).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("create it: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return user.Lookup(serverUserName)
}

// settle returns the folder of the cluster, made and owned by the server's user:
// below the data folder, or in a shared place if the server's user cannot reach
// that. Then a file in the data folder says where.
func (c *Cluster) settle(ctx context.Context) (string, error) {
	location := filepath.Join(c.Dir, locationFile)
	if b, err := os.ReadFile(location); err == nil {
		return c.own(strings.TrimSpace(string(b)))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read where the cluster is: %w", err)
	}

	if c.runAs == nil || c.letThrough(ctx) {
		return c.own(filepath.Join(c.Dir, "postgres"))
	}

	home, err := elsewhere()
	if err != nil {
		return "", fmt.Errorf("user %s cannot reach %s (a folder above is closed to it), and no other place will do: %w; "+
			"set SIDEQUEST_DATA to a folder it can reach", serverUserName, c.Dir, err)
	}
	if err := os.WriteFile(location, []byte(home+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("note where the cluster is: %w", err)
	}
	c.log().Warn("postgres lives elsewhere: its user cannot reach the data folder",
		"user", serverUserName, "dataFolder", c.Dir, "folder", home)
	return c.own(home)
}

// own makes the folder, gives it to the server's user and resolves its links.
func (c *Cluster) own(home string) (string, error) {
	if err := makeFolder(home, c.runAs); err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(home)
	if err != nil {
		return "", fmt.Errorf("resolve cluster folder: %w", err)
	}
	return resolved, nil
}

// letThrough opens the data folder itself for passing (not for reading), and
// says whether the server's user then reaches it.
func (c *Cluster) letThrough(ctx context.Context) bool {
	info, err := os.Stat(c.Dir)
	if err != nil {
		return false
	}
	if err := os.Chmod(c.Dir, info.Mode().Perm()|0o011); err != nil {
		return false
	}
	enter := exec.CommandContext(ctx, "/bin/sh", "-c", `cd -- "$1"`, "sh", c.Dir)
	enter.Dir = "/"
	enter.SysProcAttr = &syscall.SysProcAttr{Credential: c.runAs}
	return enter.Run() == nil
}

// elsewhere makes a new folder that every user can pass. It is never one used
// before: a data folder that was deleted and made anew begins with nothing.
func elsewhere() (string, error) {
	if err := os.MkdirAll(sharedHome, 0o755); err != nil { //nolint:gosec // users pass through it to folders of their own
		return "", fmt.Errorf("make shared folder: %w", err)
	}
	home, err := os.MkdirTemp(sharedHome, "postgres-")
	if err != nil {
		return "", fmt.Errorf("make cluster folder: %w", err)
	}
	return home, nil
}

// socketFolder returns the folder for the unix socket. A socket's path has room
// for a hundred bytes only, so a cluster deep in the tree keeps its socket in /tmp.
func socketFolder(home string, runAs *syscall.Credential) (string, error) {
	dir := filepath.Join(home, "run")
	if len(dir) <= longestSocket && plainPath.MatchString(dir) {
		return dir, nil
	}
	sum := sha256.Sum256([]byte(home))
	dir = "/tmp/sidequest-" + hex.EncodeToString(sum[:8])

	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	if err != nil {
		return "", fmt.Errorf("look at socket folder: %w", err)
	}
	// Anybody may make a folder in /tmp: one that is not ours is a trap.
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || st.Uid != ownerOf(runAs) {
		return "", fmt.Errorf("socket folder %s belongs to somebody else: remove it", dir)
	}
	return dir, nil
}

// makeFolder makes a folder that only the server's user (and root) can enter.
func makeFolder(path string, runAs *syscall.Credential) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make folder: %w", err)
	}
	if runAs != nil {
		if err := os.Chown(path, int(runAs.Uid), int(runAs.Gid)); err != nil {
			return fmt.Errorf("give folder to user %s: %w", serverUserName, err)
		}
	}
	if err := os.Chmod(path, 0o700); err != nil { //nolint:gosec // a folder that cannot be entered is of no use
		return fmt.Errorf("close folder to others: %w", err)
	}
	return nil
}

func ownerOf(runAs *syscall.Credential) uint32 {
	if runAs != nil {
		return runAs.Uid
	}
	return uint32(os.Geteuid())
}
