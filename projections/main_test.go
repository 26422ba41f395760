package projections_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/eventstore/eventstoretest"
	"sidequest/projections"
)

// A world is a store with all views, and the market's first inhabitants.
type world struct {
	*eventstore.Store
	t       *testing.T
	cursors projections.Cursors
	token   domain.Address
	agents  map[string]domain.RegisterAgentAnswer
}

// newWorld runs a store until the test ends. Its views are made but not yet
// consumed.
func newWorld(t *testing.T, names ...string) *world {
	t.Helper()
	db := eventstoretest.NewDB(t)
	cfg, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.RuntimeParams["search_path"] = projections.SearchPath()
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ns := eventstoretest.NewNATS(t)
	conn, err := nats.Connect("", nats.InProcessServer(ns))
	if err != nil {
		t.Fatal(err)
	}
	wake, err := eventstore.NewWake(conn, "test")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, token: "0x36692a59A3cB08C976f92E468a581E6e0a1AF89E", agents: map[string]domain.RegisterAgentAnswer{},
		cursors: projections.Cursors{Network: "test", Keys: map[byte][]byte{1: []byte("0123456789abcdef0123456789abcdef")}, Current: 1},
		Store: eventstore.Open(eventstore.Config{
			URL: db.URL, Pool: pool, Wake: wake, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Categories: domain.Categories,
			Wrapping: eventstore.Wrapping{
				Wrap:   func(_ string, key []byte) []byte { return key },
				Unwrap: func(_ string, wrapped []byte) ([]byte, error) { return wrapped, nil },
			},
		}),
	}
	w.background(func(ctx context.Context) error { return w.Run(ctx) })
	t.Cleanup(func() { // runs after what was started above has ended
		conn.Close()
		pool.Close()
	})
	if err := projections.Prepare(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	do(w, "system", domain.ConfigureBoard{Board: domain.Board{
		Slug: "main", Name: "Main", Network: domain.NetworkTest, ChainID: 7, Arbitrator: "0x00000000000000000000000000000000000000aB",
		RewardTokens: []domain.Token{{Address: w.token, Symbol: "tUSD", Decimals: 6}},
	}})
	for i, name := range names {
		wallet := domain.Address(fmt.Sprintf("0x%040x", i+1))
		a := do(w, "operator", domain.RegisterAgent{Name: name, Wallet: wallet})
		do(w, "operator", domain.SetRoles{AgentKey: a.AgentKey, Roles: []domain.Role{domain.RoleHire, domain.RoleWork}})
		w.agents[name] = a
	}
	return w
}

// background runs something until the test ends. Cleanups run last in, first out,
// so what is started later ends earlier.
func (w *world) background(run func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("background: %v", err)
		}
	})
}

// consume keeps all views up to date until the test ends.
func (w *world) consume() {
	for _, p := range projections.All() {
		w.background(func(ctx context.Context) error { return w.Consume(ctx, p.Consumer()) })
	}
}

// level waits until all views show the whole log.
func (w *world) level() {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		var names []string
		for _, p := range projections.All() {
			names = append(names, p.Checkpoint())
		}
		err := w.AwaitHead(w.t.Context(), names)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatal(err)
		}
	}
}

// connect opens a connection that waits for an agent.
func (w *world) connect(change ...func(*domain.OpenGrant)) string {
	w.t.Helper()
	c := domain.OpenGrant{
		ClientID: "client", ClientName: "Client", RedirectURI: "https://client.test/cb", Operator: "operator",
		Asked: domain.Scopes(), Scopes: []string{domain.ScopeSetup}, Resource: "https://sidequest.test/mcp",
	}
	for _, f := range change {
		f(&c)
	}
	return do(w, "operator", c).GrantID
}

// do executes a command under a key of its own and returns the answer.
func do[R any](w *world, actor domain.AgentKey, cmd domain.Command[R]) R {
	w.t.Helper()
	r, err := try(w, actor, cmd)
	if err != nil {
		w.t.Fatalf("%T: %v", cmd, err)
	}
	return r
}

func try[R any](w *world, actor domain.AgentKey, cmd domain.Command[R]) (answer R, err error) {
	w.t.Helper()
	return tryAt(w, actor, cmd, time.Now())
}

// tryAt executes a command at a moment.
func tryAt[R any](w *world, actor domain.AgentKey, cmd domain.Command[R], at time.Time) (answer R, err error) {
	w.t.Helper()
	op := eventstore.Operation{Owner: actor, Key: rand.Text(), Tool: fmt.Sprintf("%T", cmd), Board: "main", At: at}
	receipt, err := eventstore.Execute(w.t.Context(), w.Store, op, cmd)
	if err != nil {
		return answer, err
	}
	err = json.Unmarshal(receipt.Result, &answer)
	return answer, err
}

// reader is an agent looking at the views.
func (w *world) reader(name string) projections.Reader {
	return projections.Reader{
		DB: w.Pool, Cursors: w.cursors, Agent: w.agents[name].AgentKey, Board: "main", ChainID: 7, Now: time.Now(),
	}
}

// ask opens a request.
func (w *world) ask(name string) domain.RequestID {
	w.t.Helper()
	return do(w, w.agents[name].AgentKey, w.request()).RequestID
}

func (w *world) request() domain.RequestQuotes {
	return domain.RequestQuotes{
		Title: "Translate", Brief: "From Latin", AcceptanceCriteria: []string{"It reads well"},
		Budget: &domain.Budget{Token: w.token, Max: "100"}, DeliveryDeadline: "72h", QuoteDeadline: "24h",
	}
}

// bid submits a quote.
func (w *world) bid(name string, request domain.RequestID, amount domain.Amount) domain.QuoteID {
	w.t.Helper()
	a := w.agents[name]
	return do(w, a.AgentKey, domain.SubmitQuote{RequestID: request, AgentID: a.AgentID, Token: w.token, Amount: amount}).QuoteID
}

// dump returns every row of a view's tables as text, in the order of their keys.
func (w *world) dump(p *projections.Projection) []string {
	w.t.Helper()
	rows, err := w.Pool.Query(w.t.Context(), `
		SELECT table_name
		FROM information_schema.tables
		WHERE table_schema = $1
		ORDER BY table_name`, p.Schema())
	if err != nil {
		w.t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatal(err)
	}
	var all []string
	for _, table := range tables {
		rows, err := w.Pool.Query(w.t.Context(), fmt.Sprintf(`
			SELECT '%[1]s' || ' ' || x::text
			FROM %[2]s.%[1]s AS x
			ORDER BY 1`, table, p.Schema()))
		if err != nil {
			w.t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, lines...)
	}
	return all
}
