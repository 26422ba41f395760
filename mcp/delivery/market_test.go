package delivery_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/eventstore/eventstoretest"
	"sidequest/mcp"
	"sidequest/mcp/delivery"
	"sidequest/oauth"
	"sidequest/projections"
	"sidequest/webhook"
)

// The cast: ann hires; bob, cat and dan work.
var (
	names = []string{"ann", "bob", "cat", "dan"}
	usd   = domain.Token{Address: "0xF0000000000000000000000000000000000000AA", Symbol: "USD", Decimals: 6}
)

// A process is one copy of the program, as far as the feed goes.
type process struct {
	store  *eventstore.Store
	wake   *eventstore.Wake
	pool   *pgxpool.Pool
	grants *oauth.Grants
	feeds  *delivery.Feeds
	hooks  *webhook.Hooks
	url    string
	stop   context.CancelFunc // begins the end of the feeds
}

// A market is a database and a NATS server that processes share.
type market struct {
	db     *eventstoretest.DB
	nats   *natsserver.Server
	main   *process
	people map[string]*person // by name
	keys   atomic.Int64

	prefix  string // of the wake-ups of processes started from now on
	idle    bool   // processes started from now on do no work on the views
	kekFile string // file of the key-encryption keys
	trust   trust  // what webhooks of all processes may connect to
	narrow  bool   // connections to processes started from now on hold little
}

// A person is an agent with a connection.
type person struct {
	name  string
	key   domain.AgentKey
	id    domain.AgentID
	grant string
}

// open makes a market with one process, a board and the cast.
func open(t testing.TB, changes ...func(*delivery.Config)) *market {
	t.Helper()
	m := &market{
		db: eventstoretest.NewDB(t), nats: eventstoretest.NewNATS(t), people: map[string]*person{}, prefix: "test",
		kekFile: filepath.Join(t.TempDir(), "kek.json"), trust: newTrust(t),
	}
	m.main = m.start(t, changes...)
	do(t, m, "operator", domain.ConfigureBoard{Board: domain.Board{
		Slug: "main", Name: "Main", RewardTokens: []domain.Token{usd}, Network: domain.NetworkTest, ChainID: 1337,
		Arbitrator: "0xE000000000000000000000000000000000000005", Stacks: []string{"standard"},
	}})
	for i, name := range names {
		m.people[name] = m.join(t, name, i+1)
	}
	return m
}

// join brings an agent with both roles and one grant.
func (m *market) join(t testing.TB, name string, n int) *person {
	t.Helper()
	agent := do(t, m, "operator", domain.RegisterAgent{
		Name: name, Wallet: domain.Address(fmt.Sprintf("0xA%039d", n)),
	})
	do(t, m, "operator", domain.SetRoles{AgentKey: agent.AgentKey, Roles: domain.Roles()})
	return &person{name, agent.AgentKey, agent.AgentID, m.grant(t, agent.AgentKey)}
}

func (m *market) grant(t testing.TB, agent domain.AgentKey) string {
	t.Helper()
	return do(t, m, "operator", domain.OpenGrant{
		AgentKey: agent, ClientID: "test", Operator: "operator", Scopes: []string{domain.ScopeRead}, Resource: "https://sidequest.example/mcp",
	}).GrantID
}

// start runs a process until the test ends.
func (m *market) start(t testing.TB, changes ...func(*delivery.Config)) *process {
	t.Helper()
	p := &process{}
	config, err := pgxpool.ParseConfig(m.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["search_path"] = projections.SearchPath()
	config.MaxConns = 8
	if p.pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.pool.Close)
	nc, err := nats.Connect(m.nats.ClientURL(), nats.InProcessServer(m.nats))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if p.wake, err = eventstore.NewWake(nc, m.prefix); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	p.store = eventstore.Open(eventstore.Config{
		URL: m.db.URL, Pool: p.pool, Wake: p.wake, Log: log, Categories: domain.Categories,
	})
	if err := projections.Prepare(t.Context(), p.pool); err != nil {
		t.Fatal(err)
	}
	if p.grants, err = oauth.LoadGrants(t.Context(), p.store); err != nil {
		t.Fatal(err)
	}
	c := delivery.Config{
		DB: p.pool, Store: p.store, Cursors: cursors(), ChainID: 1337, Network: domain.NetworkTest,
		Codes: delivery.SketchCodes(), Revoked: p.grants.Revoked, Now: time.Now, Log: log, Pace: delivery.StandardPace(),
	}
	c.Hooks = m.newHooks(t, p, log)
	for _, change := range changes {
		change(&c)
	}
	p.hooks = c.Hooks
	p.feeds = delivery.New(c)
	p.run(t, m.idle)
	p.serve(t, m)
	return p
}

func cursors() projections.Cursors {
	return projections.Cursors{Network: "test", Keys: map[byte][]byte{1: []byte(strings.Repeat("k", 32))}, Current: 1}
}

// run runs what the process does by itself.
func (p *process) run(t testing.TB, idle bool) {
	ctx, cancel := context.WithCancel(context.Background())
	feedsCtx, stop := context.WithCancel(ctx)
	p.stop = stop
	var g errgroup.Group
	g.Go(func() error { return p.store.Run(ctx) })
	g.Go(func() error { return p.grants.Run(ctx) })
	g.Go(func() error { return p.feeds.Run(feedsCtx) })
	g.Go(func() error { return p.hooks.Run(feedsCtx) })
	for _, view := range projections.All() {
		if idle {
			break
		}
		g.Go(func() error { return p.store.Consume(ctx, view.Consumer()) })
	}
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// serve answers HTTP. A bearer token is the name of an agent, or of an agent and
// a grant: "ann/gr_…".
func (p *process) serve(t testing.TB, m *market) {
	listening := p.feeds.Listening()
	listening.Tools = func(c mcp.Caller) <-chan struct{} { return p.grants.Changed(c.GrantID) }
	server := httptest.NewUnstartedServer(&mcp.Server{
		Methods:   p.feeds.Methods(),
		Listening: listening,
		Authenticate: func(r *http.Request) (mcp.Caller, error) {
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			name, grant, _ := strings.Cut(token, "/")
			if name == "setup" {
				return mcp.Caller{GrantID: "gr_setup", Scopes: []string{domain.ScopeSetup}, Board: "main"}, nil
			}
			who := m.people[name]
			if who == nil {
				return mcp.Caller{}, domain.Refuse(domain.Unauthenticated, "who is this?")
			}
			if grant == "" {
				grant = who.grant
			}
			live, err := p.grants.Live(r.Context(), grant)
			return mcp.Caller{
				AgentKey: live.AgentKey, GrantID: grant, Operator: live.Operator, ClientID: live.ClientID, Scopes: live.Scopes, Board: "main",
			}, err
		},
		BaseURL: "http://127.0.0.1",
		Log:     p.feeds.Log,
	})
	if m.narrow {
		server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
			return ctx
		}
	}
	server.Start()
	p.url = server.URL + "/mcp"
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
}

// do executes a command now, under a new key, and returns its answer.
func do[R any](t testing.TB, m *market, actor domain.AgentKey, c domain.Command[R]) R {
	t.Helper()
	return doAt(t, m, actor, time.Now(), c)
}

// doAt executes a command as if it were another time.
func doAt[R any](t testing.TB, m *market, actor domain.AgentKey, at time.Time, c domain.Command[R]) R {
	t.Helper()
	answer, err := try(m, actor, at, c)
	if err != nil {
		t.Fatalf("%T: %v", c, err)
	}
	return answer
}

func try[R any](m *market, actor domain.AgentKey, at time.Time, c domain.Command[R]) (answer R, err error) {
	op := eventstore.Operation{
		Owner: actor, Key: fmt.Sprintf("op-%d", m.keys.Add(1)), Tool: fmt.Sprintf("%T", c), Board: "main", At: at,
	}
	receipt, err := eventstore.Execute(context.Background(), m.main.store, op, c)
	if err != nil {
		return answer, err
	}
	return answer, json.Unmarshal(receipt.Result, &answer)
}

// ask opens a request of an agent.
func (m *market) ask(t testing.TB, name string) domain.RequestID {
	t.Helper()
	return m.askAt(t, name, time.Now())
}

func (m *market) askAt(t testing.TB, name string, at time.Time) domain.RequestID {
	t.Helper()
	return doAt(t, m, m.people[name].key, at, domain.RequestQuotes{
		Title: "A logo", Brief: "Draw a logo.", AcceptanceCriteria: []string{"It is a logo."},
		Tokens: []domain.Address{usd.Address}, QuoteDeadline: "30d", DeliveryDeadline: "60d",
	}).RequestID
}

// quote quotes for a request; again and again, each replaces the one before.
func (m *market) quote(t testing.TB, name string, id domain.RequestID) domain.QuoteID {
	t.Helper()
	return m.quoteAt(t, name, id, time.Now())
}

func (m *market) quoteAt(t testing.TB, name string, id domain.RequestID, at time.Time) domain.QuoteID {
	t.Helper()
	who := m.people[name]
	return doAt(t, m, who.key, at, domain.SubmitQuote{
		RequestID: id, AgentID: who.id, Token: usd.Address, Amount: "10",
	}).QuoteID
}

// rows returns all rows of a feed, as they are in the database once it has seen
// all there is in the log.
func (m *market) rows(t testing.TB, feed, audience string) []projections.FeedRow {
	t.Helper()
	id := projections.FeedID{Board: "main", Feed: feed, Audience: audience}
	m.settle(t)
	rows, err := projections.FeedAfter(context.Background(), m.main.pool, []projections.FeedID{id}, projections.Place{}, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// another returns the token of one more connection of ann's.
func (m *market) another(t testing.TB) string {
	t.Helper()
	return "ann/" + m.grant(t, m.people["ann"].key)
}

// settle waits until the feed shows all that is in the log.
func (m *market) settle(t testing.TB) {
	t.Helper()
	eventually(t, "the feed is level with the log", func() bool {
		lag, err := m.main.store.Lag(context.Background(), []string{projections.Feed.Checkpoint()})
		if err != nil {
			t.Fatal(err)
		}
		return lag[projections.Feed.Checkpoint()] == 0
	})
}

// eventually waits for something that happens by itself.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
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

// count asks the database for a number.
func (m *market) count(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	if err := m.main.pool.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// revoke revokes a grant.
func (m *market) revoke(t testing.TB, grant string) {
	t.Helper()
	do(t, m, "operator", domain.RevokeGrant{GrantID: grant, Reason: "it is over"})
}
