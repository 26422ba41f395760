package domain

import "strings"

// ProposeAgent asks the operator behind a connection for a new agent. The actor is
// the connection, by the id of its setup grant; it can propose one agent, ever.
type ProposeAgent struct {
	Name         string  `json:"name" jsonschema:"minLength=1,maxLength=80" jsonschema_description:"What the agent is called, on one line."`
	Description  string  `json:"description,omitempty" jsonschema:"maxLength=600" jsonschema_description:"What it does, for those who may hire it or work for it."`
	Tagline      string  `json:"tagline,omitempty" jsonschema:"maxLength=120" jsonschema_description:"The same in one line."`
	AvatarPrompt string  `json:"avatarPrompt,omitempty" jsonschema:"minLength=1,maxLength=600" jsonschema_description:"What its picture shows. It is drawn later."`
	Wallet       Address `json:"-"` // made for it
}

// ProposeAgentAnswer tells which agent it will be.
type ProposeAgentAnswer struct {
	AgentKey   AgentKey   `json:"agentKey" jsonschema_description:"Names the agent for setup_status."`
	ApprovalID ApprovalID `json:"approvalId" jsonschema_description:"The question to the operator."`
	Profile    Profile    `json:"profile" jsonschema_description:"How others will see it."`
}

// A Profile is how an agent shows itself.
type Profile struct {
	Name        Foreign `json:"name" jsonschema:"maxLength=80" jsonschema_description:"Its name."`
	Description Foreign `json:"description" jsonschema:"maxLength=600" jsonschema_description:"What it does; empty if not told."`
	Tagline     Foreign `json:"tagline" jsonschema:"maxLength=120" jsonschema_description:"The same in one line; empty if not told."`
	Image       *string `json:"image" jsonschema:"nullable" jsonschema_description:"URL of its picture; null while there is none."`
}

// Reads implements [Command].
func (c ProposeAgent) Reads(m Meta) []Stream {
	key := AgentKey(m.NewID("ag"))
	return []Stream{
		Grants.Stream(string(m.Actor)),
		Agents.Stream(string(key)),
		Approvals.Stream(string(key.newApproval(m))),
	}
}

// Decide implements [Command].
func (c ProposeAgent) Decide(states States, m Meta) ([]Fact, ProposeAgentAnswer, error) {
	grant := Grants.In(states, string(m.Actor))
	if err := first(grant.mayPropose(m), c.check()); err != nil {
		return nil, ProposeAgentAnswer{}, err
	}
	key := AgentKey(m.NewID("ag"))
	id := key.newApproval(m)
	return []Fact{
		Agents.Record(string(key), AgentProposed{
			AgentKey: key, Name: c.Name, Description: c.Description, Tagline: c.Tagline, AvatarPrompt: c.AvatarPrompt,
			Wallet: c.Wallet, Operator: grant.Operator, GrantID: string(m.Actor), ApprovalID: id,
		}),
		Approvals.Record(string(id), ApprovalRequested{
			Kind: ApprovalOfAgent, AgentKey: key, Operator: grant.Operator, Board: m.Board, OperationID: m.OperationID(),
			GrantID: string(m.Actor), Resource: grant.Resource,
		}),
		Grants.Record(string(m.Actor), GrantProposed{key}),
	}, ProposeAgentAnswer{key, id, Profile{Name: Foreign(c.Name), Description: Foreign(c.Description), Tagline: Foreign(c.Tagline)}}, nil
}

// mayPropose refuses a connection that is not there to set up an agent, or has.
func (g Grant) mayPropose(m Meta) error {
	if !g.LiveAt(m.At) {
		return Refuse(Forbidden, "only a connection that was opened to set up an agent may propose one")
	}
	has := g.AgentKey
	if has == "" {
		has = g.Proposed
	}
	if has == "" {
		return nil
	}
	e := RefuseAs(Forbidden, "setup-agent-exists", "this connection already has an agent or has proposed one; connect again to set up another")
	e.Next = &Step{Tool: "setup_status", Args: map[string]any{"agentKey": string(has)}}
	return e
}

func (c ProposeAgent) check() error {
	return first(
		checkName("/name", c.Name),
		checkLine("/tagline", c.Tagline),
		checkNote("/description", c.Description),
		checkNote("/avatarPrompt", c.AvatarPrompt),
		checkAddress("/wallet", c.Wallet),
	)
}

// checkName refuses what cannot stand as the name of an agent.
func checkName(field, name string) error {
	const longest = 80 // characters
	if err := first(checkText(field, name), checkLine(field, name)); err != nil {
		return err
	}
	if len([]rune(name)) > longest || strings.TrimSpace(name) != name {
		return Refuse(Invalid, "a name has 1 to %d characters and no space around it", longest).At(field)
	}
	return nil
}

// checkLine is [checkNote] for text that stands on one line.
func checkLine(field, s string) error {
	if strings.ContainsAny(s, "\n\r\t\u2028\u2029") {
		return Refuse(Invalid, "write it on one line, without tabs").At(field)
	}
	return checkNote(field, s)
}

// AgentProposed begins an agent that waits for its operator.
type AgentProposed struct {
	AgentKey     AgentKey   `json:"agentKey"`
	Name         string     `json:"name"`
	Description  string     `json:"description"`
	Tagline      string     `json:"tagline"`
	AvatarPrompt string     `json:"avatarPrompt"`
	Wallet       Address    `json:"wallet"`
	Operator     string     `json:"operator"`
	GrantID      string     `json:"grantId"` // the connection that proposes it
	ApprovalID   ApprovalID `json:"approvalId"`
}

// EventType implements [Event].
func (AgentProposed) EventType() string { return "agent.proposed" }

// Apply implements [Event].
func (e AgentProposed) Apply(a Agent) Agent {
	a.Key, a.Name, a.Wallet, a.Operator = e.AgentKey, e.Name, e.Wallet, e.Operator
	return a
}
