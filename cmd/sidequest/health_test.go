package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sidequest/eventstore/eventstoretest"
	"sidequest/mcp"
	"sidequest/projections"
)

// examine asks a server how it is.
func examine(t testing.TB, origin string) (status int, report healthReport) {
	t.Helper()
	status, body := fetch(t, http.MethodGet, origin+"/health", "", "")
	if err := json.Unmarshal([]byte(body), &report); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return status, report
}

func TestHealthTellsOfEveryPartAndEveryConsumer(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	m.join(t, 1, "ann")[0].at(r.origin).must(t, "request_quotes", requestArgs("r"))
	eventually(t, "every consumer is level with the log", func() bool {
		status, report := examine(t, r.origin)
		if status != http.StatusOK || report.Status != "ok" || report.Version != mcp.Version || !report.Postgres.OK || !report.NATS.OK {
			t.Fatalf("status %d, %+v", status, report)
		}
		for _, view := range projections.All() {
			if behind, known := report.Consumers[view.Checkpoint()]; !known || behind != 0 {
				return false
			}
		}
		return true
	})
}

func TestWithoutNATSEverythingGoesOnALittleLater(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	cast := m.join(t, 1, "ann", "bob")
	heard := cast[1].follow(t, projections.FeedRequests, func() string { return r.origin })
	heard.active(t)
	m.nats.Shutdown()
	eventually(t, "the program notices", func() bool {
		status, report := examine(t, r.origin)
		return status == http.StatusOK && report.Status == "degraded" && report.Postgres.OK && !report.NATS.OK
	})
	id := read[requested](t, cast[0].at(r.origin).must(t, "request_quotes", requestArgs("r"))).RequestID
	heard.until(t, "request.opened", id)
}

func TestAProgramThatLostItsDatabaseSaysSoAndRecovers(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	cast := m.join(t, 2, "ann", "bob")
	ann := cast[0].at(r.origin)
	heard := cast[1].follow(t, projections.FeedRequests, func() string { return r.origin })
	heard.active(t)

	m.allowConnections(t, false)
	eventually(t, "the program says that it is down", func() bool {
		status, report := examine(t, r.origin)
		return status == http.StatusServiceUnavailable && report.Status == "down" && !report.Postgres.OK
	})
	for path, want := range map[string]string{"/b/acme/mcp": `"jsonrpc":"2.0"`, "/b/acme/api/whoami": `"ok":false`, "/b/acme/mcp/server-card": `"ok":false`} {
		method := http.MethodPost
		if strings.HasSuffix(path, "card") {
			method = http.MethodGet
		}
		if status, body := fetch(t, method, r.origin+path, "{}", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, want) || !strings.Contains(body, `"unavailable"`) {
			t.Errorf("%s meanwhile: %d %s", path, status, body)
		}
	}
	m.allowConnections(t, true)
	a, err := cast[0].insist(t.Context(), func() string { return r.origin }, "request_quotes", requestArgs("r"))
	if err != nil || !a.OK {
		t.Fatalf("a write after the outage: %v, %s", err, a.raw)
	}
	heard.until(t, "request.opened", read[requested](t, a).RequestID)
	eventually(t, "the program is well", func() bool {
		_, report := examine(t, r.origin)
		return report.Status == "ok"
	})
	ann.must(t, "list_quote_requests", nil)
}

// allowConnections opens the market's database, or closes it to everybody and
// cuts whoever is in.
func (m *market) allowConnections(t testing.TB, allowed bool) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Getenv(eventstoretest.Env))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	config, err := pgx.ParseConfig(m.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	switchTo := map[bool]string{true: "true", false: "false"}[allowed]
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+pgx.Identifier{config.Database}.Sanitize()+" ALLOW_CONNECTIONS "+switchTo); err != nil {
		t.Fatal(err)
	}
	if allowed {
		return
	}
	if _, err := conn.Exec(ctx, `
		SELECT pg_terminate_backend(pid)
		FROM pg_stat_activity
		WHERE datname = $1`, config.Database); err != nil {
		t.Fatal(err)
	}
}

func TestMetricsCountWhatGoesOn(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	ann := m.join(t, 1, "ann")[0]
	ann.at(r.origin).hold(t, projections.FeedRequests)
	ann.at(r.origin).rest(t, "whoami", nil)
	status, body := fetch(t, http.MethodGet, r.origin+"/metrics", "", "")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	for _, line := range []string{
		"sidequest_streams_open 1\n",
		"sidequest_polls_waiting 0\n",
		"sidequest_nats_connected 1\n",
		`sidequest_http_request_duration_seconds_count{code="200",route="api"} 1` + "\n",
		`sidequest_consumer_lag{consumer="feed/3"} `,
		"sidequest_frames_total ",
		"sidequest_db_connections ",
		"go_goroutines ",
	} {
		if !strings.Contains(body, line) {
			t.Errorf("the metrics lack %q:\n%s", line, body)
		}
	}
}

func TestWhatIsNotThereIsSaidInJSON(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	bearer := "Bearer " + m.join(t, 1, "ann")[0].tokens[0]
	for _, tt := range []struct {
		method, path, authorization string
		status                      int
		code                        string
	}{
		{http.MethodGet, "/nothing", "", http.StatusNotFound, "not-found"},
		{http.MethodPost, "/mcp/nothing", "", http.StatusNotFound, "not-found"},
		{http.MethodGet, "/api", "", http.StatusNotFound, "not-found"},
		{http.MethodPost, "/api/no_such_tool", bearer, http.StatusNotFound, "not-found"},
		{http.MethodPost, "/api/whoami", "", http.StatusUnauthorized, "unauthenticated"},
		{http.MethodPost, "/api/whoami", "Bearer nonsense", http.StatusUnauthorized, "unauthenticated"},
		{http.MethodGet, "/api/whoami", bearer, http.StatusMethodNotAllowed, "invalid"},
		{http.MethodPost, "/health", "", http.StatusMethodNotAllowed, "invalid"},
		{http.MethodDelete, "/metrics", "", http.StatusMethodNotAllowed, "invalid"},
	} {
		status, body := fetch(t, tt.method, r.origin+tt.path, "{}", tt.authorization)
		var a answer
		if err := json.Unmarshal([]byte(body), &a); err != nil || status != tt.status || a.OK || a.Code != tt.code || a.Message == "" {
			t.Errorf("%s %s: status %d, %s; want %d, %s", tt.method, tt.path, status, body, tt.status, tt.code)
		}
	}
}
