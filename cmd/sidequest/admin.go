package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/postgres"
	"sidequest/projections"
	"sidequest/secret"
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
	return administer(ctx, stderr, func(ctx context.Context, store *eventstore.Store) error {
		err := view.Rebuild(ctx, store, func(pos, head int64) {
			fmt.Fprintf(stdout, "\r%s: %d of %d events", view.Name, pos, head)
		})
		fmt.Fprintln(stdout)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(stdout, "view %s is new and in use\n", view.Name)
		return err
	})
}

// skip lets a view go on without an event it cannot apply. Without arguments it
// shows where views stand still.
func skip(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return administer(ctx, stderr, func(ctx context.Context, store *eventstore.Store) error {
		if len(args) == 0 {
			return listDeadLetters(ctx, store, stdout)
		}
		position, err := strconv.ParseInt(args[len(args)-1], 10, 64)
		if err != nil || len(args) != 2 {
			return errors.New("which event? usage: skip CONSUMER POSITION, as skip without arguments shows them")
		}
		if err := store.Skip(ctx, args[0], position); err != nil {
			return err
		}
		_, err = fmt.Fprintf(stdout, "%s goes on without position %d\n", args[0], position)
		return err
	})
}

// epoch begins a new epoch of the log, after it was restored from a backup or
// moved to a server that may lack its last events, and before it is served again.
func epoch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		return errors.New("epoch takes no argument")
	}
	return administer(ctx, stderr, func(ctx context.Context, store *eventstore.Store) error {
		n, err := store.NewEpoch(ctx)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(stdout, "epoch %d begins: cursors of before are answered as truncated, and the copy in JetStream is made anew\n", n)
		return err
	})
}

func listDeadLetters(ctx context.Context, store *eventstore.Store, stdout io.Writer) error {
	letters, err := store.DeadLetters(ctx)
	if err != nil {
		return err
	}
	if len(letters) == 0 {
		fmt.Fprintln(stdout, "no view stands still")
	}
	for _, l := range letters {
		state := "stands still"
		if l.Skipped {
			state = "skipped"
		}
		fmt.Fprintf(stdout, "%s %d  %s since %s: %s\n", l.Consumer, l.Position, state, l.At.Format(time.RFC3339), l.Error)
	}
	return nil
}

// administer opens the store that an administrator means: that of the
// environment, else the development one of the data folder.
func administer(ctx context.Context, stderr io.Writer, do func(context.Context, *eventstore.Store) error) error {
	d, err := theDeployment()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if d.development() {
		// Its Postgres runs with the server. A log is also looked after while that
		// is stopped; where it runs, it is joined.
		cluster := &postgres.Cluster{Dir: d.Dir, Log: log}
		if err := cluster.Start(ctx); err != nil {
			return err
		}
		defer stopCluster(ctx, cluster, log)
	}
	store, closeStore, err := openStore(ctx, d, log)
	if err != nil {
		return fmt.Errorf("the deployment does not answer: %w", err)
	}
	defer closeStore()
	return do(ctx, store)
}

// theDeployment is the one that the environment names, else the development one
// of the data folder.
func theDeployment() (deployment, error) {
	if url := os.Getenv("SIDEQUEST_DATABASE_URL"); url != "" {
		return deployment{
			DatabaseURL: url, NATSURL: os.Getenv("SIDEQUEST_NATS_URL"), KEKFile: os.Getenv("SIDEQUEST_KEK_FILE"), WakePrefix: wakePrefix,
		}, nil
	}
	return loadDeployment()
}

// openStore opens the log for a command. NATS may be down: the running processes
// then find out by themselves what the command wrote.
func openStore(ctx context.Context, d deployment, log *slog.Logger) (store *eventstore.Store, closeStore func(), err error) {
	keys, err := secret.Load(d.KEKFile)
	if err != nil {
		return nil, nil, err
	}
	pool, err := openPool(ctx, d.DatabaseURL)
	if err != nil {
		return nil, nil, err
	}
	conn, err := nats.Connect(d.NATSURL, nats.Name("sidequest command"), nats.RetryOnFailedConnect(true))
	if err != nil {
		pool.Close()
		return nil, nil, fmt.Errorf("connect to NATS: %w", err)
	}
	wake, err := eventstore.NewWake(conn, d.WakePrefix)
	if err != nil {
		conn.Close()
		pool.Close()
		return nil, nil, err
	}
	store = eventstore.Open(eventstore.Config{
		URL: d.DatabaseURL, Pool: pool, Wake: wake, Log: log, Categories: domain.Categories, Wrapping: wrapping(keys),
	})
	return store, func() {
		if conn.IsConnected() {
			_ = conn.FlushTimeout(time.Second) // a lost ring costs the others half a second
		}
		wake.Close()
		conn.Close()
		pool.Close()
	}, nil
}

// wrapping seals the keys of personal data with the key-encryption key.
func wrapping(keys *secret.Keys) eventstore.Wrapping {
	const purpose = "subject"
	return eventstore.Wrapping{
		Wrap:   func(subject string, key []byte) []byte { return keys.Seal(purpose, subject, key) },
		Unwrap: func(subject string, wrapped []byte) ([]byte, error) { return keys.Open(purpose, subject, wrapped) },
	}
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
		if err != nil && !asksForHelp(args) {
			return err
		}
		log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		return do(ctx, development{
			DatabaseURL: d.DatabaseURL, NATSURL: d.NATSURL, WakePrefix: d.WakePrefix, KEKFile: d.KEKFile, Issuer: d.PublicURL,
		}, log, args, stdout, stderr)
	}
}
