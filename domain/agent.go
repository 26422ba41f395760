package domain

import (
	"slices"
	"time"
)

// MaxOpenRequests bounds how many requests of one agent wait for a pick at once.
const MaxOpenRequests = 20

// An Agent is one participant for ever, in the stream of its [AgentKey].
//
//	(none) ──[proposed]──▶ waits ──registered──▶ registered ──roles_set, …──▶ registered
//
// The stream also carries the agent's open requests, so that their cap holds
// exactly however many writers there are, and the roles it has asked for, so that
// its operator is asked once.
type Agent struct {
	Key      AgentKey
	AgentID  AgentID // "" until registered
	Name     string
	Wallet   Address
	Operator string // who answers for it
	Roles    []Role
	Open     []OpenRequest
	Asked    []RoleQuestion
}

// An OpenRequest counts against [MaxOpenRequests] until it is settled or its
// delivery deadline comes.
type OpenRequest struct {
	RequestID RequestID
	Until     time.Time
}

// A Party is an agent as a frozen document names it.
type Party struct {
	AgentKey AgentKey `json:"agentKey"`
	AgentID  AgentID  `json:"agentId"`
	Wallet   Address  `json:"wallet"`
}

// Agents is the category of agents, by agent key.
var Agents = Category[Agent]{Name: "agent", Events: []Event[Agent]{
	AgentProposed{}, AgentRegistered{}, AgentRolesSet{}, AgentRoleRequested{}, AgentRoleDecided{}, AgentRequestOpened{}, AgentRequestSettled{},
}, SnapshotForm: 3}

// party returns the agent as documents name it.
func (a Agent) party() Party { return Party{a.Key, a.AgentID, a.Wallet} }

// openAt returns how many requests are open at a moment.
func (a Agent) openAt(now time.Time) int {
	n := 0
	for _, r := range a.Open {
		if now.Before(r.Until) {
			n++
		}
	}
	return n
}

// registered refuses a caller that no agent stands behind.
func (a Agent) registered() error {
	if a.AgentID == "" {
		return Refuse(Forbidden, "only a registered agent may do this; connect as one")
	}
	return nil
}

// ownedBy refuses everyone but the operator who answers for the agent.
func (a Agent) ownedBy(actor AgentKey) error {
	switch {
	case actor == a.Key:
		return Refuse(Forbidden, "an agent cannot change its own rights; its operator does")
	case a.AgentID == "" || actor != AgentKey(a.Operator):
		return Refuse(NotFound, "you have no such agent").At("/agentKey")
	}
	return nil
}

// mayStart refuses an agent to which its operator has not given the role.
func (a Agent) mayStart(role Role) error {
	if err := a.registered(); err != nil {
		return err
	}
	if slices.Contains(a.Roles, role) {
		return nil
	}
	e := Refuse(RoleRequired, "this agent has not been given the role %s; ask its operator for it", role)
	e.Role = string(role)
	e.Next = &Step{Tool: "request_role", Args: map[string]any{"role": string(role)}}
	return e
}

// speaksFor refuses an agent id that is not the agent's own.
func (a Agent) speaksFor(id AgentID) error {
	if id != a.AgentID {
		return Refuse(Forbidden, "give the agent id of the calling agent, or connect as the other agent").At("/agentId")
	}
	return nil
}

// AgentRegistered begins an agent.
type AgentRegistered struct {
	AgentKey AgentKey `json:"agentKey"`
	AgentID  AgentID  `json:"agentId"`
	Name     string   `json:"name"`
	Wallet   Address  `json:"wallet"`
	Operator string   `json:"operator,omitempty"` // [Developer], if left out
}

// Developer is the operator of the agents that the commands for developers make.
const Developer AgentKey = "operator:dev"

// EventType implements [Event].
func (AgentRegistered) EventType() string { return "agent.registered" }

// Apply implements [Event].
func (e AgentRegistered) Apply(a Agent) Agent {
	a.Key, a.AgentID, a.Name, a.Wallet, a.Operator = e.AgentKey, e.AgentID, e.Name, e.Wallet, e.Operator
	if a.Operator == "" {
		a.Operator = string(Developer)
	}
	return a
}

// AgentRolesSet replaces the roles of an agent.
type AgentRolesSet struct {
	Roles []Role `json:"roles"`
}

// EventType implements [Event].
func (AgentRolesSet) EventType() string { return "agent.roles_set" }

// Apply implements [Event].
func (e AgentRolesSet) Apply(a Agent) Agent {
	a.Roles = e.Roles
	return a
}

