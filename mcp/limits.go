package mcp

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/domain"
)

// Limits are how many writes are let through per span, over all transports, boards
// and processes. A repeat of an operation does not count again.
type Limits struct {
	PerAgent, PerIP int
	Span            time.Duration
}

// StandardLimits are those of the contract.
func StandardLimits() Limits { return Limits{PerAgent: 60, PerIP: 240, Span: time.Minute} }

// take counts the operation, or refuses it and says how long to wait.
func (l Limits) take(ctx context.Context, db *pgxpool.Pool, c Caller, operationID string) error {
	var wait *time.Duration
	err := db.QueryRow(ctx, `
		SELECT limits.take($1, $2, $3, $4)`,
		[]string{"agent " + string(c.Actor()), "ip " + c.IP}, []int{l.PerAgent, l.PerIP}, operationID, l.Span).Scan(&wait)
	if err != nil {
		return fmt.Errorf("count writes: %w", err)
	}
	if wait == nil {
		return nil
	}
	e := domain.Refuse(domain.RateLimited, "too many writes: at most %d per agent and %d per address in %s; wait and repeat with the same key",
		l.PerAgent, l.PerIP, l.Span)
	e.After = max(1, int(math.Ceil(wait.Seconds())))
	return e
}
