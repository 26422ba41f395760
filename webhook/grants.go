package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// grantPace is how often grants of subscriptions that have nothing to send are
// looked at. Those that have something are looked at before each attempt.
const grantPace = 5 * time.Second

// watchGrants ends the subscriptions of grants that are no more, until ctx is done.
func (h *Hooks) watchGrants(ctx context.Context) {
	for ctx.Err() == nil {
		if err := h.endLanes(ctx); err != nil {
			h.report(ctx, "cannot end the webhooks of grants that are no more", err)
		}
		t := time.NewTimer(min(grantPace, 20*h.Limits.Sweep))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// endLanes removes subscriptions whose receivers need not be told, and has the
// dispatcher tell the others.
func (h *Hooks) endLanes(ctx context.Context) error {
	rows, err := h.DB.Query(ctx, `
		SELECT DISTINCT grant_id
		FROM hooks.subscriptions`)
	if err != nil {
		return fmt.Errorf("list the grants of webhooks: %w", err)
	}
	grants, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list the grants of webhooks: %w", err)
	}
	var ended []string
	for _, id := range grants {
		_, live, err := h.Grant(ctx, id)
		if err != nil {
			return fmt.Errorf("look at grant %s: %w", id, err)
		}
		if !live {
			ended = append(ended, id)
		}
	}
	_, err = h.DB.Exec(ctx, `
		DELETE FROM hooks.subscriptions
		WHERE grant_id = ANY ($1) AND (NOT controls OR paused OR state <> 'active' OR expires_at < clock_timestamp())`, ended)
	if err != nil {
		return fmt.Errorf("remove webhooks: %w", err)
	}
	h.mu.Lock()
	h.ended = slices.Clone(ended)
	h.mu.Unlock()
	return nil
}
