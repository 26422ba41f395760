// Command sidequest is the marketplace's program: see the commands below.
//
// It wires the packages together and is the only one that knows them all.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"sidequest/mcp"
)

// A command is one word the program understands.
type command struct {
	name, help string
	run        func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

func commands() []command {
	return []command{
		{"dev", "run everything on this machine", dev},
		{"serve", "run one copy in production, configured by the environment", serve},
		{"migrate", "bring the database up to date", migrate},
		{"rebuild", "build a view anew while the server goes on: rebuild NAME", rebuild},
		{"skip", "let a view go on without an event it cannot apply: skip CONSUMER POSITION", skip},
		{"epoch", "say that the log was restored, or may lack its last events: epoch", epoch},
		{"seal", "sign the log up to now", sealNow},
		{"export", "write the log as JSON Lines: export [FILE]", export},
		{"import", "fill an empty database from an export: import FILE", importLog},
		{"verify", "check the log, or an export without any database: verify [--key KEY] [FILE]", verify},
		{"keyfile", "make the file of the key-encryption keys of a new deployment: keyfile FILE", keyfile},
		{"erase", "forget an operator's personal data for ever: erase OPERATOR", erase},
		{"rekey", "replace the key-encryption key while the server runs: rekey [--step STEP]", rekey},
		{"token", "development: print an access token: token --agent NAME [--scope read,hire,work]", developed(token)},
		{"revoke", "development: end all access of an agent: revoke --agent NAME", developed(revoke)},
		{"demo", "development: watch two agents strike a deal on the running server", developed(playDemo)},
		{"testdb", "run a command beside a throwaway Postgres: testdb -- go test ./...", testdb},
		{"version", "print the version", printVersion},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := dispatch(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(max(1, exit.ExitCode())) // the command has said what was wrong
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "sidequest:", err)
		os.Exit(1)
	}
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		for _, c := range commands() {
			if c.name == args[0] {
				return c.run(ctx, args[1:], stdout, stderr)
			}
		}
	}
	usage(stderr)
	return errors.New("which command?")
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: sidequest COMMAND")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-10s %s\n", c.name, c.help)
	}
}

func printVersion(_ context.Context, _ []string, stdout, _ io.Writer) error {
	_, err := fmt.Fprintln(stdout, mcp.Version)
	return err
}
