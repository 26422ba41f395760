package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/oauth"
	"sidequest/oauth/signin"
	"sidequest/secret"
	"sidequest/webhook"
)

// erase forgets an operator: the name and e-mail address become unreadable in the
// log, in every copy of it and in every view, and what the operator had connected
// may do nothing any more, since nobody answers for it.
func erase(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) != 1 {
		return errors.New("whom? usage: erase OPERATOR")
	}
	return administer(ctx, stderr, func(ctx context.Context, store *eventstore.Store) error {
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- store.Run(running) }()
		erased := forget(ctx, store, args[0])
		stop()
		if err := errors.Join(erased, <-ended); err != nil {
			return err
		}
		_, err := fmt.Fprintf(stdout, "operator %s is erased; the running server destroys the key within a second\n", args[0])
		return err
	})
}

// forget may be repeated until it has done everything.
func forget(ctx context.Context, store *eventstore.Store, operator string) error {
	if err := eraseOperator(ctx, store, operator); err != nil {
		return err
	}
	return errors.Join(signin.Forget(ctx, store.Pool, operator), disconnect(ctx, store, operator))
}

func eraseOperator(ctx context.Context, store *eventstore.Store, id string) error {
	hash, err := eventstore.HashArgs("erase_operator", fmt.Appendf(nil, `{"operatorId":%q}`, id))
	if err != nil {
		return err
	}
	op := eventstore.Operation{Owner: domain.System, Key: "erase-" + id, Tool: "erase_operator", ArgsHash: hash, At: time.Now()}
	_, err = eventstore.Execute(ctx, store, op, domain.EraseOperator{OperatorID: id})
	return err
}

// disconnect ends every connection of an operator who is erased.
func disconnect(ctx context.Context, store *eventstore.Store, operator string) error {
	grants, err := oauth.LoadGrants(ctx, store)
	if err != nil {
		return err
	}
	live, err := grants.OfOperator(ctx, operator)
	if err != nil {
		return err
	}
	return endGrants(ctx, store, live, "the operator was erased")
}

// keyfile makes the key file of a new deployment. One that is there stays.
func keyfile(_ context.Context, args []string, stdout, _ io.Writer) error {
	if len(args) != 1 {
		return errors.New("which file? usage: keyfile FILE")
	}
	if _, err := os.Lstat(args[0]); err == nil {
		return fmt.Errorf("%s is there already; a deployment whose key file is replaced loses its secrets", args[0])
	}
	if _, err := secret.LoadOrCreate(args[0]); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stdout, "%s holds a new key: keep a copy where the database's backups are not\n", args[0])
	return err
}

// rekey replaces the key-encryption key while the server runs. Where all processes
// read one key file it does so in one go; where each has a copy, --step does one
// step at a time, so that the file can be distributed in between.
func rekey(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("rekey", flag.ContinueOnError)
	flags.SetOutput(stderr)
	step := flags.String("step", "all", "`new` lists a new key, use makes it current, seal seals everything with it, all does the three")
	if err := flags.Parse(args); err != nil {
		return err
	}
	d, err := theDeployment()
	if err != nil {
		return err
	}
	switch *step {
	case "new", "use", "seal", "all":
	default:
		return errors.New("--step is new, use, seal or all")
	}
	if *step == "new" || *step == "all" {
		id, err := secret.AddKey(d.KEKFile)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "key %d is listed in %s\n", id, d.KEKFile)
	}
	if *step == "use" || *step == "all" {
		id, err := secret.UseNewest(d.KEKFile)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "key %d seals from now on\n", id)
	}
	if *step == "seal" || *step == "all" {
		return sealAnew(ctx, d, stdout, stderr)
	}
	return nil
}

// sealAnew seals every secret at rest with the current key.
func sealAnew(ctx context.Context, d deployment, stdout, stderr io.Writer) error {
	keys, err := secret.Load(d.KEKFile)
	if err != nil {
		return err
	}
	return administer(ctx, stderr, func(ctx context.Context, store *eventstore.Store) error {
		secrets, err := secret.Vault{Pool: store.Pool, Keys: keys}.Rotate(ctx)
		if err != nil {
			return err
		}
		subjects, err := store.Rewrap(ctx)
		if err != nil {
			return err
		}
		webhooks, err := webhook.Reseal(ctx, store.Pool, keys)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(stdout, "%d secrets, %d keys of subjects and %d webhooks are sealed with the current key\n", secrets, subjects, webhooks)
		return err
	})
}
