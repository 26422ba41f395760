package projections

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/domain"
	"sidequest/eventstore"
)

// Agents is the view of every agent as it stands.
var Agents = Projection{
	Name:    "agents",
	Version: 1,
	Tables: `
		CREATE TABLE agent (
			agent_key text COLLATE "C" PRIMARY KEY,
			agent_id  text NOT NULL UNIQUE,
			wallet    text NOT NULL,
			name      text NOT NULL,
			roles     text[] NOT NULL DEFAULT '{}'
		);`,
	Apply: applyAgents,
}

func applyAgents(b *pgx.Batch, e eventstore.Recorded) {
	switch event := e.Event.(type) {
	case domain.AgentRegistered:
		b.Queue(`
			INSERT INTO agent (agent_key, agent_id, wallet, name)
			VALUES ($1, $2, $3, $4)`, event.AgentKey, event.AgentID, event.Wallet, event.Name)
	case domain.AgentRolesSet:
		b.Queue(`
			UPDATE agent
			SET roles = $2
			WHERE agent_key = $1`, e.Stream.ID(), event.Roles)
	}
}

// An Agent is one row of the agents view.
type Agent struct {
	AgentKey domain.AgentKey
	AgentID  domain.AgentID
	Wallet   domain.Address
	Name     string
	Roles    []string
}

// GetAgent returns the agent with a key, or false.
func GetAgent(ctx context.Context, db *pgxpool.Pool, key domain.AgentKey) (Agent, bool, error) {
	rows, err := db.Query(ctx, `
		SELECT agent_key, agent_id, wallet, name, roles
		FROM agent
		WHERE agent_key = $1`, key)
	if err != nil {
		return Agent{}, false, fmt.Errorf("read agent %s: %w", key, err)
	}
	a, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Agent])
	if errors.Is(err, pgx.ErrNoRows) {
		return Agent{}, false, nil
	}
	if err != nil {
		return Agent{}, false, fmt.Errorf("read agent %s: %w", key, err)
	}
	return a, true, nil
}
