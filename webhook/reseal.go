package webhook

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/secret"
)

// Reseal seals the secrets of all subscriptions under the current key, and returns
// how many there are. It may be stopped and run again at any moment.
func Reseal(ctx context.Context, db *pgxpool.Pool, keys *secret.Keys) (int, error) {
	rows, err := db.Query(ctx, `
		SELECT sub_id, secret, former_secret
		FROM hooks.subscriptions
		ORDER BY sub_id`)
	if err != nil {
		return 0, fmt.Errorf("reseal webhooks: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sealedSecrets])
	if err != nil {
		return 0, fmt.Errorf("reseal webhooks: %w", err)
	}
	for _, s := range all {
		if err := s.reseal(ctx, db, keys); err != nil {
			return 0, fmt.Errorf("reseal webhook %s: %w", s.ID, err)
		}
	}
	return len(all), nil
}

type sealedSecrets struct {
	ID             string
	Secret, Former []byte
}

// reseal leaves a row alone that changed in the meantime: what changed it sealed
// under the current key.
func (s sealedSecrets) reseal(ctx context.Context, db *pgxpool.Pool, keys *secret.Keys) error {
	anew := func(sealed []byte) ([]byte, error) {
		if sealed == nil {
			return nil, nil
		}
		opened, err := keys.Open(secretPurpose, s.ID, sealed)
		if err != nil {
			return nil, err
		}
		return keys.Seal(secretPurpose, s.ID, opened), nil
	}
	current, err := anew(s.Secret)
	if err != nil {
		return err
	}
	former, err := anew(s.Former)
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, `
		UPDATE hooks.subscriptions
		SET secret = $2, former_secret = $3
		WHERE sub_id = $1 AND secret = $4 AND former_secret IS NOT DISTINCT FROM $5`, s.ID, current, former, s.Secret, s.Former)
	return err
}
