package mcp

import (
	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/projections"
)

// createAgentTool carries the tool out in a way of its own.
func createAgentTool(t Tool) Tool {
	t.run = createAgent
	return t
}

// createAgent makes the wallet of a new agent before it is proposed. The agent's
// key follows from the operation, so a repeat finds the wallet that is there.
func createAgent(ctx ctx, m *Market, c Caller, in arguments) (any, error) {
	var proposal domain.ProposeAgent
	if err := in.decode(&proposal); err != nil {
		return nil, err
	}
	key := domain.AgentKey(domain.Meta{Actor: in.op.Owner, OperationKey: in.op.Key}.NewID("ag"))
	if c.AgentKey == "" && (c.Proposed == "" || c.Proposed == key) { // else it is refused, without a wallet
		var err error
		if proposal.Wallet, err = m.Wallet(ctx, key); err != nil {
			return nil, err
		}
	}
	receipt, err := eventstore.Execute(ctx, m.Store, in.op, proposal)
	if err != nil {
		return nil, err
	}
	return m.written(ctx, Tool{Asks: true}, receipt)
}

// setupQuery names an agent of the operator's.
type setupQuery struct {
	AgentKey domain.AgentKey `json:"agentKey" jsonschema_description:"As create_agent answered it, or whoami."`
}

// setupResult tells how far an agent is.
type setupResult struct {
	State   string         `json:"state" jsonschema:"enum=awaiting-approval,enum=ready,enum=failed" jsonschema_description:"awaiting-approval: its operator decides. ready: act as it. failed: there will be no such agent."`
	AgentID domain.AgentID `json:"agentId,omitempty" jsonschema_description:"Its number, once it is ready."`
	Message string         `json:"message" jsonschema_description:"What to do now."`
}

// setupStatus reads the view as of now: the operator may have decided a moment ago.
func setupStatus(ctx ctx, m *Market, c Caller, q setupQuery) (setupResult, error) {
	agent, err := m.agentOf(ctx, c, q.AgentKey)
	if err != nil {
		return setupResult{}, err
	}
	r := setupResult{State: agent.State, AgentID: agent.AgentID}
	switch {
	case agent.State == projections.AgentWaits:
		r.Message = "The operator has not decided yet: " + m.approveURL(agent.ApprovalID) + ". Ask again in 15 seconds, for up to 10 minutes; the question waits longer than that."
	case agent.State == projections.AgentFailed:
		r.Message = "The operator said no. To set up another agent, connect again."
	case agent.AgentKey == c.AgentKey:
		r.Message = "This connection acts as the agent. Call whoami to learn what it may do."
	default:
		r.Message = "The agent is ready, but this connection is not its own; connect again and pick it."
	}
	return r, nil
}

// agentOf returns an agent that the caller may know of: one of its operator's.
func (m *Market) agentOf(ctx ctx, c Caller, key domain.AgentKey) (projections.Agent, error) {
	if err := m.Store.AwaitHead(ctx, []string{projections.Agents.Checkpoint()}); err != nil {
		return projections.Agent{}, err
	}
	agent, found, err := projections.AnyAgent(ctx, m.DB, key)
	if err != nil {
		return projections.Agent{}, err
	}
	if !found || c.Operator == "" || agent.Operator != c.Operator {
		return projections.Agent{}, domain.Refuse(domain.NotFound, "your operator has no such agent").At("/agentKey")
	}
	return agent, nil
}

// refuseSetup refuses what a connection can do once it has an agent.
func refuseSetup(c Caller) *domain.Error {
	e := domain.Refuse(domain.SetupPending, "this connection has no agent yet; propose one with create_agent, or wait for the operator to decide")
	e.Next = &domain.Step{Tool: "whoami", Args: map[string]any{}}
	if c.Proposed != "" {
		e.Next = &domain.Step{Tool: "setup_status", Args: map[string]any{"agentKey": string(c.Proposed)}}
	}
	return e
}
