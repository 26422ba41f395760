package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"sidequest/eventstore"
	"sidequest/oauth"
	"sidequest/secret"
)

// rotateKeys replaces the key that signs access tokens while the server runs.
func rotateKeys(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("rotate-keys", flag.ContinueOnError)
	flags.SetOutput(stderr)
	compromised := flags.Bool("compromised", false, "someone else may have the key: it counts no more, and every access token ends")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return errors.New("rotate-keys takes no argument")
	}
	return administerAccess(ctx, stderr, func(ctx context.Context, _ *eventstore.Store, vault secret.Vault) error {
		keys, err := oauth.LoadKeys(ctx, vault)
		if err != nil {
			return err
		}
		if *compromised {
			if err := keys.Replace(ctx); err != nil {
				return err
			}
			_, err := fmt.Fprintln(stdout, "a new key signs within ten seconds; clients get new access tokens by themselves")
			return err
		}
		if err := keys.Rotate(ctx); err != nil {
			return err
		}
		_, err = fmt.Fprintln(stdout, "a new key is published and signs in a quarter of an hour; no token ends")
		return err
	})
}

// knowClient registers a client that need not register itself:
//
//	sidequest client [--secret] NAME REDIRECT-URI…
func knowClient(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	flags.SetOutput(stderr)
	confidential := flags.Bool("secret", false, "it can keep a secret, and gets one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() < 2 {
		return errors.New("which client? usage: client [--secret] NAME REDIRECT-URI…")
	}
	return administerAccess(ctx, stderr, func(ctx context.Context, store *eventstore.Store, _ secret.Vault) error {
		server := oauth.Server{DB: store.Pool}
		id, clientSecret, err := server.Know(ctx, flags.Arg(0), flags.Args()[1:], *confidential)
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, "client_id", id)
		if clientSecret != "" {
			fmt.Fprintln(stdout, "client_secret", clientSecret)
		}
		return nil
	})
}

// administerAccess is administer for what needs secrets too.
func administerAccess(ctx context.Context, stderr io.Writer, do func(context.Context, *eventstore.Store, secret.Vault) error) error {
	d, err := theDeployment()
	if err != nil {
		return err
	}
	keys, err := secret.Load(d.KEKFile)
	if err != nil {
		return err
	}
	return administer(ctx, stderr, func(ctx context.Context, store *eventstore.Store) error {
		return do(ctx, store, secret.Vault{Pool: store.Pool, Keys: keys})
	})
}
