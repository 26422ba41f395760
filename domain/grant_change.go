package domain

import "slices"

// GrantAnswer tells what a grant allows after a command about it.
type GrantAnswer struct {
	GrantID string   `json:"grantId"`
	Scopes  []string `json:"scopes"`
}

// BindGrant makes a setup grant the grant of an agent, as far as its client asked
// for. Only their common operator may.
type BindGrant struct {
	GrantID  string
	AgentKey AgentKey
	Scopes   []string // full names; what the client did not ask for is left out
}

// Reads implements [Command].
func (c BindGrant) Reads(Meta) []Stream {
	return []Stream{Grants.Stream(c.GrantID), Agents.Stream(string(c.AgentKey))}
}

// Decide implements [Command]. A grant that is bound to the agent already stays
// as it is.
func (c BindGrant) Decide(states States, m Meta) ([]Fact, GrantAnswer, error) {
	grant, agent := Grants.In(states, c.GrantID), Agents.In(states, string(c.AgentKey))
	if err := first(grant.heldBy(m.Actor), agent.ownedBy(m.Actor), checkScopes("/scopes", c.Scopes)); err != nil {
		return nil, GrantAnswer{}, err
	}
	switch grant.AgentKey {
	case "":
		e := grant.bind(c.AgentKey, c.Scopes)
		return []Fact{Grants.Record(c.GrantID, e)}, GrantAnswer{c.GrantID, e.Scopes}, nil
	case c.AgentKey:
		return nil, GrantAnswer{c.GrantID, grant.Scopes}, nil
	}
	return nil, GrantAnswer{}, RefuseAs(Conflict, "grant-bound", "this connection already acts as another agent").At("/grantId")
}

// bind gives the grant an agent and as much of the scopes as its client asked
// for. A client that asked for nothing but to set up an agent keeps that, and
// asks for more when it needs it.
func (g Grant) bind(agent AgentKey, scopes []string) GrantBound {
	allowed := slices.DeleteFunc(canonicalScopes(scopes), func(s string) bool { return !ScopesAllow(g.Asked, s) })
	return GrantBound{AgentKey: agent, Scopes: ofAgent(allowed)}
}

// WidenGrant lets a connection do more. Without Asked it stays within what the
// client asked for; a new consent brings what the client asks for now.
type WidenGrant struct {
	GrantID string
	Scopes  []string // full names, added to those it has
	Asked   []string // full names, added to what the client asked for before
}

// Reads implements [Command].
func (c WidenGrant) Reads(Meta) []Stream { return []Stream{Grants.Stream(c.GrantID)} }

// Decide implements [Command]. What is already so records nothing.
func (c WidenGrant) Decide(states States, m Meta) ([]Fact, GrantAnswer, error) {
	grant := Grants.In(states, c.GrantID)
	if err := first(grant.heldBy(m.Actor), checkScopes("/scopes", c.Scopes), checkScopes("/asked", c.Asked)); err != nil {
		return nil, GrantAnswer{}, err
	}
	if grant.AgentKey == "" && !slices.Equal(canonicalScopes(grant.Scopes, c.Scopes), grant.Scopes) {
		return nil, GrantAnswer{}, RefuseAs(Conflict, "no-agent", "this connection can do more once it has an agent").At("/grantId")
	}
	e := GrantWidened{Scopes: ofAgent(slices.Concat(grant.Scopes, c.Scopes)), Asked: canonicalScopes(grant.Asked, c.Asked)}
	if err := within(e.Asked, e.Scopes); err != nil {
		return nil, GrantAnswer{}, err
	}
	answer := GrantAnswer{c.GrantID, e.Scopes}
	if slices.Equal(e.Scopes, canonicalScopes(grant.Scopes)) && slices.Equal(e.Asked, canonicalScopes(grant.Asked)) {
		return nil, answer, nil
	}
	return []Fact{Grants.Record(c.GrantID, e)}, answer, nil
}

