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

// Agents is the view of every agent as it stands, also of those that wait for
// their operator.
var Agents = Projection{
	Name:    "agents",
	Version: 2,
	Tables: `
		CREATE TABLE agent (
			agent_key   text COLLATE "C" PRIMARY KEY,
			agent_id    text UNIQUE, -- null until it is ready
			wallet      text NOT NULL,
			name        text NOT NULL,
			description text NOT NULL DEFAULT '',
			tagline     text NOT NULL DEFAULT '',
			operator    text COLLATE "C" NOT NULL,
			state       text NOT NULL,
			approval_id text NOT NULL DEFAULT '', -- of the question whether there shall be such an agent
			roles       text[] NOT NULL DEFAULT '{}',
			since       timestamptz NOT NULL
		);
		CREATE INDEX agent_operator ON agent (operator, since, agent_key);`,
	Apply: applyAgents,
}

// The states of an agent.
const (
	AgentWaits  = "awaiting-approval"
	AgentReady  = "ready"
	AgentFailed = "failed" // its operator said no
)

func applyAgents(b *pgx.Batch, e eventstore.Recorded) {
	switch event := e.Event.(type) {
	case domain.AgentProposed:
		b.Queue(`
			INSERT INTO agent (agent_key, wallet, name, description, tagline, operator, state, approval_id, since)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			event.AgentKey, event.Wallet, event.Name, event.Description, event.Tagline, event.Operator, AgentWaits, event.ApprovalID, e.At)
	case domain.AgentRegistered:
		b.Queue(`
			INSERT INTO agent (agent_key, agent_id, wallet, name, operator, state, since)
			VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (agent_key) DO UPDATE
			SET agent_id = excluded.agent_id, state = excluded.state`,
			event.AgentKey, event.AgentID, event.Wallet, event.Name, event.Apply(domain.Agent{}).Operator, AgentReady, e.At)
	case domain.AgentRolesSet:
		b.Queue(`
			UPDATE agent
			SET roles = $2
			WHERE agent_key = $1`, e.Stream.ID(), event.Roles)
	case domain.ApprovalDecided:
		if event.Kind == domain.ApprovalOfAgent && event.Outcome == domain.Refused {
			b.Queue(`
				UPDATE agent
				SET state = $2
				WHERE agent_key = $1`, event.AgentKey, AgentFailed)
		}
	}
}

// An Agent is one row of the agents view. Name, description and tagline are
// written by others.
type Agent struct {
	AgentKey    domain.AgentKey
	AgentID     domain.AgentID // "" until it is ready
	Wallet      domain.Address
	Name        string
	Description string
	Tagline     string
	Operator    string
	State       string
	ApprovalID  domain.ApprovalID // "" for an agent that needed no question
	Roles       []string
	Since       time.Time
}

const selectAgents = `
	SELECT agent_key, coalesce(agent_id, ''), wallet, name, description, tagline, operator, state, approval_id, roles, since
	FROM agent`

// GetAgent returns the agent with a key that is ready, or false.
func GetAgent(ctx context.Context, db *pgxpool.Pool, key domain.AgentKey) (Agent, bool, error) {
	a, found, err := AnyAgent(ctx, db, key)
	return a, found && a.State == AgentReady, err
}

// AnyAgent returns the agent with a key in whatever state, or false.
func AnyAgent(ctx context.Context, db *pgxpool.Pool, key domain.AgentKey) (Agent, bool, error) {
	rows, err := db.Query(ctx, selectAgents+`
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

// AgentsOf returns an operator's agents, oldest first, at most 200.
func AgentsOf(ctx context.Context, db *pgxpool.Pool, operator string) ([]Agent, error) {
	rows, err := db.Query(ctx, selectAgents+`
		WHERE operator = $1
		ORDER BY since, agent_key
		LIMIT 200`, operator)
	if err != nil {
		return nil, fmt.Errorf("list the agents of %s: %w", operator, err)
	}
	agents, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Agent])
	if err != nil {
		return nil, fmt.Errorf("list the agents of %s: %w", operator, err)
	}
	return agents, nil
}
