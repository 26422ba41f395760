package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"sidequest/docs"
	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/mcp"
	"sidequest/mcp/delivery"
	"sidequest/oauth"
	"sidequest/oauth/signin"
	"sidequest/oauth/signin/devidp"
	"sidequest/projections"
	"sidequest/secret"
	"sidequest/web"
	"sidequest/webhook"
)

// run is the whole program: it connects, wires, serves, and returns when ctx is
// done and everything has come to its end. ready hears the address it listens on.
func run(ctx context.Context, cfg config, log *slog.Logger, ready func(addr string)) error {
	pool, err := openPool(ctx, cfg.DatabaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	conn, err := nats.Connect(cfg.NATSURL, nats.Name("sidequest"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	wake, err := eventstore.NewWake(conn, cfg.WakePrefix)
	if err != nil {
		return err
	}
	defer wake.Close()
	keys, err := secret.Load(cfg.KEKFile)
	if err != nil {
		return err
	}

	p := &process{
		name:  rand.Text(),
		cfg:   cfg,
		log:   log,
		pool:  pool,
		nats:  conn,
		js:    js,
		vault: secret.Vault{Pool: pool, Keys: keys},
		store: eventstore.Open(eventstore.Config{
			URL: cfg.DatabaseURL, Pool: pool, Wake: wake, Log: log, Categories: domain.Categories, Wrapping: wrapping(keys),
		}),
	}
	return p.run(ctx, ready)
}

// A process is one copy of the program: what its parts share.
type process struct {
	name  string // among the copies, for leases
	cfg   config
	log   *slog.Logger
	pool  *pgxpool.Pool
	nats  *nats.Conn
	js    jetstream.JetStream
	vault secret.Vault
	store *eventstore.Store

	grants   *oauth.Grants
	verifier *oauth.Verifier
	access   *oauth.Server
	docs     *docs.Index
	uses     *oauth.Uses
	market   *mcp.Market
	feeds    *delivery.Feeds
	hooks    *webhook.Hooks
	server   *mcp.Server

	signIn *signin.Service
	devIDP *devidp.Provider // nil but in development
	web    *web.Server
}

// run starts the store first and stops it last, so that whatever else is still
// under way can finish its writes.
func (p *process) run(ctx context.Context, ready func(addr string)) error {
	storing, stopStore := context.WithCancel(context.WithoutCancel(ctx))
	stored := make(chan error, 1)
	go func() { stored <- p.store.Run(storing) }()
	err := p.wire(ctx)
	if err == nil {
		err = p.work(ctx, ready)
	}
	stopStore()
	return errors.Join(err, <-stored)
}

// wire makes the parts that need the database, and the board if it is new.
func (p *process) wire(ctx context.Context) error {
	if err := errors.Join(projections.Prepare(ctx, p.pool), p.store.Begin(ctx, eventstore.ShredConsumer)); err != nil {
		return err
	}
	cursors, err := loadCursors(ctx, p.vault, p.cfg.Network)
	if err != nil {
		return err
	}
	states, err := loadStates(ctx, p.vault)
	if err != nil {
		return err
	}
	signing, err := oauth.LoadKeys(ctx, p.vault)
	if err != nil {
		return err
	}
	if p.grants, err = oauth.LoadGrants(ctx, p.store); err != nil {
		return err
	}
	if err := p.configureBoard(ctx); err != nil {
		return err
	}
	p.verifier = oauth.NewVerifier(signing, p.cfg.PublicURL, p.grants)
	if p.access, err = p.newAccess(ctx, signing); err != nil {
		return err
	}
	if p.docs, err = loadDocs(ctx, p.pool); err != nil {
		return err
	}
	p.uses = oauth.NewUses(p.pool)
	p.market = &mcp.Market{
		Tools: mcp.Tools(), Store: p.store, DB: p.pool, Cursors: cursors, Docs: p.docs, Origin: p.cfg.PublicURL,
		Network: p.cfg.Network, Limits: p.cfg.Limits, Log: p.log, Now: time.Now,
		Wallet: func(ctx context.Context, agent domain.AgentKey) (domain.Address, error) {
			return managedWallet(ctx, p.vault, agent)
		},
	}
	if p.hooks, err = p.newHooks(ctx, cursors); err != nil {
		return err
	}
	p.market.Hooks = p.hooks
	p.feeds = delivery.New(delivery.Config{
		DB: p.pool, Store: p.store, Cursors: cursors, ChainID: p.cfg.Network.ChainID, Network: p.cfg.Network.Name,
		Codes: p.cfg.Codes, Hooks: p.hooks, Revoked: p.grants.Revoked, Now: time.Now, Log: p.log,
	})
	p.market.Listens = p.feeds.Listens
	library := mcp.NewLibrary(p.docs.Book, p.cfg.PublicURL)
	p.server = &mcp.Server{
		Methods: map[string]mcp.Method{}, Extensions: library.Extensions(), Authenticate: p.authenticate, BaseURL: p.cfg.PublicURL,
		States: states, Listening: p.feeds.Listening(), Log: p.log,
	}
	p.server.Listening.Tools = func(c mcp.Caller) <-chan struct{} { return p.grants.Changed(c.GrantID) }
	for _, methods := range []map[string]mcp.Method{p.market.Methods(), p.feeds.Methods(), library.Methods()} {
		maps.Copy(p.server.Methods, methods)
	}
	return p.wirePeople(ctx)
}

// work runs every loop of the program until ctx is done or one of them fails.
func (p *process) work(ctx context.Context, ready func(addr string)) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", p.cfg.Addr)
	if err != nil {
		return fmt.Errorf("listen on %s; SIDEQUEST_ADDR sets another address: %w", p.cfg.Addr, err)
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, view := range projections.All() {
		g.Go(func() error { return p.store.Consume(ctx, view.Consumer()) })
	}
	g.Go(func() error { return p.store.Consume(ctx, eventstore.Shredding()) })
	relay := eventstore.Relay{Store: p.store, JetStream: p.js, Owner: p.name, Replicas: p.cfg.Replicas}
	g.Go(func() error { return relay.Run(ctx) })
	g.Go(func() error { return p.grants.Run(ctx) })
	g.Go(func() error { p.access.Keys.Follow(ctx, p.log); return nil })
	g.Go(func() error { p.access.Run(ctx, p.name); return nil })
	g.Go(func() error {
		p.uses.Run(ctx, func(err error) { p.log.Warn("what operators see of their connections is behind", "error", err) })
		return nil
	})
	g.Go(func() error { return p.feeds.Run(ctx) })
	g.Go(func() error { return p.hooks.Run(ctx) })
	g.Go(func() error { return p.expire(ctx) })
	g.Go(func() error { return p.makePartitions(ctx) })
	g.Go(func() error { return p.sweepSignIns(ctx) })
	g.Go(func() error { return p.sealDays(ctx) })
	p.catchUp(ctx)
	g.Go(func() error { return p.serve(ctx, listener) })
	ready(listener.Addr().String())
	return g.Wait()
}

// catchUp waits until the views show nearly all of the log. That takes time only
// when a version of the program brings a view that is new; it answers nobody until
// that view can.
func (p *process) catchUp(ctx context.Context) {
	for {
		report := p.examine(ctx)
		behind := int64(0)
		for _, lag := range report.Consumers {
			behind = max(behind, lag)
		}
		if report.Postgres.OK && (behind <= stuck || len(report.Stuck) > 0) {
			return
		}
		p.log.Info("views are being built", "behind", report.Consumers)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return
		}
	}
}

// openPool connects to the views and the log as the program's own role.
func openPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	cfg.ConnConfig.RuntimeParams["search_path"] = projections.SearchPath()
	cfg.ConnConfig.RuntimeParams["application_name"] = "sidequest"
	cfg.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "10s" // a stopped process holds nothing for ever
	cfg.MaxConns = max(cfg.MaxConns, 16)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("reach the database: %w", err)
	}
	return pool, nil
}

