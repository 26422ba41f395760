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
	"slices"
	"strings"
	"syscall"

	"sidequest/mcp"
)

// A command is one word the program understands.
type command struct {
	name string
	args string // what it takes, as its usage shows it
	most int    // arguments at most; -1 where the command reads flags of its own
	help string
	run  func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

func commands() []command {
	return []command{
		{"dev", "", 0, "run everything on this machine", dev},
		{"serve", "", 0, "run one copy in production, configured by the environment", serve},
		{"migrate", "", 0, "bring the database up to date", migrate},
		{"rebuild", "NAME", 1, "build a view anew while the server goes on", rebuild},
		{"skip", "[CONSUMER POSITION]", 2, "let a view go on without an event it cannot apply; alone, show where views stand still", skip},
		{"epoch", "", 0, "say that the log was restored, or may lack its last events", epoch},
		{"seal", "", 0, "sign the log up to now", sealNow},
		{"export", "[FILE]", 1, "write the log as JSON Lines", export},
		{"import", "FILE", 1, "fill an empty database from an export", importLog},
		{"verify", "[--key KEY] [FILE]", -1, "check the log, or an export without any database", verify},
		{"keyfile", "FILE", 1, "make the file of the key-encryption keys of a new deployment", keyfile},
		{"board", "create SLUG [--private] or admit|dismiss SLUG OPERATOR", -1, "make a board beside main, or say who are members of a private one", board},
		{"erase", "OPERATOR", 1, "forget an operator's personal data for ever", erase},
		{"rekey", "[--step STEP]", -1, "replace the key-encryption key while the server runs", rekey},
		{"rotate-keys", "[--compromised]", -1, "replace the key that signs access tokens while the server runs", rotateKeys},
		{"client", "[--secret] NAME REDIRECT-URI…", -1, "register a client that need not register itself", knowClient},
		{"token", "--agent NAME [--scope read,hire,work]", -1, "development: print an access token", developed(token)},
		{"revoke", "--agent NAME", -1, "development: end all access of an agent", developed(revoke)},
		{"demo", "", -1, "development: watch two agents strike a deal on the running server", developed(playDemo)},
		{"testdb", "-- COMMAND", -1, "run a command beside a throwaway Postgres", testdb},
		{"version", "", 0, "print the version", printVersion},
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
	if len(args) == 0 {
		usage(stderr)
		return errors.New("which command?")
	}
	name, rest := args[0], args[1:]
	if name == "help" && len(rest) == 1 {
		name, rest = rest[0], []string{"--help"}
	}
	if name == "help" || asksForHelp([]string{name}) {
		usage(stdout)
		return nil
	}
	for _, c := range commands() {
		if c.name == name {
			return c.start(ctx, rest, stdout, stderr)
		}
	}
	usage(stderr)
	return fmt.Errorf("there is no command %q", name)
}

// start runs the command, unless its arguments ask for help or are none of its.
func (c command) start(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	how := strings.TrimSpace("usage: sidequest " + c.name + " " + c.args)
	switch flagged := slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") }); {
	case asksForHelp(args) && c.name != "testdb":
		fmt.Fprintf(stdout, "%s\n  %s\n", how, c.help)
		if c.most < 0 {
			return c.run(ctx, []string{"--help"}, stdout, stdout)
		}
		return nil
	case c.most >= 0 && (flagged || len(args) > c.most):
		return errors.New(how)
	}
	return c.run(ctx, args, stdout, stderr)
}

// asksForHelp says whether someone wants to know and not to do.
func asksForHelp(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == "-h" || a == "-help" || a == "--help" })
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: sidequest COMMAND")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-48s %s\n", strings.TrimSpace(c.name+" "+c.args), c.help)
	}
}

func printVersion(_ context.Context, _ []string, stdout, _ io.Writer) error {
	_, err := fmt.Fprintln(stdout, mcp.Version)
	return err
}
