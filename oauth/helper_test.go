package oauth

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/eventstore/eventstoretest"
	"sidequest/secret"
)

const (
	issuer   = "https://sidequest.example"
	resource = issuer + "/mcp"
	operator = domain.AgentKey("operator:test")
	client   = "client-1"
)

var alice = domain.DevelopmentAgent("alice")

// A deployment is one database and one NATS, with the agent alice registered.
type deployment struct {
	db    *eventstoretest.DB
	nats  *server.Server
	vault secret.Vault
	keys  *Keys
}

func newDeployment(t *testing.T) deployment {
	t.Helper()
	d := deployment{db: eventstoretest.NewDB(t), nats: newNATS(t)}
	kek, err := secret.LoadOrCreate(filepath.Join(t.TempDir(), "kek.json"))
	if err != nil {
		t.Fatal(err)
	}
	p := d.process(t)
	d.vault = secret.Vault{Pool: p.store.Pool, Keys: kek}
	if d.keys, err = LoadKeys(t.Context(), d.vault); err != nil {
		t.Fatal(err)
	}
	execute(t, p.store, domain.RegisterAgent{Name: "alice", Wallet: "0x52908400098527886E0F7030069857D2E4169EE7"})
	return d
}

func newNATS(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

// A process is one of the deployment's processes.
type process struct {
	store *eventstore.Store
	looks *atomic.Int64 // how often it read the log
}

func (d deployment) process(t *testing.T) process {
	t.Helper()
	p := process{looks: &atomic.Int64{}}
	conn, err := nats.Connect("", nats.InProcessServer(d.nats))
	if err != nil {
		t.Fatal(err)
	}
	wake, err := eventstore.NewWake(conn, "test")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := pgxpool.ParseConfig(d.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.Tracer = counter{p.looks}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.store = eventstore.Open(eventstore.Config{
		URL: d.db.URL, Pool: pool, Wake: wake, Log: slog.New(slog.DiscardHandler),
		Categories: []domain.AnyCategory{domain.Grants, domain.Agents, domain.Registries, domain.Approvals, domain.Boards, domain.Operators},
	})
	t.Cleanup(func() {
		pool.Close()
		wake.Close()
		conn.Close()
	})
	background(t, p.store.Run)
	return p
}

// A counter counts queries.
type counter struct{ n *atomic.Int64 }

func (c counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// background runs something until the test ends, and waits for its end.
func background(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func execute[R any](t *testing.T, s *eventstore.Store, cmd domain.Command[R]) {
	t.Helper()
	executeAs(t, s, operator, cmd)
}

func executeAs[R any](t *testing.T, s *eventstore.Store, owner domain.AgentKey, cmd domain.Command[R]) {
	t.Helper()
	op := eventstore.Operation{Owner: owner, Key: ulid.Make().String(), Tool: "test", At: time.Now()}
	if _, err := eventstore.Execute(t.Context(), s, op, cmd); err != nil {
		t.Fatal(err)
	}
}

// grant opens a grant for alice and returns its id.
func (p process) grant(t *testing.T, scopes ...string) string {
	t.Helper()
	return p.open(t, domain.OpenGrant{
		AgentKey: alice, ClientID: client, Operator: string(operator), Scopes: scopes, Resource: resource,
	})
}

// setupGrant opens a grant to set up an agent, whose client asked to read too.
func (p process) setupGrant(t *testing.T) string {
	t.Helper()
	return p.open(t, domain.OpenGrant{
		ClientID: client, Operator: string(operator), Resource: resource,
		Asked: []string{domain.ScopeSetup, domain.ScopeRead}, Scopes: []string{domain.ScopeSetup},
	})
}

func (p process) open(t *testing.T, cmd domain.OpenGrant) string {
	t.Helper()
	key := ulid.Make().String()
	op := eventstore.Operation{Owner: operator, Key: key, Tool: "test", At: time.Now()}
	if _, err := eventstore.Execute(t.Context(), p.store, op, cmd); err != nil {
		t.Fatal(err)
	}
	return domain.DeriveID("gr", string(operator), key)
}

func (p process) revoke(t *testing.T, id string) {
	t.Helper()
	execute(t, p.store, domain.RevokeGrant{GrantID: id, Reason: "test"})
}

// grants returns the process's memory of grants, without or with Run.
func (p process) grants(t *testing.T) *Grants {
	t.Helper()
	g, err := LoadGrants(t.Context(), p.store)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (p process) followed(t *testing.T) *Grants {
	t.Helper()
	g := p.grants(t)
	background(t, g.Run)
	return g
}

// token returns what an honest mint makes for a grant of alice.
func token(grantID string, scopes ...string) AccessToken {
	return AccessToken{
		Issuer: issuer, GrantID: grantID, At: time.Now(),
		Grant: domain.Grant{AgentKey: alice, ClientID: client, Scopes: scopes, Resource: resource},
	}
}

func mint(t *testing.T, k *Keys, a AccessToken) string {
	t.Helper()
	s, err := k.Mint(a)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantRefusal checks that err is a refusal of a class.
func wantRefusal(t *testing.T, err error, class domain.Class) {
	t.Helper()
	refusal, ok := errors.AsType[*domain.Error](err)
	if !ok || refusal.Class != class {
		t.Errorf("error = %v, want a refusal %s", err, class)
	}
}
