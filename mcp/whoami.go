package mcp

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"sidequest/domain"
	"sidequest/projections"
)

type ctx = context.Context

// noArguments are the arguments of a tool that takes none.
type noArguments struct{}

// whoamiResult tells who the caller is.
type whoamiResult struct {
	Address domain.Address `json:"address" jsonschema_description:"The agent's wallet."`
	AgentID domain.AgentID `json:"agentId" jsonschema_description:"Your agent id, as others see it."`
	ChainID int64          `json:"chainId" jsonschema_description:"The chain this deployment settles on."`
	BoardID string         `json:"boardId" jsonschema_description:"The board this connection is for."`
	Scopes  []string       `json:"scopes" jsonschema_description:"What this connection was granted."`
	Roles   []string       `json:"roles" jsonschema_description:"What the agent can start here: its roles, as far as the scopes of this connection cover them."`

	name string // shown beside the result
}

// whoamiAnswer has fields beside the result, for hosts that show a profile.
type whoamiAnswer struct {
	OK     bool           `json:"ok" jsonschema_description:"true: here is the result."`
	ID     string         `json:"id" jsonschema:"pattern=^sq_[0-9a-f]{64}$" jsonschema_description:"Names the agent for ever, in this deployment."`
	Name   domain.Foreign `json:"name" jsonschema:"maxLength=80" jsonschema_description:"Name of the agent, as its operator wrote it."`
	Result whoamiResult   `json:"result" jsonschema_description:"Who you are here and what you may do."`
}

// setupAnswer is the answer to a connection that has no agent yet.
type setupAnswer struct {
	OK     bool      `json:"ok" jsonschema_description:"true: here is the result."`
	Result setupSelf `json:"result" jsonschema_description:"Whose agents this connection can set up."`
}

// setupSelf tells a connection without an agent where it stands.
type setupSelf struct {
	Setup    bool             `json:"setup" jsonschema_description:"true: there is no agent yet. Propose one with create_agent."`
	Operator string           `json:"operator" jsonschema_description:"Who allowed this connection."`
	BoardID  string           `json:"boardId" jsonschema_description:"The board this connection is for."`
	Proposed *domain.AgentKey `json:"proposed" jsonschema:"nullable" jsonschema_description:"The agent this connection has proposed, for setup_status; null if it has not."`
	Agents   []setupAgent     `json:"agents" jsonschema_description:"The agents the operator has, oldest first."`
}

// setupAgent is an agent of the operator's.
type setupAgent struct {
	AgentKey domain.AgentKey `json:"agentKey" jsonschema_description:"Names the agent for setup_status."`
	AgentID  *domain.AgentID `json:"agentId" jsonschema:"nullable" jsonschema_description:"Its number; null until it is ready."`
	Name     domain.Foreign  `json:"name" jsonschema:"maxLength=80" jsonschema_description:"Its name, by whoever proposed it."`
	State    string          `json:"state" jsonschema:"enum=awaiting-approval,enum=ready,enum=failed" jsonschema_description:"How far it is."`
}

// whoamiInSetup lists the agents of the operator.
func whoamiInSetup(ctx ctx, m *Market, c Caller) (any, error) {
	if err := m.Store.AwaitHead(ctx, []string{projections.Agents.Checkpoint()}); err != nil {
		return nil, err
	}
	agents, err := projections.AgentsOf(ctx, m.DB, c.Operator)
	if err != nil {
		return nil, err
	}
	self := setupSelf{Setup: true, Operator: c.Operator, BoardID: c.Board, Agents: []setupAgent{}}
	if c.Proposed != "" {
		self.Proposed = &c.Proposed
	}
	for _, a := range agents {
		item := setupAgent{AgentKey: a.AgentKey, Name: domain.Foreign(a.Name), State: a.State}
		if a.AgentID != "" {
			item.AgentID = &a.AgentID
		}
		self.Agents = append(self.Agents, item)
	}
	return setupAnswer{OK: true, Result: self}, nil
}

// whoami reads the roles anew: they are given by someone else, and whoever asks
// right after that wants to see it.
func whoami(ctx ctx, m *Market, c Caller, _ noArguments) (whoamiResult, error) {
	if err := m.Store.AwaitHead(ctx, []string{projections.Agents.Checkpoint()}); err != nil {
		return whoamiResult{}, err
	}
	agent, found, err := projections.GetAgent(ctx, m.DB, c.AgentKey)
	if err == nil && !found {
		err = fmt.Errorf("the agent %s of a live grant is not in the view", c.AgentKey)
	}
	if err != nil {
		return whoamiResult{}, err
	}
	roles := []string{}
	for _, role := range agent.Roles {
		if slices.Contains(c.Scopes, "sidequest:"+role) {
			roles = append(roles, role)
		}
	}
	return whoamiResult{
		Address: agent.Wallet, AgentID: agent.AgentID, ChainID: m.Network.ChainID,
		BoardID: c.Board, Scopes: c.Scopes, Roles: roles, name: agent.Name,
	}, nil
}

// whoamiTool puts the id and the name beside the result, and answers otherwise
// while there is no agent.
func whoamiTool(t Tool) Tool {
	answer := t.run
	return t.withFields(func(ctx ctx, m *Market, c Caller, in arguments) (any, error) {
		if c.AgentKey == "" {
			return whoamiInSetup(ctx, m, c)
		}
		a, err := answer(ctx, m, c, in)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", m.Network.ChainID, c.AgentKey))
		result := a.(readAnswered).Result.(whoamiResult)
		return whoamiAnswer{OK: true, ID: fmt.Sprintf("sq_%x", sum), Name: domain.Foreign(result.name), Result: result}, nil
	}, whoamiAnswer{}, setupAnswer{})
}
