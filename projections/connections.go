package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/domain"
	"sidequest/eventstore"
)

// Connections is the view of what operators let clients do: one row a grant.
// Whether a call is allowed is never read from here.
var Connections = Projection{
	Name:    "connections",
	Version: 1,
	Tables: `
		CREATE TABLE connection (
			grant_id     text COLLATE "C" PRIMARY KEY,
			operator     text COLLATE "C" NOT NULL,
			agent_key    text COLLATE "C" NOT NULL, -- '' while it waits for an agent
			client_id    text NOT NULL,
			client_name  text NOT NULL,
			redirect_uri text NOT NULL,
			resource     text NOT NULL,
			asked        text[] NOT NULL,
			scopes       text[] NOT NULL,
			since        timestamptz NOT NULL,
			expires_at   timestamptz,
			revoked_at   timestamptz,
			revoked_for  text NOT NULL DEFAULT ''
		);
		CREATE INDEX connection_operator ON connection (operator, since);`,
	Apply: applyConnections,
}

func applyConnections(b *pgx.Batch, e eventstore.Recorded) {
	id := e.Stream.ID()
	switch event := e.Event.(type) {
	case domain.GrantOpened:
		g := event.Apply(domain.Grant{})
		b.Queue(`
			INSERT INTO connection (grant_id, operator, agent_key, client_id, client_name, redirect_uri, resource, asked, scopes, since, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
			id, g.Operator, g.AgentKey, g.ClientID, g.ClientName, g.RedirectURI, g.Resource, g.Asked, g.Scopes, e.At, g.ExpiresAt)
	case domain.GrantBound:
		b.Queue(`
			UPDATE connection
			SET agent_key = $2, scopes = $3
			WHERE grant_id = $1`, id, event.AgentKey, event.Scopes)
	case domain.GrantWidened:
		b.Queue(`
			UPDATE connection
			SET scopes = $2, asked = $3
			WHERE grant_id = $1`, id, event.Scopes, event.Asked)
	case domain.GrantNarrowed:
		b.Queue(`
			UPDATE connection
			SET scopes = $2
			WHERE grant_id = $1`, id, event.Scopes)
	case domain.GrantRevoked:
		b.Queue(`
			UPDATE connection
			SET revoked_at = $2, revoked_for = $3
			WHERE grant_id = $1`, id, e.At, event.Reason)
	}
}

// A Connection is a grant as its operator sees it. The client's name and redirect
// URI are written by others.
type Connection struct {
	GrantID     string
	AgentKey    domain.AgentKey // "" while it waits for an agent
	AgentName   string          // written by others
	ClientID    string
	ClientName  string
	RedirectURI string
	Resource    string
	Asked       []string // the most it can be widened to
	Scopes      []string
	Since       time.Time
	ExpiresAt   *time.Time
	LastUsed    *time.Time // to the minute; nil if never
}

const selectConnections = `
	SELECT c.grant_id, c.agent_key, coalesce(a.name, ''), c.client_id, c.client_name, c.redirect_uri, c.resource,
		c.asked, c.scopes, c.since, c.expires_at, u.used_at
	FROM connection AS c
	LEFT JOIN agent AS a ON a.agent_key = c.agent_key
	LEFT JOIN auth.grant_use AS u ON u.grant_id = c.grant_id`

// ConnectionOf returns a connection of an operator, also one that has ended, or
// false.
func ConnectionOf(ctx context.Context, db *pgxpool.Pool, operator, grantID string) (Connection, bool, error) {
	rows, err := db.Query(ctx, selectConnections+`
		WHERE c.grant_id = $1 AND c.operator = $2`, grantID, operator)
	if err != nil {
		return Connection{}, false, fmt.Errorf("read connection %s: %w", grantID, err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Connection])
	if errors.Is(err, pgx.ErrNoRows) {
		return Connection{}, false, nil
	}
	if err != nil {
		return Connection{}, false, fmt.Errorf("read connection %s: %w", grantID, err)
	}
	return c, true, nil
}

// ConnectionsOf returns what is connected in the name of an operator at a moment,
// newest first, at most 200.
func ConnectionsOf(ctx context.Context, db *pgxpool.Pool, operator string, now time.Time) ([]Connection, error) {
	rows, err := db.Query(ctx, selectConnections+`
		WHERE c.operator = $1 AND c.revoked_at IS NULL AND (c.expires_at IS NULL OR c.expires_at > $2)
		ORDER BY c.since DESC, c.grant_id
		LIMIT 200`, operator, now)
	if err != nil {
		return nil, fmt.Errorf("list the connections of %s: %w", operator, err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Connection])
	if err != nil {
		return nil, fmt.Errorf("list the connections of %s: %w", operator, err)
	}
	return all, nil
}
