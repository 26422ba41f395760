package signin

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Forget removes what is kept here of an operator who is being erased: the name,
// the identities and all sessions. It may be repeated.
func Forget(ctx context.Context, db *pgxpool.Pool, operatorID string) error {
	_, err := db.Exec(ctx, `
		DELETE FROM signin.operators
		WHERE id = $1`, operatorID)
	if err != nil {
		return fmt.Errorf("forget the operator %s: %w", operatorID, err)
	}
	return nil
}
