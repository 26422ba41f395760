package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/bench/rounds"
	"sidequest/postgres"
)

// others starts the event stores of others, if they are installed. rest has them
// give back what they hold of the server, until their next turn.
func (b *bench) others(ctx context.Context) (all []rounds.Contestant, rest func(), quit func() error, err error) {
	if b.peers == "" {
		return nil, func() {}, func() error { return nil }, nil
	}
	m, err := b.messageDB(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	w, err := b.watermill(ctx)
	if err != nil {
		m.pool.Close()
		return nil, nil, nil, err
	}
	quit = func() error {
		m.pool.Close()
		return w.quit()
	}
	return []rounds.Contestant{
		{Name: nameMessageDB, Ready: m.warm, Once: m.write},
		{Name: nameWatermill, Turn: w.turn},
	}, m.pool.Reset, quit, nil
}

// A messageDB is the event store of the Eventide project: SQL functions.
type messageDB struct {
	pool *pgxpool.Pool
	next atomic.Int64
}

// messageDB installs it in a database of its own, by its own script.
func (b *bench) messageDB(ctx context.Context) (*messageDB, error) {
	const database = "message_store"
	script, err := filepath.Abs(filepath.Join(b.peers, "node_modules", "@eventide", "message-db", "database", "install.sh"))
	if err != nil {
		return nil, err
	}
	super, err := pgx.ParseConfig(b.cluster.URL(database, postgres.Super))
	if err != nil {
		return nil, err
	}
	if !b.installed {
		install := exec.CommandContext(ctx, "bash", script)
		install.Env = append(os.Environ(), "PGHOST="+super.Host, "PGUSER="+postgres.Super, "DATABASE_NAME="+database)
		if out, err := install.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("install message-db: %w: %s", err, out)
		}
		b.installed = true
	}
	cfg, err := pgxpool.ParseConfig(b.cluster.URL(database, postgres.Super))
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.RuntimeParams["search_path"] = "message_store"
	cfg.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open message-db: %w", err)
	}
	return &messageDB{pool: pool}, nil
}

// warm opens the connections of so many writers.
func (m *messageDB) warm(ctx context.Context, writers int, _ time.Duration) error {
	m.pool.Reset()
	conns := make([]*pgxpool.Conn, 0, writers)
	defer func() {
		for _, conn := range conns {
			conn.Release()
		}
	}()
	for range writers {
		conn, err := m.pool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		conns = append(conns, conn)
	}
	return nil
}

// write writes one message to a stream that must not exist yet.
func (m *messageDB) write(ctx context.Context, _ int) error {
	n := m.next.Add(1)
	_, err := m.pool.Exec(ctx, `SELECT write_message(gen_random_uuid()::text, $1, 'Added', $2, NULL, -1)`, fmt.Sprint("load-", n), added{1, filler})
	return err
}

// fill writes so many messages by SQL alone, ten a stream.
func (m *messageDB) fill(ctx context.Context, messages int) error {
	_, err := m.pool.Exec(ctx, `
		INSERT INTO messages (id, stream_name, position, type, data)
		SELECT gen_random_uuid(), 'fill-' || n / 10, n % 10, 'Added', $2
		FROM generate_series(0, $1::int - 1) AS n`, messages, added{1, filler})
	if err == nil {
		_, err = m.pool.Exec(ctx, `VACUUM ANALYZE messages`)
	}
	return err
}

// A watermill is a process that publishes with watermill-sql.
type watermill struct {
	cmd     *exec.Cmd
	to      io.WriteCloser
	answers *bufio.Reader
}

func (b *bench) watermill(ctx context.Context) (*watermill, error) {
	const database = "watermill"
	if err := postgres.CreateDatabase(ctx, b.admin, database, "template0"); err != nil {
		return nil, err
	}
	program := filepath.Join(b.dir, "watermill")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = filepath.Join(b.peers, "watermill")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build watermill: %w: %s", err, out)
	}
	w := &watermill{cmd: exec.CommandContext(ctx, program, b.cluster.URL(database, postgres.Super))}
	w.cmd.Stderr = os.Stderr
	var err error
	if w.to, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.answers = bufio.NewReader(out)
	return w, w.cmd.Start()
}

func (w *watermill) turn(_ context.Context, writers int, span time.Duration) (rounds.Sample, error) {
	var s rounds.Sample
	if _, err := fmt.Fprintln(w.to, writers, span.Milliseconds()); err != nil {
		return s, fmt.Errorf("ask watermill: %w", err)
	}
	line, err := w.answers.ReadBytes('\n')
	if err != nil {
		return s, fmt.Errorf("hear watermill: %w", err)
	}
	err = json.Unmarshal(line, &s)
	return s, err
}

func (w *watermill) quit() error { return errors.Join(w.to.Close(), w.cmd.Wait()) }
