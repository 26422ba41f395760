package domain

import "slices"

// BindWaiting gives an agent the connections of its operator that wait for one at
// a resource: what an operator who picks an agent at consent expects of those that
// were opened to set one up. One that proposed an agent of its own is left alone,
// as is all that does not wait.
type BindWaiting struct {
	AgentKey AgentKey
	Resource string
	Grants   []string // at most 100 of the operator's
}

// BindWaitingAnswer names the agent.
type BindWaitingAnswer struct {
	AgentKey AgentKey `json:"agentKey"`
}

// Reads implements [Command].
func (c BindWaiting) Reads(Meta) []Stream {
	return append(grantStreams(c.Grants), Agents.Stream(string(c.AgentKey)))
}

// Decide implements [Command].
func (c BindWaiting) Decide(states States, m Meta) ([]Fact, BindWaitingAnswer, error) {
	agent := Agents.In(states, string(c.AgentKey))
	if err := first(agent.ownedBy(m.Actor), checkGrants(c.Grants)); err != nil {
		return nil, BindWaitingAnswer{}, err
	}
	return bindWaiting(states, m, c.Grants, c.AgentKey, c.Resource, agent.Roles), BindWaitingAnswer{c.AgentKey}, nil
}

func checkGrants(ids []string) error {
	const most = 100
	if len(ids) > most {
		return Refuse(Invalid, "give at most %d connections", most).At("/grants")
	}
	return checkOnce("/grants", ids)
}

func grantStreams(ids []string) []Stream {
	var streams []Stream
	for _, id := range ids {
		streams = append(streams, Grants.Stream(id))
	}
	return streams
}

// bindWaiting binds those of the actor's grants that wait for this agent, to
// reading and to what the roles are good for.
func bindWaiting(states States, m Meta, ids []string, agent AgentKey, resource string, roles []Role) []Fact {
	scopes := []string{ScopeRead}
	for _, r := range roles {
		scopes = append(scopes, r.Scope())
	}
	var facts []Fact
	for _, id := range ids {
		g := Grants.In(states, id)
		waits := g.LiveAt(m.At) && g.AgentKey == "" && g.Resource == resource && AgentKey(g.Operator) == m.Actor
		if waits && slices.Contains([]AgentKey{"", agent}, g.Proposed) {
			facts = append(facts, Grants.Record(id, g.bind(agent, scopes)))
		}
	}
	return facts
}
