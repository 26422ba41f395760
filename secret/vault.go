package secret

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Vault keeps named secrets in the table auth.secrets.
type Vault struct {
	Pool *pgxpool.Pool
	Keys *Keys
}

// vaultPurpose is what the values of the vault are sealed for.
const vaultPurpose = "vault"

// GetOrCreate returns the secret with a name. If there is none it makes one; of
// several processes that do so at once, all return the one that was kept.
func (v Vault) GetOrCreate(ctx context.Context, name string, create func() ([]byte, error)) ([]byte, error) {
	value, found, err := v.get(ctx, name)
	if found || err != nil {
		return value, err
	}
	if value, err = create(); err != nil {
		return nil, fmt.Errorf("make secret %s: %w", name, err)
	}
	_, err = v.Pool.Exec(ctx, `
		INSERT INTO auth.secrets (name, sealed)
		VALUES ($1, $2)
		ON CONFLICT (name) DO NOTHING`, name, v.Keys.Seal(vaultPurpose, name, value))
	if err != nil {
		return nil, fmt.Errorf("keep secret %s: %w", name, err)
	}
	value, found, err = v.get(ctx, name)
	if err == nil && !found {
		return nil, fmt.Errorf("secret %s is gone again", name)
	}
	return value, err
}

func (v Vault) get(ctx context.Context, name string) (value []byte, found bool, err error) {
	var sealed []byte
	err = v.Pool.QueryRow(ctx, `
		SELECT sealed
		FROM auth.secrets
		WHERE name = $1`, name).Scan(&sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read secret %s: %w", name, err)
	}
	if value, err = v.Keys.Open(vaultPurpose, name, sealed); err != nil {
		return nil, false, fmt.Errorf("open secret %s: %w", name, err)
	}
	return value, true, nil
}

// Update replaces the value of a secret that exists. Of processes that do so at
// once, each changes what the one before it left.
func (v Vault) Update(ctx context.Context, name string, change func(value []byte) ([]byte, error)) error {
	for {
		var sealed []byte
		err := v.Pool.QueryRow(ctx, `
			SELECT sealed
			FROM auth.secrets
			WHERE name = $1`, name).Scan(&sealed)
		if err != nil {
			return fmt.Errorf("read secret %s: %w", name, err)
		}
		value, err := v.Keys.Open(vaultPurpose, name, sealed)
		if err != nil {
			return fmt.Errorf("open secret %s: %w", name, err)
		}
		if value, err = change(value); err != nil {
			return fmt.Errorf("change secret %s: %w", name, err)
		}
		tag, err := v.Pool.Exec(ctx, `
			UPDATE auth.secrets
			SET sealed = $2
			WHERE name = $1 AND sealed = $3`, name, v.Keys.Seal(vaultPurpose, name, value), sealed)
		if err != nil || tag.RowsAffected() == 1 {
			return err
		}
	}
}

// Rotate seals every secret under the current key that is still sealed under an
// older one, and returns how many there were. After it, and once no process uses
// an older file, the older keys can be taken out of the file. It may be stopped
// and run again at any moment.
func (v Vault) Rotate(ctx context.Context) (int, error) {
	rows, err := v.Pool.Query(ctx, `
		SELECT name, sealed
		FROM auth.secrets
		ORDER BY name`)
	if err != nil {
		return 0, fmt.Errorf("rotate secrets: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[storedSecret])
	if err != nil {
		return 0, fmt.Errorf("rotate secrets: %w", err)
	}
	n := 0
	for _, s := range all {
		changed, err := v.reseal(ctx, s)
		if err != nil {
			return n, fmt.Errorf("rotate secret %s: %w", s.Name, err)
		}
		if changed {
			n++
		}
	}
	return n, nil
}

type storedSecret struct {
	Name   string
	Sealed []byte
}

// reseal leaves a row alone that another process sealed anew in the meantime.
func (v Vault) reseal(ctx context.Context, s storedSecret) (bool, error) {
	if by, err := sealedBy(s.Sealed); err != nil || by == v.Keys.reload().current {
		return false, err
	}
	value, err := v.Keys.Open(vaultPurpose, s.Name, s.Sealed)
	if err != nil {
		return false, err
	}
	tag, err := v.Pool.Exec(ctx, `
		UPDATE auth.secrets
		SET sealed = $2
		WHERE name = $1 AND sealed = $3`, s.Name, v.Keys.Seal(vaultPurpose, s.Name, value), s.Sealed)
	return tag.RowsAffected() == 1, err
}
