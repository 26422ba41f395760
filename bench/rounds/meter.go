package rounds

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// tick is the unit of processor time in /proc: USER_HZ is 100 everywhere.
const tick = 10 * time.Millisecond

// A Meter reads what the machine spends: the processor time of this process and
// of the server, and the flushes of the write-ahead log.
type Meter struct {
	conn       *pgx.Conn
	postmaster int
}

// NewMeter reads over a connection of the superuser to a server on this machine.
func NewMeter(ctx context.Context, conn *pgx.Conn) (*Meter, error) {
	var backend int
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		return nil, fmt.Errorf("find the server: %w", err)
	}
	p, err := process(backend)
	if err != nil {
		return nil, fmt.Errorf("find the server: %w", err)
	}
	return &Meter{conn: conn, postmaster: p.parent}, nil
}

type reading struct {
	cpu   time.Duration
	syncs int64
}

func (m *Meter) read(ctx context.Context) (reading, error) {
	var r reading
	if m == nil {
		return r, nil
	}
	if err := m.conn.QueryRow(ctx, `SELECT wal_sync FROM pg_stat_wal`).Scan(&r.syncs); err != nil {
		return r, fmt.Errorf("read the flushes of the log: %w", err)
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return r, fmt.Errorf("read our own processor time: %w", err)
	}
	server, err := family(m.postmaster)
	r.cpu = time.Duration(usage.Utime.Nano()+usage.Stime.Nano()) + server
	return r, err
}

// family is the processor time of a process, its children and those of its
// children that have ended.
func family(parent int) (time.Duration, error) {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		p, err := process(pid)
		if err != nil {
			continue // it has just ended
		}
		switch parent {
		case pid:
			sum += p.own + p.ended
		case p.parent:
			sum += p.own
		}
	}
	return sum, nil
}

// Spent is the processor time that a process has spent by itself, in steps of ten
// milliseconds.
func Spent(pid int) (time.Duration, error) {
	p, err := process(pid)
	if err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	return p.own, nil
}

type stat struct {
	parent     int
	own, ended time.Duration
}

// process reads /proc/<pid>/stat, see proc(5): fields are counted after the name,
// which stands in brackets and may hold anything.
func process(pid int) (stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	var n [4]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(fields[11+i], 10, 64); err != nil {
			return stat{}, err
		}
	}
	parent, err := strconv.Atoi(fields[1])
	return stat{parent, time.Duration(n[0]+n[1]) * tick, time.Duration(n[2]+n[3]) * tick}, err
}

// Load is the machine's load average over the last minute, as it says it.
func Load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(b), " ")
	return first
}
