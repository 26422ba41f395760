package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/mcp"
	"sidequest/postgres"
	"sidequest/projections"
)

// A folder is the data folder of a development deployment.
type folder string

// newFolder returns an empty one. What still runs on it at the end of the test is
// stopped, and everything is removed.
func newFolder(t testing.TB) folder {
	t.Helper()
	dir, err := os.MkdirTemp("", "sidequest-dev-") //nolint:usetesting // Postgres as another user cannot reach a test's own folder
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cluster := &postgres.Cluster{Dir: dir}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := cluster.Stop(ctx); err != nil {
			t.Errorf("stop what is left of Postgres: %v", err)
		}
		_ = os.RemoveAll(cluster.Home())
		_ = os.RemoveAll(dir)
	})
	return folder(dir)
}

func (f folder) launch(t testing.TB, addr string, args ...string) *child {
	t.Helper()
	return launch(t, []string{"SIDEQUEST_DATA=" + string(f), "SIDEQUEST_ADDR=" + addr}, args...)
}

// dev starts a development server and waits until it runs.
func (f folder) dev(t testing.TB, addr string) *child {
	t.Helper()
	p := f.launch(t, addr, "dev")
	p.until(t, "Sidequest is running on http://"+addr)
	return p
}

func (f folder) deployment(t testing.TB) (d deployment) {
	t.Helper()
	raw, err := os.ReadFile(string(f) + "/" + deploymentFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestADevelopmentServerGoesOnFromWhateverTheLastOneLeft follows one data folder
// through everything that happens to it on a developer's machine.
func TestADevelopmentServerGoesOnFromWhateverTheLastOneLeft(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	home, beside := freeAddress(t), freeAddress(t)

	first := f.dev(t, home)
	first.until(t, "make demo")
	token := f.launch(t, home, "token", "--agent", "ann").until(t, ".")
	ann := connection{http: http.DefaultClient, origin: "http://" + home, token: token, version: mcp.V20260728}
	asked := ann.must(t, "request_quotes", requestArgs("one"))

	second := f.dev(t, beside)
	second.until(t, "a further copy of the one at http://"+home)
	neighbour := ann
	neighbour.origin = "http://" + beside
	stream := neighbour.hold(t, projections.FeedRequests)
	id := read[requested](t, ann.must(t, "request_quotes", requestArgs("two"))).RequestID
	if f, open := stream.next(t); !open || f.Params.Data.RequestID != id {
		t.Errorf("the copy's stream says %+v, %v; want request %s", f, stream.end, id)
	}
	demo := f.launch(t, home, "demo")
	if err := demo.wait(t); err != nil {
		t.Errorf("the demo fails: %v\n%s", err, demo.said())
	}

	first.kill()
	third := f.dev(t, home)
	if again := ann.must(t, "request_quotes", requestArgs("one")); again.raw != asked.raw {
		t.Errorf("after kill -9 a repeat is answered %s, before it was %s", again.raw, asked.raw)
	}
	eventually(t, "the copy that went on finds NATS again", func() bool {
		_, report := examine(t, neighbour.origin)
		return report.Status == "ok"
	})
	if err := second.terminate(t); err != nil {
		t.Errorf("the copy does not stop in order: %v\n%s", err, second.said())
	}
	ann.must(t, "whoami", nil)

	third.kill() // and now nobody is left to look after Postgres
	fourth := f.dev(t, home)
	mine := read[projections.RequestList](t, ann.must(t, "list_quote_requests", map[string]any{"mine": true}))
	if len(mine.Requests) != 2 {
		t.Errorf("ann opened two requests, and has %+v", mine.Requests)
	}
	if err := fourth.terminate(t); err != nil {
		t.Errorf("the last one does not stop in order: %v\n%s", err, fourth.said())
	}
	if conn, err := pgx.Connect(t.Context(), f.deployment(t).DatabaseURL); err == nil {
		_ = conn.Close(t.Context())
		t.Error("Postgres still answers after the last server has stopped")
	}
}

func TestCommandsForDevelopersAreRefusedWithoutADevelopmentDeployment(t *testing.T) {
	t.Parallel()
	empty := folder(t.TempDir())
	for _, args := range [][]string{{"token", "--agent", "ann"}, {"revoke", "--agent", "ann"}, {"demo"}} {
		p := empty.launch(t, "127.0.0.1:0", args...)
		if err := p.wait(t); err == nil {
			t.Errorf("%v succeeds", args)
		}
		if said := p.said(); !strings.Contains(said, "make run") || !strings.Contains(said, string(empty)) {
			t.Errorf("%v says %q, want where it looked and what to do", args, said)
		}
	}
}
