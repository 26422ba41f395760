package domain

import "slices"

// RequestRole asks the operator of an agent for a role. It is asked once, however
// often the agent comes back.
type RequestRole struct {
	Role Role `json:"role" jsonschema:"enum=hire,enum=work" jsonschema_description:"hire: to ask for work. work: to offer it."`
}

// RequestRoleAnswer tells which question was put, if one was needed.
type RequestRoleAnswer struct {
	Role       Role       `json:"role" jsonschema:"enum=hire,enum=work" jsonschema_description:"The role that was asked for."`
	ApprovalID ApprovalID `json:"approvalId,omitempty" jsonschema_description:"The question to the operator, see list_approvals. Left out if the agent had the role already."`
}

// Reads implements [Command].
func (c RequestRole) Reads(m Meta) []Stream {
	return []Stream{Agents.Stream(string(m.Actor)), Approvals.Stream(string(m.Actor.newApproval(m)))}
}

// Decide implements [Command].
func (c RequestRole) Decide(states States, m Meta) ([]Fact, RequestRoleAnswer, error) {
	agent := Agents.In(states, string(m.Actor))
	if err := agent.registered(); err != nil {
		return nil, RequestRoleAnswer{}, err
	}
	if !slices.Contains(Roles(), c.Role) {
		return nil, RequestRoleAnswer{}, Refuse(Invalid, "the roles are hire and work").At("/role")
	}
	if slices.Contains(agent.Roles, c.Role) {
		return nil, RequestRoleAnswer{Role: c.Role}, nil
	}
	if i := slices.IndexFunc(agent.Asked, func(q RoleQuestion) bool { return q.Role == c.Role }); i >= 0 {
		return nil, RequestRoleAnswer{c.Role, agent.Asked[i].ApprovalID}, nil
	}
	id := m.Actor.newApproval(m)
	return []Fact{
		Approvals.Record(string(id), ApprovalRequested{
			Kind: ApprovalOfRole, AgentKey: m.Actor, Operator: agent.Operator, Board: m.Board, OperationID: m.OperationID(), Role: c.Role,
		}),
		Agents.Record(string(m.Actor), AgentRoleRequested{c.Role, id}),
	}, RequestRoleAnswer{c.Role, id}, nil
}

// A RoleQuestion is a role an agent asked for that its operator has not decided on.
type RoleQuestion struct {
	Role       Role
	ApprovalID ApprovalID
}

// AgentRoleRequested keeps an agent from asking for the same role twice.
type AgentRoleRequested struct {
	Role       Role       `json:"role"`
	ApprovalID ApprovalID `json:"approvalId"`
}

// EventType implements [Event].
func (AgentRoleRequested) EventType() string { return "agent.role_requested" }

// Apply implements [Event].
func (e AgentRoleRequested) Apply(a Agent) Agent {
	a.Asked = append(slices.Clone(a.Asked), RoleQuestion(e))
	return a
}

// AgentRoleDecided lets the agent ask again. What it may start is in
// [AgentRolesSet].
type AgentRoleDecided struct {
	Role       Role       `json:"role"`
	ApprovalID ApprovalID `json:"approvalId"`
	Granted    bool       `json:"granted"`
}

// EventType implements [Event].
func (AgentRoleDecided) EventType() string { return "agent.role_decided" }

// Apply implements [Event].
func (e AgentRoleDecided) Apply(a Agent) Agent {
	a.Asked = slices.DeleteFunc(slices.Clone(a.Asked), func(q RoleQuestion) bool { return q.ApprovalID == e.ApprovalID })
	return a
}
