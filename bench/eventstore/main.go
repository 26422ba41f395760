// Command eventstore measures the event store against what it is made of and
// against others that do the same job, and says which goals are met.
//
// It runs a PostgreSQL server of its own that flushes what it commits. Run it
// with `make bench-eventstore`; -short does everything once, small, to see that
// it still works. See docs/performance.md for how to read the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"sidequest/bench/rounds"
)

// A plan is what the command line asks for.
type plan struct {
	rounds   int
	span     time.Duration // of one turn
	events   int           // in the long log
	out      string        // folder of the figures
	pictures string        // folder of the pictures, "" for that of the figures
	peers    string        // folder that others are installed in, "" for none
	only     string        // names the parts to run, "" for all
	short    bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flags(), os.Stdout); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func flags() plan {
	var p plan
	flag.IntVar(&p.rounds, "rounds", 5, "how many rounds each comparison has")
	flag.DurationVar(&p.span, "span", 2*time.Second, "how long one turn lasts")
	flag.IntVar(&p.events, "events", 5_000_000, "events in the long log; the short one has a fifth")
	flag.StringVar(&p.out, "out", "bench/out", "folder of the figures")
	flag.StringVar(&p.pictures, "pictures", "", "folder of the pictures; that of the figures if there is none")
	flag.StringVar(&p.peers, "peers", "", "folder that message-db and watermill-sql are installed in")
	flag.StringVar(&p.only, "only", "", "parts to run, divided by commas: append,read,relay,growth")
	flag.BoolVar(&p.short, "short", false, "everything once and small: figures mean nothing")
	flag.Parse()
	if p.short {
		p.rounds, p.span, p.events = 1, 150*time.Millisecond, 20_000
	}
	return p
}

// A part measures one aspect and adds its rows to the report.
type part struct {
	name string
	run  func(*bench, context.Context) error
}

var parts = []part{
	{"append", (*bench).append},
	{"read", (*bench).read},
	{"relay", (*bench).relay},
	{"growth", (*bench).growth},
}

func run(ctx context.Context, p plan, out io.Writer) (err error) {
	b, err := start(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	fmt.Fprintf(out, "load at the start: %s\n", rounds.Load())
	for _, part := range parts {
		if p.only != "" && !strings.Contains(","+p.only+",", ","+part.name+",") {
			continue
		}
		if err := part.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Fprintf(out, "load after %s: %s\n", part.name, rounds.Load())
	}
	return b.finish(out)
}
