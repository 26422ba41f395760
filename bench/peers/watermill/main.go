// Command watermill publishes messages with watermill-sql for the benchmark. It
// is a module of its own, so that what it needs stays out of ours.
//
// It reads "<writers> <milliseconds>" from its input, a line for a turn, and
// answers each with a line of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
)

var payload = []byte(`{"n":1,"text":"` + strings.Repeat("All work and no play makes a log. ", 11) + `"}`)

// A sample is what the benchmark expects: durations are nanoseconds.
type sample struct {
	Done    int           `json:"done"`
	Elapsed time.Duration `json:"elapsed"`
	P50     time.Duration `json:"p50"`
	P99     time.Duration `json:"p99"`
	CPU     time.Duration `json:"cpu"` // of this process
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "watermill:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cfg, err := pgxpool.ParseConfig(os.Args[1])
	if err != nil {
		return err
	}
	cfg.MaxConns, cfg.MinConns = 32, 0
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	publisher, err := sql.NewPublisher(sql.BeginnerFromPgx(pool), sql.PublisherConfig{
		SchemaAdapter: sql.DefaultPostgreSQLSchema{}, AutoInitializeSchema: true,
	}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var writers int
		var ms int64
		if _, err := fmt.Sscan(lines.Text(), &writers, &ms); err != nil {
			return err
		}
		if err := warm(ctx, pool, writers); err != nil {
			return err
		}
		s, err := turn(publisher, writers, time.Duration(ms)*time.Millisecond)
		if err != nil {
			return err
		}
		pool.Reset() // others need the server's connections in their turns
		if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
			return err
		}
	}
	return lines.Err()
}

// warm opens the connections of so many writers.
func warm(ctx context.Context, pool *pgxpool.Pool, writers int) error {
	for range writers {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
	}
	return nil
}

func turn(publisher *sql.Publisher, writers int, span time.Duration) (sample, error) {
	took := make([][]time.Duration, writers)
	errs := make([]error, writers)
	before, began := spent(), time.Now()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for now := time.Now(); now.Sub(began) < span; {
				if errs[w] = publisher.Publish("load", message.NewMessage(watermill.NewUUID(), payload)); errs[w] != nil {
					return
				}
				done := time.Now()
				took[w] = append(took[w], done.Sub(now))
				now = done
			}
		})
	}
	wg.Wait()
	s := sample{Elapsed: time.Since(began), CPU: spent() - before}
	all := slices.Concat(took...)
	slices.Sort(all)
	if s.Done = len(all); s.Done > 0 {
		s.P50, s.P99 = all[len(all)/2], all[len(all)*99/100]
	}
	return s, errors.Join(errs...)
}

func spent() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
