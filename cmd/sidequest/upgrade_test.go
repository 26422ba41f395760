package main

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sidequest/eventstore/eventstoretest"
	"sidequest/mcp"
	"sidequest/secret"
)

// TestANewProgramGoesOnWithWhatThePreviousOneWrote builds the program of the commit
// before, lets it write, and expects the new one to answer as if it had written
// that itself, also while the old one is still running.
func TestANewProgramGoesOnWithWhatThePreviousOneWrote(t *testing.T) {
	t.Parallel()
	u, before, after := newUpgrade(t), previousProgram(t), binary(t)
	u.command(t, before, "migrate")
	old := u.serve(t, before)
	ann := connection{http: http.DefaultClient, origin: old, token: u.command(t, before, "token", "--agent", "ann"), version: mcp.V20260728}
	bob := connection{http: http.DefaultClient, origin: old, token: u.command(t, before, "token", "--agent", "bob"), version: mcp.V20260728}
	opened := ann.must(t, "request_quotes", requestArgs("open"))
	id := read[struct{ RequestID string }](t, opened).RequestID
	quote := map[string]any{"operationKey": "quote", "requestId": id, "agentId": "2", "token": testUSD, "amount": "10"}
	quoted := bob.must(t, "submit_quote", quote)

	u.command(t, after, "migrate")
	now := u.serve(t, after)
	for _, origin := range []string{now, old} { // the old one runs on for a while
		ann.origin, bob.origin = origin, origin
		if again := ann.must(t, "request_quotes", requestArgs("open")); again.raw != opened.raw {
			t.Errorf("%s answers the repeat\n%s\nnot\n%s", origin, again.raw, opened.raw)
		}
		if again := bob.must(t, "submit_quote", quote); again.raw != quoted.raw {
			t.Errorf("%s answers the repeat\n%s\nnot\n%s", origin, again.raw, quoted.raw)
		}
		if quotes := read[struct{ Quotes []any }](t, ann.must(t, "list_quotes", map[string]any{"requestId": id})).Quotes; len(quotes) != 1 {
			t.Errorf("%s shows %d quotes, want 1", origin, len(quotes))
		}
	}
	ann.origin = now
	ann.must(t, "pick_quote", map[string]any{
		"operationKey": "pick", "requestId": id, "quoteId": read[struct{ QuoteID string }](t, quoted).QuoteID,
	})
	if said := u.command(t, after, "verify"); !strings.Contains(said, "every one fits") {
		t.Errorf("verify says %q", said)
	}
}

// previousProgram builds the program as it was one commit ago.
func previousProgram(t *testing.T) string {
	t.Helper()
	source := t.TempDir()
	archive := exec.Command("git", "archive", "HEAD^")
	archive.Dir = filepath.Join("..", "..")
	var complaint bytes.Buffer
	archive.Stderr = &complaint
	tar, err := archive.Output()
	if err != nil {
		t.Fatalf("this test builds the commit before, so it needs a git checkout with history: %v\n%s", err, complaint.String())
	}
	unpack := exec.Command("tar", "-x", "-C", source)
	unpack.Stdin = bytes.NewReader(tar)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack the commit before: %v\n%s", err, out)
	}
	program := filepath.Join(source, "before")
	build := exec.Command("go", "build", "-o", program, "./cmd/sidequest")
	build.Dir = source
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the commit before: %v\n%s", err, out)
	}
	return program
}

// An upgrade is a market whose database nobody has migrated yet.
type upgrade struct {
	*market
	dir      string // the data folder that commands find it by
	ownerURL string
}

func newUpgrade(t *testing.T) *upgrade {
	t.Helper()
	db, ns := eventstoretest.NewEmptyDB(t), eventstoretest.NewNATS(t)
	dir := t.TempDir()
	d := deployment{
		PublicURL: "http://127.0.0.1:8080", DatabaseURL: db.URL, NATSURL: ns.ClientURL(),
		KEKFile: filepath.Join(dir, "kek.json"), WakePrefix: wakePrefix,
	}
	if _, err := secret.LoadOrCreate(d.KEKFile); err != nil {
		t.Fatal(err)
	}
	if err := d.save(dir); err != nil {
		t.Fatal(err)
	}
	m := &market{nats: ns, development: development{
		DatabaseURL: d.DatabaseURL, NATSURL: d.NATSURL, WakePrefix: d.WakePrefix, KEKFile: d.KEKFile, Issuer: d.PublicURL,
	}}
	return &upgrade{m, dir, db.OwnerURL}
}

// command runs one command of a program on the market and returns what it says.
func (u *upgrade) command(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "SIDEQUEST_DATA="+u.dir, "SIDEQUEST_OWNER_DATABASE_URL="+u.ownerURL)
	out, err := cmd.Output()
	if err != nil {
		complaint := ""
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			complaint = string(exit.Stderr)
		}
		t.Fatalf("%s: %v\n%s", args[0], err, complaint)
	}
	return strings.TrimSpace(string(out))
}

// serve starts a program and returns its origin.
func (u *upgrade) serve(t *testing.T, program string) string {
	t.Helper()
	said := launchProgram(t, program, u.environment(), "serve").until(t, "listening on ")
	addr, _, _ := strings.Cut(strings.TrimPrefix(said, "listening on "), " ")
	return "http://" + addr
}
