package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

	"sidequest/chain"
	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/eventstore/eventstoretest"
	"sidequest/mcp"
	"sidequest/mcp/delivery"
	"sidequest/secret"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "the program left something running:", err)
		code = 1
	}
	os.Exit(code)
}

// built is the program, built once for all tests that start it for real.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// binary returns the path of the program.
func binary(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "sidequest-binary-"); built.err != nil { //nolint:usetesting // it outlives the test that is the first
			return
		}
		cmd := exec.Command("go", "build", "-o", built.dir, "sidequest/cmd/sidequest")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build the program: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "sidequest")
}

// A market is what replicas share: a database, NATS and the keys. NATS lives in
// the test, so that it outlives any replica.
type market struct {
	development
	nats *natsserver.Server
	more []string // of the environment of its processes
}

func openMarket(t testing.TB) *market {
	t.Helper()
	m := &market{nats: eventstoretest.NewNATS(t)}
	m.development = development{
		DatabaseURL: eventstoretest.NewDB(t).URL,
		NATSURL:     m.nats.ClientURL(),
		WakePrefix:  "sidequest",
		KEKFile:     filepath.Join(t.TempDir(), "kek.json"),
		Issuer:      "http://127.0.0.1:8080",
	}
	if _, err := secret.LoadOrCreate(m.KEKFile); err != nil {
		t.Fatal(err)
	}
	return m
}

// config is that of a replica, with limits that no test meets by accident.
func (m *market) config() config {
	return config{
		Addr:        "127.0.0.1:0",
		PublicURL:   m.Issuer,
		DatabaseURL: m.DatabaseURL,
		NATSURL:     m.NATSURL,
		KEKFile:     m.KEKFile,
		WakePrefix:  m.WakePrefix,
		Network:     mcp.Network{Name: domain.NetworkTest, ChainID: chain.DevelopmentID},
		Tokens:      []domain.Token{{Address: testUSD, Symbol: "tUSD", Decimals: chain.TestUSDDecimals}},
		Arbitrator:  "0xE000000000000000000000000000000000000005",
		Limits:      mcp.Limits{PerAgent: 1_000_000, PerIP: 1_000_000, Span: time.Minute},
		Codes:       delivery.SketchCodes(),
	}
}

var testUSD = domain.Address(chain.TestUSD().Hex())

// A replica is one copy of the program inside the test.
type replica struct {
	origin string
	stop   func()
}

// start runs a replica until it is stopped, at the latest with the test.
func (m *market) start(t testing.TB, changes ...func(*config)) *replica {
	t.Helper()
	cfg := m.config()
	for _, change := range changes {
		change(&cfg)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		defer close(ended) // whoever asks again hears nothing new
		ended <- run(ctx, cfg, log, func(addr string) { listening <- addr })
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the replica ended with: %v", err)
		}
	})
	t.Cleanup(stop)
	select {
	case addr := <-listening:
		return &replica{"http://" + addr, stop}
	case err := <-ended:
		t.Fatalf("the replica does not start: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the replica does not get ready")
	}
	panic("unreachable")
}

// An agent has a name, a number and any number of tokens, each of its own grant.
type agent struct {
	name    string
	key     domain.AgentKey
	id      string
	tokens  []string
	version string // the revision it speaks
}

// join brings agents that may hire and work, each with so many tokens.
func (m *market) join(t testing.TB, tokens int, names ...string) []*agent {
	t.Helper()
	var agents []*agent
	m.with(t, func(ctx context.Context, store *eventstore.Store, vault secret.Vault) error {
		for _, name := range names {
			a := &agent{name: name, version: mcp.V20260728}
			for range tokens {
				minted, err := mintToken(ctx, store, vault, m.development, tokenRequest{
					Agent: name, Board: mainBoard, Scopes: []string{domain.ScopeRead, domain.ScopeHire, domain.ScopeWork},
				})
				if err != nil {
					return err
				}
				a.key, a.id, a.tokens = minted.AgentKey, string(minted.AgentID), append(a.tokens, minted.Token)
			}
			agents = append(agents, a)
		}
		return nil
	})
	return agents
}

func (m *market) with(t testing.TB, do func(context.Context, *eventstore.Store, secret.Vault) error) {
	t.Helper()
	if err := m.use(context.Background(), quiet, do); err != nil {
		t.Fatal(err)
	}
}

// at is the agent's connection to a server.
func (a *agent) at(origin string) connection {
	return connection{http: http.DefaultClient, origin: origin, token: a.tokens[0], version: a.version}
}

// must calls a tool and expects a success.
func (c connection) must(t testing.TB, tool string, args map[string]any) answer {
	t.Helper()
	a, err := c.call(context.Background(), tool, args)
	if err != nil {
		t.Fatal(err)
	}
	if !a.OK {
		t.Fatalf("%s was refused: %s", tool, a.raw)
	}
	return a
}

// rest calls a tool over REST and returns the status and the answer.
func (c connection) rest(t testing.TB, tool string, args map[string]any) (int, answer) {
	t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	body, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	status, raw := fetch(t, http.MethodPost, c.origin+"/api/"+tool, string(body), "Bearer "+c.token)
	a := answer{raw: raw}
	if err := json.Unmarshal([]byte(raw), &a); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return status, a
}

// fetch sends a request in JSON and returns the status and the body.
func fetch(t testing.TB, method, url, body, authorization string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

// requestArgs are the arguments of a small request.
func requestArgs(key string) map[string]any {
	return map[string]any{
		"operationKey": key, "title": "A logo", "brief": "Draw a logo.", "acceptanceCriteria": []string{"It is a logo."},
		"tokens": []domain.Address{testUSD}, "quoteDeadline": "3d", "deliveryDeadline": "7d",
	}
}

// quoteArgs are the arguments of a quote of ten dollars.
func (a *agent) quoteArgs(key, requestID string) map[string]any {
	return map[string]any{"operationKey": key, "requestId": requestID, "agentId": a.id, "token": testUSD, "amount": "10"}
}

// read decodes the result of an answer.
func read[T any](t testing.TB, a answer) (result T) {
	t.Helper()
	if err := json.Unmarshal(a.Result, &result); err != nil {
		t.Fatalf("%v: %s", err, a.raw)
	}
	return result
}

// requested is what request_quotes answers, as far as tests want to know.
type requested struct {
	RequestID string `json:"requestId"`
}

// quoted is what submit_quote answers.
type quoted struct {
	QuoteID string `json:"quoteId"`
}

// query reads rows from the database.
func query[T any](t testing.TB, m *market, sql string, args ...any) []T {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, m.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// eventually waits for something that happens by itself.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// freeAddress returns an address of this machine that nobody listens on.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		// Beside the ports that systems give to connections, which are many here.
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}
