package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/mcp"
	"sidequest/migrations"
	"sidequest/oauth"
	"sidequest/postgres"
	"sidequest/projections"
	"sidequest/secret"
)

// startDatabase runs a Postgres server with a migrated database and returns the
// URL for the program's role.
func startDatabase(ctx context.Context) (url string, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "sidequest-bench-")
	if err != nil {
		return "", nil, fmt.Errorf("make a folder: %w", err)
	}
	cluster := &postgres.Cluster{Dir: dir}
	stop = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		home := cluster.Home()
		return errors.Join(cluster.Stop(ctx), os.RemoveAll(dir), os.RemoveAll(home))
	}
	if err := migrate(ctx, cluster); err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return cluster.URL(postgres.Database, postgres.Program), stop, nil
}

func migrate(ctx context.Context, cluster *postgres.Cluster) error {
	if err := cluster.Start(ctx); err != nil {
		return fmt.Errorf("start Postgres: %w", err)
	}
	owner, err := pgx.Connect(ctx, cluster.URL(postgres.Database, postgres.Owner))
	if err != nil {
		return fmt.Errorf("connect as owner: %w", err)
	}
	return errors.Join(migrations.Up(ctx, owner), owner.Close(ctx))
}

// echoed is what the tool takes and answers.
type echoed struct {
	Text string `json:"text" jsonschema:"maxLength=1000" jsonschema_description:"What comes back."`
}

// echo is the trivial tool, a row like any other.
func echo() mcp.Tool {
	return mcp.NewRead(mcp.Tool{
		Name: "echo", Title: "Echo", Description: "Answers what it was sent.", Scopes: []string{domain.ScopeRead},
	}, func(_ context.Context, _ mcp.Caller, q echoed) (echoed, error) { return q, nil })
}

// serveOurs is the real lane on a socket, until its input ends.
func serveOurs(ctx context.Context, url, profile string, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	l, err := newLane(ctx, url)
	if err != nil {
		return err
	}
	defer l.close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.store.Run(ctx) })
	handler, token, err := l.wire(ctx, g, "http://"+listener.Addr().String())
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	g.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	g.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	fmt.Fprintf(stdout, "http://%s/mcp %s\n", listener.Addr(), token)
	return errors.Join(profiled(profile, g.Wait))
}

// profiled notes where processor time goes while something runs.
func profiled(file string, run func() error) error {
	if file == "" {
		return run()
	}
	f, err := os.Create(filepath.Clean(file))
	if err != nil {
		return fmt.Errorf("make the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	err = run()
	pprof.StopCPUProfile()
	return errors.Join(err, f.Close())
}

// A lane is what our server needs around it.
type lane struct {
	dir   string
	pool  *pgxpool.Pool
	nats  *natsserver.Server
	conn  *nats.Conn
	wake  *eventstore.Wake
	store *eventstore.Store
}

func newLane(ctx context.Context, url string) (*lane, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	cfg.ConnConfig.RuntimeParams["search_path"] = projections.SearchPath()
	l := &lane{}
	if l.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if l.nats, err = natsserver.NewServer(&natsserver.Options{DontListen: true, NoSigs: true, NoLog: true}); err != nil {
		return nil, fmt.Errorf("make the NATS server: %w", err)
	}
	l.nats.Start()
	if l.conn, err = nats.Connect("", nats.InProcessServer(l.nats)); err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	if l.wake, err = eventstore.NewWake(l.conn, "bench"); err != nil {
		return nil, err
	}
	l.store = eventstore.Open(eventstore.Config{
		URL: url, Pool: l.pool, Wake: l.wake, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Categories: domain.Categories,
	})
	l.dir, err = os.MkdirTemp("", "sidequest-bench-")
	return l, err
}

func (l *lane) close() {
	l.wake.Close()
	l.conn.Close()
	l.nats.Shutdown()
	l.pool.Close()
	_ = os.RemoveAll(l.dir)
}

// wire makes the lane as the program makes it, with an agent and its token.
func (l *lane) wire(ctx context.Context, g *errgroup.Group, origin string) (http.Handler, string, error) {
	if err := projections.Prepare(ctx, l.pool); err != nil {
		return nil, "", err
	}
	kek, err := secret.LoadOrCreate(filepath.Join(l.dir, "kek.json"))
	if err != nil {
		return nil, "", err
	}
	keys, err := oauth.LoadKeys(ctx, secret.Vault{Pool: l.pool, Keys: kek})
	if err != nil {
		return nil, "", err
	}
	token, err := l.connect(ctx, keys, origin)
	if err != nil {
		return nil, "", err
	}
	grants, err := oauth.LoadGrants(ctx, l.store)
	if err != nil {
		return nil, "", err
	}
	g.Go(func() error { return grants.Run(ctx) })
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, "", err
	}
	log := slog.New(slog.NewJSONHandler(null, nil))
	market := &mcp.Market{
		Tools: append(mcp.Tools(), echo()), Store: l.store, DB: l.pool, Network: mcp.Network{Name: domain.NetworkTest, ChainID: 1},
		Limits: mcp.StandardLimits(), Log: log, Now: time.Now,
	}
	return &mcp.Server{
		Methods: market.Methods(), BaseURL: origin, Log: log,
		Authenticate: authenticator(oauth.NewVerifier(keys, origin, grants), origin+"/mcp"),
	}, token, nil
}

// connect registers an agent and grants access, and returns the token for it.
func (l *lane) connect(ctx context.Context, keys *oauth.Keys, origin string) (string, error) {
	const operator domain.AgentKey = "operator"
	op := eventstore.Operation{Owner: operator, Key: "agent", Tool: "bench", At: time.Now()}
	agent := domain.RegisterAgent{Name: "bench", Wallet: "0x52908400098527886E0F7030069857D2E4169EE7"}
	if _, err := eventstore.Execute(ctx, l.store, op, agent); err != nil {
		return "", err
	}
	op.Key = "grant"
	grant := domain.OpenGrant{
		AgentKey: domain.DevelopmentAgent("bench"), ClientID: "bench", Operator: string(operator),
		Scopes: []string{domain.ScopeRead, domain.ScopeHire, domain.ScopeWork}, Resource: origin + "/mcp",
	}
	if _, err := eventstore.Execute(ctx, l.store, op, grant); err != nil {
		return "", err
	}
	return keys.Mint(oauth.AccessToken{
		Issuer: origin, GrantID: domain.DeriveID("gr", string(operator), "grant"), At: time.Now(),
		Grant: domain.Grant{AgentKey: grant.AgentKey, ClientID: grant.ClientID, Scopes: grant.Scopes, Resource: grant.Resource},
	})
}

// authenticator is what the program does with a token.
func authenticator(v *oauth.Verifier, resource string) func(*http.Request) (mcp.Caller, error) {
	return func(r *http.Request) (mcp.Caller, error) {
		_, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		who, err := v.Verify(r.Context(), bearer, resource)
		if err != nil {
			return mcp.Caller{}, err
		}
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		return mcp.Caller{
			AgentKey: who.AgentKey, GrantID: who.GrantID, ClientID: who.ClientID, Scopes: who.Scopes, Board: "main", IP: host, Resource: resource,
		}, err
	}
}