// AgentRequestOpened counts a request against the cap of its creator.
type AgentRequestOpened struct {
	RequestID        RequestID `json:"requestId"`
	OpenedAt         time.Time `json:"openedAt"`
	DeliveryDeadline time.Time `json:"deliveryDeadline"`
}

// EventType implements [Event].
func (AgentRequestOpened) EventType() string { return "agent.request_opened" }

// Apply implements [Event]. It forgets what is over by then, so the state stays
// as small as the cap.
func (e AgentRequestOpened) Apply(a Agent) Agent {
	a.Open = slices.DeleteFunc(slices.Clone(a.Open), func(r OpenRequest) bool { return !e.OpenedAt.Before(r.Until) })
	a.Open = append(a.Open, OpenRequest{e.RequestID, e.DeliveryDeadline})
	return a
}

// AgentRequestSettled stops counting a request that was picked or closed.
type AgentRequestSettled struct {
	RequestID RequestID `json:"requestId"`
}

// EventType implements [Event].
func (AgentRequestSettled) EventType() string { return "agent.request_settled" }

// Apply implements [Event].
func (e AgentRequestSettled) Apply(a Agent) Agent {
	a.Open = slices.DeleteFunc(slices.Clone(a.Open), func(r OpenRequest) bool { return r.RequestID == e.RequestID })
	return a
}

// DevelopmentAgent returns the key of the development agent with a name.
func DevelopmentAgent(name string) AgentKey {
	return AgentKey(DeriveID("ag", "dev", name))
}

// RegisterAgent brings a development agent into being under the next number, as
// the agent of whoever gives the command. Its name is all that identifies it; the
// wallet has been made for it.
type RegisterAgent struct {
	Name   string // 1–80 characters
	Wallet Address
}

// RegisterAgentAnswer tells who the new agent is.
type RegisterAgentAnswer struct {
	AgentKey AgentKey `json:"agentKey"`
	AgentID  AgentID  `json:"agentId"`
	Wallet   Address  `json:"wallet"`
}

// Reads implements [Command].
func (c RegisterAgent) Reads(Meta) []Stream {
	return []Stream{Agents.Stream(string(DevelopmentAgent(c.Name))), Registries.Stream(registryID)}
}

// Decide implements [Command].
func (c RegisterAgent) Decide(states States, m Meta) ([]Fact, RegisterAgentAnswer, error) {
	key := DevelopmentAgent(c.Name)
	if err := c.check(Agents.In(states, string(key))); err != nil {
		return nil, RegisterAgentAnswer{}, err
	}
	id := Registries.In(states, registryID).next()
	return []Fact{
		Registries.Record(registryID, AgentNumbered{AgentKey: key, AgentID: id, Wallet: c.Wallet, Name: c.Name}),
		Agents.Record(string(key), AgentRegistered{AgentKey: key, AgentID: id, Name: c.Name, Wallet: c.Wallet, Operator: string(m.Actor)}),
	}, RegisterAgentAnswer{key, id, c.Wallet}, nil
}

func (c RegisterAgent) check(a Agent) error {
	if err := first(checkName("/name", c.Name), checkAddress("/wallet", c.Wallet)); err != nil {
		return err
	}
	if a.AgentID != "" {
		return RefuseAs(Conflict, "agent-exists", "there is already an agent of this name; use it or choose another").At("/name")
	}
	return nil
}

// SetRoles says what an agent may start from now on. It is the operator's to give.
type SetRoles struct {
	AgentKey AgentKey
	Roles    []Role // none takes all roles away
}

// SetRolesAnswer tells what the agent may start now.
type SetRolesAnswer struct {
	Roles []Role `json:"roles"`
}

// Reads implements [Command].
func (c SetRoles) Reads(Meta) []Stream { return []Stream{Agents.Stream(string(c.AgentKey))} }

// Decide implements [Command]. Roles that are already so record nothing.
func (c SetRoles) Decide(states States, m Meta) ([]Fact, SetRolesAnswer, error) {
	agent := Agents.In(states, string(c.AgentKey))
	if err := agent.ownedBy(m.Actor); err != nil {
		return nil, SetRolesAnswer{}, err
	}
	roles, known := canonicalRoles(c.Roles)
	switch {
	case !known:
		return nil, SetRolesAnswer{}, Refuse(Invalid, "the roles are hire and work").At("/roles")
	case slices.Equal(roles, agent.Roles):
		return nil, SetRolesAnswer{roles}, nil
	}
	return []Fact{Agents.Record(string(c.AgentKey), AgentRolesSet{roles})}, SetRolesAnswer{roles}, nil
}
