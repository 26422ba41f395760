package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"sidequest/bench/rounds"
	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/migrations"
	"sidequest/postgres"
)

// A bench is the servers everything runs on, and the report.
type bench struct {
	plan
	report

	dir     string
	cluster *postgres.Cluster
	admin   *pgx.Conn
	meter   *rounds.Meter
	broker  *natsserver.Server

	installed bool // message-db
}

// start brings up Postgres, with all the flushes of production, and NATS.
func start(ctx context.Context, p plan) (*bench, error) {
	dir, err := os.MkdirTemp("", "sidequest-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	b := &bench{plan: p, dir: dir, cluster: &postgres.Cluster{Dir: dir}}
	if err := b.bringUp(ctx); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	return b, nil
}

func (b *bench) bringUp(ctx context.Context) error {
	if err := b.cluster.Start(ctx); err != nil {
		return fmt.Errorf("start Postgres: %w", err)
	}
	var err error
	if b.admin, err = pgx.Connect(ctx, b.cluster.URL(postgres.Super, postgres.Super)); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if b.meter, err = rounds.NewMeter(ctx, b.admin); err != nil {
		return err
	}
	b.broker, err = natsserver.NewServer(&natsserver.Options{
		DontListen: true, JetStream: true, StoreDir: b.dir + "/nats", NoSigs: true, NoLog: true,
	})
	if err != nil {
		return fmt.Errorf("make the NATS server: %w", err)
	}
	b.broker.Start()
	if !b.broker.ReadyForConnections(10 * time.Second) {
		return errors.New("the NATS server does not start")
	}
	return nil
}

func (b *bench) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if b.broker != nil {
		b.broker.Shutdown()
		b.broker.WaitForShutdown()
	}
	if b.admin != nil {
		b.admin.Close(ctx)
	}
	home := b.cluster.Home()
	err := b.cluster.Stop(ctx)
	return errors.Join(err, os.RemoveAll(b.dir), os.RemoveAll(home))
}

func (b *bench) broking() (*nats.Conn, error) {
	return nats.Connect("", nats.InProcessServer(b.broker))
}

// A store is an event store on a database of its own, running.
type store struct {
	*eventstore.Store
	name  string
	wake  *eventstore.Wake
	nats  *nats.Conn
	owns  *pgx.Conn // as the owner of the tables
	super *pgx.Conn
	stop  func() error
}

// open makes a database and runs a store on it.
func (b *bench) open(ctx context.Context, name string) (*store, error) {
	if err := postgres.CreateDatabase(ctx, b.admin, name, "template0"); err != nil {
		return nil, err
	}
	owner, err := pgx.Connect(ctx, b.cluster.URL(name, postgres.Owner))
	if err != nil {
		return nil, fmt.Errorf("connect as owner: %w", err)
	}
	if err := migrations.Up(ctx, owner); err != nil {
		return nil, err
	}
	nc, err := b.broking()
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	wake, err := eventstore.NewWake(nc, name)
	if err != nil {
		return nil, err
	}
	url := b.cluster.URL(name, postgres.Program)
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the pool's settings: %w", err)
	}
	cfg.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open a pool: %w", err)
	}
	s := &store{name: name, wake: wake, nats: nc, owns: owner, super: b.admin}
	s.Store = eventstore.Open(eventstore.Config{
		URL: url, Pool: pool, Wake: wake, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Categories: []domain.AnyCategory{loads},
	})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.Run(running) }()
	s.stop = func() error {
		cancel()
		err := <-done
		pool.Close()
		nc.Close()
		owner.Close(context.WithoutCancel(ctx))
		return err
	}
	return s, nil
}
