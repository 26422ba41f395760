package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sidequest/eventstore"
	"sidequest/secret"
)

// sealing is how often a process looks whether a day is over.
const sealing = 10 * time.Minute

// sealKey returns the key that seals the log. It is made once and shared by every
// process.
func sealKey(ctx context.Context, vault secret.Vault) (ed25519.PrivateKey, error) {
	seed, err := vault.GetOrCreate(ctx, "seal:1", func() ([]byte, error) {
		b := make([]byte, ed25519.SeedSize)
		_, err := rand.Read(b)
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("load the seal key: %w", err)
	}
	if len(seed) != ed25519.SeedSize {
		return nil, errors.New("load the seal key: it has the wrong length")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func publicKeys(keys ...ed25519.PublicKey) map[string]ed25519.PublicKey {
	byID := map[string]ed25519.PublicKey{}
	for _, k := range keys {
		byID[eventstore.KeyID(k)] = k
	}
	return byID
}

// sealDays seals each day of the log once it is over.
func (p *process) sealDays(ctx context.Context) error {
	p.store.Singly(ctx, "seal days", p.name, sealing, func(ctx context.Context) error {
		key, err := sealKey(ctx, p.vault)
		if err != nil {
			return err
		}
		return p.store.SealDays(ctx, key, time.Now())
	})
	return nil
}

// attest runs a command that needs the log and the key that seals it.
func attest(ctx context.Context, stderr io.Writer, do func(context.Context, *eventstore.Store, ed25519.PrivateKey) error) error {
	d, err := theDeployment()
	if err != nil {
		return err
	}
	keys, err := secret.Load(d.KEKFile)
	if err != nil {
		return err
	}
	return administer(ctx, stderr, func(ctx context.Context, store *eventstore.Store) error {
		key, err := sealKey(ctx, secret.Vault{Pool: store.Pool, Keys: keys})
		if err != nil {
			return err
		}
		return do(ctx, store, key)
	})
}

// sealNow signs the log up to its head.
func sealNow(ctx context.Context, _ []string, stdout, stderr io.Writer) error {
	return attest(ctx, stderr, func(ctx context.Context, store *eventstore.Store, key ed25519.PrivateKey) error {
		seal, err := store.Seal(ctx, key, 0)
		if err != nil {
			return err
		}
		public := key.Public().(ed25519.PublicKey)
		_, err = fmt.Fprintf(stdout, "seal %d covers positions %d to %d, root %x\nsigned by key %s\nverify with --key %s\n",
			seal.Seq, seal.From, seal.To, []byte(seal.Root), seal.KeyID, base64.StdEncoding.EncodeToString(public))
		return err
	})
}

// export writes the log as JSON Lines to a file, or to stdout.
func export(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 1 {
		return errors.New("where to? usage: export [FILE]")
	}
	return attest(ctx, stderr, func(ctx context.Context, store *eventstore.Store, key ed25519.PrivateKey) error {
		keys := publicKeys(key.Public().(ed25519.PublicKey))
		if len(args) == 0 {
			return store.Export(ctx, stdout, keys)
		}
		return writeWhole(args[0], func(w io.Writer) error { return store.Export(ctx, w, keys) })
	})
}

// writeWhole writes a file that is there whole or not at all.
func writeWhole(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // once it is renamed there is nothing to remove
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// importLog fills an empty database from an export.
func importLog(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) != 1 {
		return errors.New("which export? usage: import FILE")
	}
	return withExport(args[0], func(x *eventstore.Export) error {
		return administer(ctx, stderr, func(ctx context.Context, store *eventstore.Store) error {
			v, err := store.Import(ctx, x)
			if err != nil {
				return err
			}
			return tellVerified(stdout, "imported", v)
		})
	})
}

func withExport(path string, do func(*eventstore.Export) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	x, err := eventstore.OpenExport(f)
	if err != nil {
		return err
	}
	return do(x)
}

// verify checks the log of the database, or of an export without any database.
func verify(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	flags.SetOutput(stderr)
	trusted := flags.String("key", "", "the public `key` that seals must be signed with, as seal prints it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	keys, err := trustedKeys(*trusted)
	if err != nil {
		return err
	}
	if flags.NArg() > 1 {
		return errors.New("what to verify? usage: verify [--key KEY] [FILE]")
	}
	if flags.NArg() == 1 {
		return withExport(flags.Arg(0), func(x *eventstore.Export) error {
			v, err := x.Verify(keys)
			if err != nil {
				return err
			}
			if keys == nil {
				fmt.Fprintln(stdout, "the seals are signed by the key the export itself names; give --key to know by whom")
			}
			return tellVerified(stdout, "verified", v)
		})
	}
	return attest(ctx, stderr, func(ctx context.Context, store *eventstore.Store, key ed25519.PrivateKey) error {
		if keys == nil {
			keys = publicKeys(key.Public().(ed25519.PublicKey))
		}
		v, err := store.Verify(ctx, keys, func(pos int64) { fmt.Fprintf(stderr, "\rposition %d", pos) })
		if err != nil {
			return err
		}
		return tellVerified(stdout, "verified", v)
	})
}

func trustedKeys(encoded string) (map[string]ed25519.PublicKey, error) {
	if encoded == "" {
		return nil, nil //nolint:nilnil // none given is not a mistake
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, errors.New("--key is not a public key as seal prints it")
	}
	return publicKeys(key), nil
}

func tellVerified(w io.Writer, did string, v *eventstore.Verifier) error {
	events, seals := v.Verified()
	_, err := fmt.Fprintf(w, "%s %d events and %d seals; every one fits\n", did, events, seals)
	return err
}
