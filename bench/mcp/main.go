// Command mcp measures what one call of a trivial tool costs our protocol lane,
// beside servers made with go-sdk and mcp-go, and says which goals are met.
//
// Each server is a process of its own on one core. Ours is the real lane: strict
// parsing, access tokens with live grants, schemas, the log line of every call.
// The others compare their token and keep no log. Run it with `make bench-mcp`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"sidequest/bench/rounds"
)

// A plan is what the command line asks for.
type plan struct {
	rounds  int
	span    time.Duration // of one turn
	clients int           // that call at once
	out     string        // folder of the figures
	peer    string        // program that serves with libraries of others, "" for none
	profile string        // file for a processor profile of our server, "" for none
	serve   string        // be our server on this database
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := flags()
	var err error
	if p.serve != "" {
		err = serveOurs(ctx, p.serve, p.profile, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, p, os.Stdout)
	}
	if err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func flags() plan {
	var p plan
	flag.IntVar(&p.rounds, "rounds", 5, "how many rounds the comparison has")
	flag.DurationVar(&p.span, "span", 2*time.Second, "how long one turn lasts")
	flag.IntVar(&p.clients, "clients", 8, "how many clients call at once")
	flag.StringVar(&p.out, "out", "bench/out", "folder of the figures")
	flag.StringVar(&p.peer, "peer", "", "program that serves with the libraries of others")
	flag.StringVar(&p.profile, "profile", "", "file for a processor profile of our server")
	flag.StringVar(&p.serve, "serve", "", "be our server, on the database with this URL")
	flag.Parse()
	return p
}

const (
	nameOurs  = "sidequest"
	nameGoSDK = "go-sdk"
	nameMCPGo = "mcp-go"
)

// run starts the servers, lets them take turns, and reports.
func run(ctx context.Context, p plan, out io.Writer) (err error) {
	database, stopDatabase, err := startDatabase(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopDatabase()) }()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	commands := map[string][]string{nameOurs: {self, "-serve", database, "-profile", p.profile}}
	if p.peer != "" {
		commands[nameGoSDK] = []string{p.peer, nameGoSDK, peerToken}
		commands[nameMCPGo] = []string{p.peer, nameMCPGo, peerToken}
	}
	contestants, stopServers, err := startAll(ctx, commands)
	defer func() { err = errors.Join(err, stopServers()) }()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "load at the start: %s\n", rounds.Load())
	result, err := rounds.Run(ctx, rounds.Plan{Rounds: p.rounds, Span: p.span, Writers: p.clients}, contestants...)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "load at the end: %s\n", rounds.Load())
	rows := report(result)
	if err := rounds.Table(out, rows); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return rounds.Save(filepath.Join(p.out, "mcp.json"), rows)
}

// startAll starts the servers there are commands for. Those that were started are
// to be stopped even after an error.
func startAll(ctx context.Context, commands map[string][]string) (all []rounds.Contestant, stop func() error, err error) {
	var running []*server
	stop = func() error {
		var errs []error
		for _, s := range running {
			errs = append(errs, s.stop())
		}
		return errors.Join(errs...)
	}
	for _, name := range []string{nameOurs, nameGoSDK, nameMCPGo} {
		if commands[name] == nil {
			continue
		}
		s, err := start(ctx, commands[name])
		if err != nil {
			return nil, stop, fmt.Errorf("start %s: %w", name, err)
		}
		running = append(running, s)
		all = append(all, rounds.Contestant{Name: name, Ready: s.warm, Turn: s.turn})
	}
	return all, stop, nil
}

// report makes the rows. Goals stand on processor time per call, which other work
// on the machine changes least; calls per second are shown beside it.
func report(result rounds.Result) []rounds.Row {
	const micro = 1e6
	micros := func(name string) float64 { return result.Median(name, rounds.CPU) * micro }
	if len(result[nameGoSDK]) == 0 {
		return []rounds.Row{{Name: "CPU per call", Unit: "µs", Ours: micros(nameOurs), Pass: true}}
	}
	const quarter, same = 0.25, 1
	rows := []rounds.Row{
		rounds.AtMost("CPU per call against go-sdk", "µs", micros(nameOurs), micros(nameGoSDK), result.Ratio(nameOurs, nameGoSDK, rounds.CPU), quarter),
		rounds.AtMost("CPU per call against mcp-go", "µs", micros(nameOurs), micros(nameMCPGo), result.Ratio(nameOurs, nameMCPGo, rounds.CPU), same),
	}
	for _, name := range []string{nameGoSDK, nameMCPGo} {
		rows = append(rows, rounds.Row{
			Name: "calls per second against " + name, Unit: "/s", Ours: result.Median(nameOurs, rounds.Rate),
			Against: result.Median(name, rounds.Rate), Ratio: result.Ratio(nameOurs, name, rounds.Rate), Pass: true,
		})
	}
	return rows
}