// loadCursors returns the cursors of the deployment. Their key is made once and
// shared by every process.
func loadCursors(ctx context.Context, vault secret.Vault, n mcp.Network) (projections.Cursors, error) {
	key, err := vault.GetOrCreate(ctx, "cursor:1", newKey)
	if err != nil {
		return projections.Cursors{}, fmt.Errorf("load the cursor key: %w", err)
	}
	return projections.Cursors{
		Network: fmt.Sprintf("%s %d", n.Name, n.ChainID), Keys: map[byte][]byte{1: key}, Current: 1,
	}, nil
}

// loadStates returns what seals the states of calls that ask something. Their key,
// too, is made once and shared.
func loadStates(ctx context.Context, vault secret.Vault) (mcp.States, error) {
	key, err := vault.GetOrCreate(ctx, "state:1", newKey)
	if err != nil {
		return mcp.States{}, fmt.Errorf("load the key of states: %w", err)
	}
	return mcp.States{Keys: map[byte][]byte{1: key}, Current: 1}, nil
}

func newKey() ([]byte, error) {
	b := make([]byte, 32)
	_, err := rand.Read(b)
	return b, err
}

// drainTime bounds how long open requests may take to end.
const drainTime = 10 * time.Second

// serve answers HTTP until ctx is done, and then lets open requests end.
func (p *process) serve(ctx context.Context, listener net.Listener) error {
	routes, err := p.routes()
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           routes,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second, // lifted once a body is there, for what takes longer to answer
		IdleTimeout:       2 * time.Minute,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 1000},
		ErrorLog:          slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := server.Shutdown(bye); err != nil {
		p.log.Warn("some requests did not end in time", "error", err)
		return server.Close()
	}
	return nil
}
