// Command conformance runs the public conformance suite of the Model Context
// Protocol against the transport of package mcp and says which scenarios pass.
//
// The suite calls tools, prompts and resources that a product does not have, so a
// server is made for it here, out of the same [mcp.Server] that answers the
// product's endpoint. What the lane itself does not do, sessions of the older
// revisions, stands in this folder alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"sidequest/bench/rounds"
	"sidequest/mcp/conformancetest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	modules := flags.String("modules", "interop/node_modules", "where the suite and its Node are installed")
	save := flags.String("out", "bench/out/conformance.json", "where the rows are saved")
	failures := flags.String("expected", "mcp/conformance/expected-failures.yml", "what may fail, and why")
	serve := flags.Bool("serve", false, "serve the fixtures only, until interrupted")
	if err := flags.Parse(args); err != nil {
		return err
	}
	origin, stop, err := start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if *serve {
		fmt.Fprintln(out, "the fixtures are served at", origin+"/mcp")
		<-ctx.Done()
		return nil
	}
	suite := conformancetest.Suite{Modules: *modules, URL: origin + "/mcp"}
	expected, err := filepath.Abs(*failures)
	if err != nil {
		return err
	}
	results, content := map[string][]conformancetest.Scenario{}, true
	for _, g := range groups() {
		if results[g.run[1]] != nil {
			continue // it was run with another group
		}
		fmt.Fprintln(out, "running", g.run[1])
		var passed bool
		if results[g.run[1]], passed, err = suite.Run(ctx, append(slices.Clone(g.run), "--expected-failures", expected)...); err != nil {
			return err
		}
		content = content && passed
	}
	err = report(out, *save, results)
	if err == nil && !content {
		err = errors.New("the suite is not content, or " + *failures + " expects what does not fail")
	}
	return err
}

// start serves the fixtures on a free port of this machine.
func start(ctx context.Context) (origin string, stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("serve the fixtures: %w", err)
	}
	origin = "http://" + listener.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("/mcp", newFixture(origin, slog.New(slog.NewTextHandler(os.Stderr, nil))))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return origin, func() { _ = server.Close() }, nil
}

// A group of scenarios is counted together.
type group struct {
	name  string
	run   []string // the options that run it, among other groups
	goal  int      // how many there are, of which all are to pass
	holds func(scenario string) bool
}

// groups are what is counted; expected-failures.yml says what is not, and why.
func groups() []group {
	var all []group
	for _, r := range []struct {
		revision string
		required int
		pending  []string
	}{
		{"2026-07-28", 37, []string{"json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"}},
		{"2025-11-25", 30, []string{"json-schema-2020-12", "server-session-lifecycle"}},
	} {
		run := []string{"--requirements", r.revision}
		all = append(all,
			group{"required by " + r.revision, run, r.required, func(s string) bool {
				return !slices.Contains(r.pending, s) && !strings.HasPrefix(s, "tasks-") && s != "server-sse-polling"
			}},
			group{"pending in " + r.revision, run, len(r.pending), func(s string) bool { return slices.Contains(r.pending, s) }})
	}
	for _, name := range []string{"directory", "enumeration", "manifest"} {
		name = "sep-2640-skills-" + name
		all = append(all, group{name, []string{"--scenario", name}, 1, func(s string) bool { return s == name }})
	}
	return all
}

// report shows and saves how many scenarios of each group pass, says what is wrong
// with the others, and fails if there are any.
func report(out io.Writer, file string, results map[string][]conformancetest.Scenario) error {
	var rows []rounds.Row
	complete := true
	for _, g := range groups() {
		passed, seen := 0, 0
		for _, s := range results[g.run[1]] {
			if !g.holds(s.Name) {
				continue
			}
			seen++
			if s.Passed > 0 && len(s.Faults) == 0 {
				passed++
			}
			for _, fault := range s.Faults {
				fmt.Fprintf(out, "%s: %s: %s\n", g.name, s.Name, fault)
			}
		}
		row := rounds.AtLeast(g.name, "", float64(passed), float64(g.goal), float64(passed)/float64(g.goal), 1)
		rows = append(rows, row)
		complete = complete && passed == seen && row.Pass
	}
	if err := rounds.Table(out, rows); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	if err := rounds.Save(file, rows); err != nil {
		return err
	}
	if !complete {
		return errors.New("not everything passes")
	}
	return nil
}
