package mcp_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"sidequest/docs"
	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/eventstore/eventstoretest"
	"sidequest/mcp"
	"sidequest/projections"
	"sidequest/webhook"
)

// What the board of the tests deals in, and a token that it does not.
var (
	usd = domain.Token{Address: "0x52908400098527886E0F7030069857D2E4169EE7", Symbol: "USD", Decimals: 6}
	eth = domain.Token{Address: "0xde709f2102306220921060314715629080e2fb77", Symbol: "ETH", Decimals: 18}
	art = "0x27b1fdb04752bbc536007a920d24acb045561c26"
)

const operator domain.AgentKey = "operator"

// A market is a database and a NATS server that processes share, with a board and
// a cast: ann, bob and cat have both roles, dan has none.
type market struct {
	db   *eventstoretest.DB
	nats *natsserver.Server
	main *process
	keys atomic.Int64

	mu     sync.Mutex
	people map[string]*person // by name
}

// A person is an agent.
type person struct {
	name   string
	key    domain.AgentKey
	id     domain.AgentID
	wallet domain.Address
	roles  []string
}

// A process is one copy of the program, as far as tools go.
type process struct {
	*mcp.Market
	http.Handler
}

func open(t *testing.T, changes ...func(*mcp.Market)) *market {
	t.Helper()
	m := &market{db: eventstoretest.NewDB(t), nats: eventstoretest.NewNATS(t), people: map[string]*person{}}
	m.main = m.start(t, changes...)
	do(t, m, operator, domain.ConfigureBoard{Board: domain.Board{
		Slug: "main", Name: "Main", RewardTokens: []domain.Token{usd, eth}, Network: domain.NetworkTest, ChainID: 1337,
		Arbitrator: "0x00000000000000000000000000000000000000A1", Stacks: []string{"standard"},
	}})
	for _, name := range []string{"ann", "bob", "cat"} {
		m.join(t, name, domain.RoleHire, domain.RoleWork)
	}
	m.join(t, "dan")
	return m
}

