package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lock keeps other processes from starting or stopping the cluster meanwhile.
func (c *Cluster) lock(ctx context.Context) (unlock func(), err error) {
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return nil, fmt.Errorf("locate data folder: %w", err)
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		f, err := flock(filepath.Join(c.Dir, "postgres.lock"), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { unflock(f) }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another start of %s: %w", c.Dir, ctx.Err())
		}
	}
}

// usersFile is the file of which every process that uses the cluster holds a share.
func (c *Cluster) usersFile() string { return filepath.Join(c.Dir, "postgres.users") }

// flock opens and locks a file, until unflock or the death of the process.
func flock(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// unflock unlocks and closes. Closing alone would not do while a child that is
// just being made has a copy of the file.
func unflock(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	_ = f.Close()
}

// InUse says whether a process that lives has started the cluster and not
// stopped it, or might have: a folder that cannot be looked at counts as used.
func (c *Cluster) InUse() bool {
	f, err := flock(c.usersFile(), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		return true
	}
	unflock(f)
	return false
}
