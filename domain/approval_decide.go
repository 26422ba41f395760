package domain

import "slices"

// DecideApproval is an operator's answer to a question. Give the command on the
// board of the approval.
type DecideApproval struct {
	ApprovalID ApprovalID
	Outcome    string   // [Approved] or [Refused]
	Roles      []Role   // of a new agent: what it may start
	Grants     []string // for a new agent: at most 100 of the operator's setup grants, which become the agent's where that is right
}

// DecideApprovalAnswer tells what came of it.
type DecideApprovalAnswer struct {
	ApprovalID ApprovalID `json:"approvalId"`
	Outcome    string     `json:"outcome"`
	AgentKey   AgentKey   `json:"agentKey"`
}

// Reads implements [Command].
func (c DecideApproval) Reads(Meta) []Stream {
	streams := []Stream{
		Approvals.Stream(string(c.ApprovalID)),
		Agents.Stream(string(c.ApprovalID.Agent())),
		Registries.Stream(registryID),
	}
	return append(streams, grantStreams(c.Grants)...)
}

// Decide implements [Command]. The same answer again records nothing.
func (c DecideApproval) Decide(states States, m Meta) ([]Fact, DecideApprovalAnswer, error) {
	a := Approvals.In(states, string(c.ApprovalID))
	if err := c.check(a, m); err != nil {
		return nil, DecideApprovalAnswer{}, err
	}
	answer := DecideApprovalAnswer{c.ApprovalID, c.Outcome, a.AgentKey}
	if a.Outcome != "" {
		return nil, answer, nil
	}
	facts := []Fact{Approvals.Record(string(c.ApprovalID), a.decided(c.Outcome))}
	switch a.Kind {
	case ApprovalOfRole:
		return append(facts, c.decideRole(a, Agents.In(states, string(a.AgentKey)))...), answer, nil
	default:
		return append(facts, c.decideAgent(a, states, m)...), answer, nil
	}
}

func (c DecideApproval) check(a Approval, m Meta) error {
	_, known := canonicalRoles(c.Roles)
	switch {
	case a.Kind == "" || m.Actor != AgentKey(a.Operator):
		return Refuse(NotFound, "there is no such question for you").At("/approvalId")
	case m.Board != a.Board:
		return Refuse(Invalid, "answer on the board on which it was asked").At("/approvalId")
	case c.Outcome != Approved && c.Outcome != Refused:
		return Refuse(Invalid, "the outcome is %s or %s", Approved, Refused).At("/outcome")
	case !known:
		return Refuse(Invalid, "the roles are hire and work").At("/roles")
	case a.Outcome != "" && a.Outcome != c.Outcome:
		return RefuseAs(Conflict, "already-decided", "this question has been answered: %s", a.Outcome).At("/approvalId")
	}
	return checkGrants(c.Grants)
}

func (c DecideApproval) decideRole(a Approval, agent Agent) []Fact {
	granted := c.Outcome == Approved
	facts := []Fact{Agents.Record(string(a.AgentKey), AgentRoleDecided{Role: a.Role, ApprovalID: c.ApprovalID, Granted: granted})}
	if granted && !slices.Contains(agent.Roles, a.Role) {
		roles, _ := canonicalRoles(append(slices.Clone(agent.Roles), a.Role))
		facts = append(facts, Agents.Record(string(a.AgentKey), AgentRolesSet{roles}))
	}
	return facts
}

// decideAgent registers the proposed agent. Every connection of the operator that
// waits for an agent at the same resource becomes this agent's.
func (c DecideApproval) decideAgent(a Approval, states States, m Meta) []Fact {
	if c.Outcome != Approved {
		return nil
	}
	key := string(a.AgentKey)
	agent, id := Agents.In(states, key), Registries.In(states, registryID).next()
	roles, _ := canonicalRoles(c.Roles)
	facts := []Fact{
		Registries.Record(registryID, AgentNumbered{AgentKey: a.AgentKey, AgentID: id, Wallet: agent.Wallet, Name: agent.Name}),
		Agents.Record(key, AgentRegistered{
			AgentKey: a.AgentKey, AgentID: id, Name: agent.Name, Wallet: agent.Wallet, Operator: a.Operator,
		}),
		Agents.Record(key, AgentRolesSet{roles}),
	}
	return append(facts, bindWaiting(states, m, c.Grants, a.AgentKey, a.Resource, roles)...)
}