// join brings an agent with roles.
func (m *market) join(t *testing.T, name string, roles ...domain.Role) *person {
	t.Helper()
	wallet := domain.Address(fmt.Sprintf("0xb000%036d", m.keys.Add(1)))
	agent := do(t, m, operator, domain.RegisterAgent{Name: name, Wallet: wallet})
	p := &person{name: name, key: agent.AgentKey, id: agent.AgentID, wallet: wallet}
	m.give(t, p, roles...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.people[name] = p
	return p
}

// give sets the roles of an agent.
func (m *market) give(t *testing.T, p *person, roles ...domain.Role) {
	t.Helper()
	do(t, m, operator, domain.SetRoles{AgentKey: p.key, Roles: roles})
	p.roles = nil
	for _, role := range roles {
		p.roles = append(p.roles, string(role))
	}
}

func (m *market) person(name string) *person {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.people[name]
}

// start runs a process until the test ends.
func (m *market) start(t *testing.T, changes ...func(*mcp.Market)) *process {
	t.Helper()
	p := m.idle(t, changes...)
	run(t, p.Store.Run)
	for _, view := range projections.All() {
		run(t, func(ctx context.Context) error { return p.Store.Consume(ctx, view.Consumer()) })
	}
	return p
}

// idle is a process that answers but writes nothing and follows nothing.
func (m *market) idle(t *testing.T, changes ...func(*mcp.Market)) *process {
	t.Helper()
	config, err := pgxpool.ParseConfig(m.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["search_path"] = projections.SearchPath()
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := projections.Prepare(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(m.nats.ClientURL(), nats.InProcessServer(m.nats))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	wake, err := eventstore.NewWake(nc, "test")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	book, err := docs.Load()
	if err != nil {
		t.Fatal(err)
	}
	tools := &mcp.Market{
		Docs: &docs.Index{DB: pool, Book: book}, Origin: "https://sidequest.example",
		Tools: table(), DB: pool, Network: mcp.Network{Name: domain.NetworkTest, ChainID: 1337}, Log: log, Now: time.Now,
		Store:   eventstore.Open(eventstore.Config{URL: m.db.URL, Pool: pool, Wake: wake, Log: log, Categories: domain.Categories}),
		Cursors: projections.Cursors{Network: "test", Keys: map[byte][]byte{1: []byte(strings.Repeat("k", 32))}, Current: 1},
		Limits:  mcp.Limits{PerAgent: 1e6, PerIP: 1e6, Span: time.Minute},

		Wallet: func(_ context.Context, key domain.AgentKey) (domain.Address, error) {
			sum := sha256.Sum256([]byte(key))
			return domain.Address(fmt.Sprintf("0x%x", sum[:20])), nil
		},
	}
	tools.Hooks = webhook.New(webhook.Config{DB: pool, Store: tools.Store, Now: time.Now, Log: log})
	for _, change := range changes {
		change(tools)
	}
	return &process{tools, m.routes(tools)}
}

// routes serves the tools over MCP and over REST.
func (m *market) routes(tools *mcp.Market) http.Handler {
	server := &mcp.Server{
		Methods: tools.Methods(), Authenticate: m.authenticate, BaseURL: "https://sidequest.example", Log: tools.Log,
		States: mcp.States{Keys: map[byte][]byte{1: []byte(strings.Repeat("s", 32))}, Current: 1},
	}
	library := mcp.NewLibrary(tools.Docs.Book, tools.Origin)
	maps.Copy(server.Methods, library.Methods())
	server.Extensions = library.Extensions()
	mux := http.NewServeMux()
	mux.Handle("/mcp", server)
	mux.Handle("/api/{tool}", &mcp.API{Server: server, Market: tools})
	return mux
}

// authenticate takes the name of an agent for a token, or its name and the scopes
// of the connection: "ann", "ann:read", "ann:hire+work". A connection without an
// agent is "setup", and "broken" cannot be answered.
func (m *market) authenticate(r *http.Request) (mcp.Caller, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	name, granted, some := strings.Cut(token, ":")
	if !some {
		granted = "read+hire+work"
	}
	var scopes []string
	for scope := range strings.SplitSeq(granted, "+") {
		scopes = append(scopes, "sidequest:"+scope)
	}
	switch p := m.person(name); {
	case name == "broken":
		return mcp.Caller{}, errors.New("the database said something private")
	case name == "setup":
		return mcp.Caller{GrantID: "gr_setup", Scopes: []string{domain.ScopeSetup}, Board: "main"}, nil
	case strings.HasPrefix(name, "gr_"):
		return m.connection(r.Context(), name)
	case p != nil:
		return mcp.Caller{
			AgentKey: p.key, Operator: string(operator), GrantID: "gr_" + name, ClientID: "test", Scopes: scopes,
			Roles: func(context.Context) ([]string, error) { return p.roles, nil }, Board: "main", IP: "192.0.2.1", Resource: "https://sidequest.example/mcp",
		}, nil
	}
	return mcp.Caller{}, domain.Refuse(domain.Unauthenticated, "this access token is not valid")
}

// connection is a caller whose token is the id of a grant in the log.
func (m *market) connection(ctx context.Context, id string) (mcp.Caller, error) {
	g, err := eventstore.State(ctx, m.main.Store, domain.Grants, id)
	if err != nil || !g.LiveAt(time.Now()) {
		return mcp.Caller{}, errors.Join(err, domain.Refuse(domain.Unauthenticated, "this access token is not valid"))
	}
	return mcp.Caller{
		AgentKey: g.AgentKey, GrantID: id, Operator: g.Operator, Asked: g.Asked, Proposed: g.Proposed, Scopes: g.Scopes,
		ClientID: g.ClientID, Board: "main", IP: "192.0.2.1", Resource: g.Resource,
	}, nil
}

// connect opens a connection without an agent, whose client asked for everything.
func (m *market) connect(t *testing.T) string {
	t.Helper()
	return do(t, m, operator, domain.OpenGrant{
		ClientID: "test", ClientName: "Test", Operator: string(operator), Asked: domain.Scopes(), Scopes: []string{domain.ScopeSetup},
		Resource: "https://sidequest.example/mcp",
	}).GrantID
}

// run runs a loop until the test ends.
func run(t *testing.T, loop func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { return loop(ctx) })
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// do executes a command now, under a new key, and returns its answer.
func do[R any](t *testing.T, m *market, actor domain.AgentKey, c domain.Command[R]) R {
	t.Helper()
	return doAt(t, m, actor, time.Now(), c)
}

// doAt executes a command as if it were another time.
func doAt[R any](t *testing.T, m *market, actor domain.AgentKey, at time.Time, c domain.Command[R]) (answer R) {
	t.Helper()
	op := eventstore.Operation{Owner: actor, Key: m.key(), Tool: fmt.Sprintf("%T", c), Board: "main", At: at}
	receipt, err := eventstore.Execute(t.Context(), m.main.Store, op, c)
	if err == nil {
		err = json.Unmarshal(receipt.Result, &answer)
	}
	if err != nil {
		t.Fatalf("%T: %v", c, err)
	}
	return answer
}

// key is a new operation key.
func (m *market) key() string { return fmt.Sprintf("op-%d", m.keys.Add(1)) }

// logged returns how many events and receipts the log has.
func (m *market) logged(t *testing.T) (events, receipts int) {
	t.Helper()
	err := m.main.DB.QueryRow(t.Context(), `
		SELECT (SELECT count(*) FROM log.events), (SELECT count(*) FROM log.operations)`).Scan(&events, &receipts)
	if err != nil {
		t.Fatal(err)
	}
	return events, receipts
}

// settle waits until everyone sees all that is in the log. Without it an agent is
// sure to see no more than its own writes.
func (m *market) settle(t *testing.T) {
	t.Helper()
	var views []string
	for _, v := range projections.All() {
		views = append(views, v.Checkpoint())
	}
	if err := m.main.Store.AwaitHead(t.Context(), views); err != nil {
		t.Fatal(err)
	}
}

// ask opens a request that takes quotes for 30 days and delivery for 60.
func (m *market) ask(t *testing.T, p *person, change ...func(*domain.RequestQuotes)) domain.RequestID {
	t.Helper()
	return m.askAt(t, p, time.Now(), change...)
}

func (m *market) askAt(t *testing.T, p *person, at time.Time, change ...func(*domain.RequestQuotes)) domain.RequestID {
	t.Helper()
	c := domain.RequestQuotes{
		Title: "A logo", Brief: "Draw a logo.", AcceptanceCriteria: []string{"It is a logo."},
		Budget: &domain.Budget{Token: usd.Address, Max: "25"}, QuoteDeadline: "30d", DeliveryDeadline: "60d",
	}
	for _, f := range change {
		f(&c)
	}
	return doAt(t, m, p.key, at, c).RequestID
}

// offer quotes for a request.
func (m *market) offer(t *testing.T, p *person, id domain.RequestID) domain.QuoteID {
	t.Helper()
	return m.offerAt(t, p, time.Now(), id)
}

func (m *market) offerAt(t *testing.T, p *person, at time.Time, id domain.RequestID) domain.QuoteID {
	t.Helper()
	return doAt(t, m, p.key, at, domain.SubmitQuote{RequestID: id, AgentID: p.id, Token: usd.Address, Amount: "20"}).QuoteID
}

// A syncBuffer holds what several goroutines log.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write implements [io.Writer].
func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }
