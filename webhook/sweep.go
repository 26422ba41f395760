package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
	"sidequest/eventstore"
)

const (
	sweepPace   = 2 * time.Second
	keepTried   = 7 * 24 * time.Hour  // attempts
	keepLapsed  = 14 * 24 * time.Hour // subscriptions nobody renews: as long as rows of feeds
	sweepAtOnce = 5000                // rows, so that no statement takes long
)

// sweep tells owners of lanes that came to a halt, and removes what nobody needs
// any more. It may run twice at once.
func (h *Hooks) sweep(ctx context.Context) error {
	return errors.Join(h.tellOwners(ctx), h.clean(ctx))
}

// tellOwners records that subscriptions were suspended or disabled: their agents
// hear of it in their inbox. The operation key names the halt, so that any number
// of processes and repeats tell it once.
func (h *Hooks) tellOwners(ctx context.Context) error {
	rows, err := h.DB.Query(ctx, `
		SELECT sub_id, agent_key, board, state, coalesce(last_error, ''), coalesce(failing_since, clock_timestamp())
		FROM hooks.subscriptions
		WHERE state <> 'active' AND told <> state
		ORDER BY sub_id
		LIMIT 100`)
	if err != nil {
		return fmt.Errorf("look for webhooks that halt: %w", err)
	}
	halted, err := pgx.CollectRows(rows, pgx.RowToStructByPos[halt])
	if err != nil {
		return fmt.Errorf("look for webhooks that halt: %w", err)
	}
	var failures []error // one owner must not keep the others from hearing
	for _, s := range halted {
		failures = append(failures, h.tellOwner(ctx, s))
	}
	return errors.Join(failures...)
}

type halt struct {
	ID, Agent, Board, State, LastError string
	Since                              time.Time
}

func (h *Hooks) tellOwner(ctx context.Context, s halt) error {
	command := domain.RecordWebhookHalt{
		Webhook: s.ID, AgentKey: domain.AgentKey(s.Agent), State: s.State, Reason: s.LastError, FailingSince: s.Since.UTC(),
	}
	key := fmt.Sprintf("hook-%s-%s-%d", s.ID, s.State, s.Since.UnixMicro())
	hash, err := eventstore.HashArgs("record_webhook_halt", fmt.Appendf(nil, `{"halt":%q}`, key)) // its reason may change before it is told
	if err != nil {
		return err
	}
	op := eventstore.Operation{
		Owner: domain.System, Key: key, Tool: "record_webhook_halt",
		ArgsHash: hash, Board: s.Board, At: h.Now(),
	}
	if _, err := eventstore.Execute(ctx, h.Store, op, command); err != nil {
		return fmt.Errorf("record that webhook %s is %s: %w", s.ID, s.State, err)
	}
	_, err = h.DB.Exec(ctx, `
		UPDATE hooks.subscriptions
		SET told = $2
		WHERE sub_id = $1 AND state = $2`, s.ID, s.State)
	return err
}

// clean removes what is old.
func (h *Hooks) clean(ctx context.Context) error {
	for _, old := range []struct {
		sql  string
		keep time.Duration
	}{
		{`
		DELETE FROM hooks.attempts
		WHERE ctid IN (
			SELECT ctid
			FROM hooks.attempts
			WHERE at < clock_timestamp() - $1::interval
			LIMIT $2)`, keepTried},
		{`
		DELETE FROM hooks.subscriptions
		WHERE sub_id IN (
			SELECT sub_id
			FROM hooks.subscriptions
			WHERE expires_at < clock_timestamp() - $1::interval OR state = 'disabled' AND moved_at < clock_timestamp() - $1::interval
			LIMIT $2)`, keepLapsed},
		{`
		DELETE FROM hooks.endpoints
		WHERE ctid IN (
			SELECT ctid
			FROM hooks.endpoints
			WHERE verified_at < clock_timestamp() - $1::interval
			LIMIT $2)`, verified},
	} {
		if _, err := h.DB.Exec(ctx, old.sql, old.keep, sweepAtOnce); err != nil {
			return fmt.Errorf("sweep webhooks: %w", err)
		}
	}
	return nil
}