// NarrowGrant lets a connection do less. To let it do nothing, revoke it.
type NarrowGrant struct {
	GrantID string
	Scopes  []string // full names: what is left
}

// Reads implements [Command].
func (c NarrowGrant) Reads(Meta) []Stream { return []Stream{Grants.Stream(c.GrantID)} }

// Decide implements [Command]. What is already so records nothing.
func (c NarrowGrant) Decide(states States, m Meta) ([]Fact, GrantAnswer, error) {
	grant := Grants.In(states, c.GrantID)
	if err := first(grant.heldBy(m.Actor), checkScopes("/scopes", c.Scopes)); err != nil {
		return nil, GrantAnswer{}, err
	}
	left := canonicalScopes(c.Scopes)
	if len(left) == 0 || slices.ContainsFunc(left, func(s string) bool { return !ScopesAllow(grant.Scopes, s) }) {
		return nil, GrantAnswer{}, Refuse(Invalid, "leave one or more of the scopes the connection has: %q", grant.Scopes).At("/scopes")
	}
	answer := GrantAnswer{c.GrantID, left}
	if slices.Equal(left, canonicalScopes(grant.Scopes)) {
		return nil, answer, nil
	}
	return []Fact{Grants.Record(c.GrantID, GrantNarrowed{left})}, answer, nil
}

// RevokeGrant ends a grant. Its operator may, and the system on behalf of the
// client that holds it.
type RevokeGrant struct {
	GrantID string
	Reason  string // 1–200 characters
}

// RevokeGrantAnswer names the revoked grant.
type RevokeGrantAnswer struct {
	GrantID string `json:"grantId"`
}

// Reads implements [Command].
func (c RevokeGrant) Reads(Meta) []Stream { return []Stream{Grants.Stream(c.GrantID)} }

// Decide implements [Command]. Revoking twice is no error and records nothing
// (RFC 7009, section 2.2).
func (c RevokeGrant) Decide(states States, m Meta) ([]Fact, RevokeGrantAnswer, error) {
	const longest = 200 // characters
	grant := Grants.In(states, c.GrantID)
	switch {
	case !grant.Opened || m.Actor != System && m.Actor != AgentKey(grant.Operator):
		return nil, RevokeGrantAnswer{}, Refuse(NotFound, "there is no such grant").At("/grantId")
	case len([]rune(c.Reason)) > longest:
		return nil, RevokeGrantAnswer{}, Refuse(Invalid, "a reason has 1 to %d characters", longest).At("/reason")
	case grant.Revoked:
		return nil, RevokeGrantAnswer{c.GrantID}, nil
	}
	if err := checkText("/reason", c.Reason); err != nil {
		return nil, RevokeGrantAnswer{}, err
	}
	return []Fact{Grants.Record(c.GrantID, GrantRevoked{c.Reason})}, RevokeGrantAnswer{c.GrantID}, nil
}

// RecordReuse ends a grant because one of its refresh tokens came a second time:
// whoever holds its successor may have stolen it (RFC 9700, section 4.14.2).
type RecordReuse struct {
	GrantID string
}

// Reads implements [Command].
func (c RecordReuse) Reads(Meta) []Stream { return []Stream{Grants.Stream(c.GrantID)} }

// Decide implements [Command]. A grant that has ended already records nothing.
func (c RecordReuse) Decide(states States, m Meta) ([]Fact, RevokeGrantAnswer, error) {
	grant := Grants.In(states, c.GrantID)
	switch {
	case !grant.Opened || m.Actor != System:
		return nil, RevokeGrantAnswer{}, Refuse(NotFound, "there is no such grant").At("/grantId")
	case grant.Revoked:
		return nil, RevokeGrantAnswer(c), nil
	}
	return []Fact{
		Grants.Record(c.GrantID, GrantReuseDetected{}),
		Grants.Record(c.GrantID, GrantRevoked{"a refresh token was used twice"}),
	}, RevokeGrantAnswer(c), nil
}
