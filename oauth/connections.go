package oauth

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Connection is what the records say about a live grant beside the log.
type Connection struct {
	GrantID   string
	Refreshed time.Time // when its client last got new tokens
}

// Live returns the connections of an operator whose clients have tokens, by grant.
func (s *Server) Live(ctx context.Context, operator string) ([]Connection, error) {
	grants, err := s.Grants.OfOperator(ctx, operator)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(grants))
	for i, g := range grants {
		ids[i] = g.ID
	}
	rows, err := s.DB.Query(ctx, `
		SELECT grant_id, max(rotated_at)
		FROM oauth.lines
		WHERE grant_id = ANY ($1)
		GROUP BY grant_id
		ORDER BY grant_id`, ids)
	if err != nil {
		return nil, fmt.Errorf("find when connections were refreshed: %w", err)
	}
	live, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Connection])
	if err != nil {
		return nil, fmt.Errorf("find when connections were refreshed: %w", err)
	}
	return live, nil
}
