package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/nats-io/nats.go"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/projections"
)

// serve runs one copy of the program in production: everything comes from the
// environment, and nothing is embedded.
func serve(ctx context.Context, _ []string, stdout, stderr io.Writer) error {
	cfg, err := loadConfig(os.Getenv, true)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: logLevel()}))
	return run(ctx, cfg, log, func(addr string) { fmt.Fprintf(stdout, "listening on %s for %s\n", addr, cfg.PublicURL) })
}

// migrate brings the database up to date. It connects as the owner of the tables,
// which the program itself never does.
func migrate(ctx context.Context, _ []string, stdout, _ io.Writer) error {
	url := os.Getenv("SIDEQUEST_OWNER_DATABASE_URL")
	if url == "" {
		return errors.New("SIDEQUEST_OWNER_DATABASE_URL is missing: Postgres, as the role that owns the tables")
	}
	if err := migrateURL(ctx, url); err != nil {
		return err
	}
	_, err := fmt.Fprintln(stdout, "the database is up to date")
	return err
}

// rebuild folds the log anew into one view while the server goes on.
func rebuild(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) != 1 {
		return errors.New("which view? usage: rebuild NAME")
	}
	view, err := projections.Find(args[0])
	if err != nil {
		return err
	}
	d, err := databaseAndNATS()
	if err != nil {
		return err
	}
	pool, err := openPool(ctx, d.DatabaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	conn, err := nats.Connect(d.NATSURL, nats.RetryOnFailedConnect(true))
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	defer conn.Close()
	wake, err := eventstore.NewWake(conn, d.WakePrefix)
	if err != nil {
		return err
	}
	defer wake.Close()
	store := eventstore.Open(eventstore.Config{
		Pool: pool, Wake: wake, Log: slog.New(slog.NewTextHandler(stderr, nil)), Categories: domain.Categories,
	})
	err = view.Rebuild(ctx, store, func(pos, head int64) {
		fmt.Fprintf(stdout, "\r%s: %d of %d events", view.Name, pos, head)
	})
	fmt.Fprintln(stdout)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "view %s is new and in use\n", view.Name)
	return err
}

// databaseAndNATS finds the deployment an administrator means: the one of the
// environment, else the development one of the data folder.
func databaseAndNATS() (deployment, error) {
	if url := os.Getenv("SIDEQUEST_DATABASE_URL"); url != "" {
		return deployment{DatabaseURL: url, NATSURL: os.Getenv("SIDEQUEST_NATS_URL"), WakePrefix: "sidequest"}, nil
	}
	return loadDeployment()
}

// logLevel is info, or debug where SIDEQUEST_DEBUG is set.
func logLevel() slog.Level {
	if os.Getenv("SIDEQUEST_DEBUG") != "" {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// developed turns a command for developers into one of the table.
func developed(do func(ctx context.Context, d development, log *slog.Logger, args []string, stdout, stderr io.Writer) error) func(context.Context, []string, io.Writer, io.Writer) error {
	return func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
		d, err := loadDeployment()
		if err != nil {
			return err
		}
		log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		return do(ctx, development{
			DatabaseURL: d.DatabaseURL, NATSURL: d.NATSURL, WakePrefix: d.WakePrefix, KEKFile: d.KEKFile, Issuer: d.PublicURL,
		}, log, args, stdout, stderr)
	}
}
