package domain

import (
	"net/url"
	"slices"
	"time"
)

// A Grant is what an operator allowed one client to do as one agent, at one
// resource. An access token authorises nothing unless its grant is live.
//
//	(none) ──opened──▶ live ──revoked──▶ revoked
//
// A live grant may also run out, at ExpiresAt; that is no event.
type Grant struct {
	AgentKey  AgentKey // the subject
	ClientID  string
	Operator  string
	Scopes    []string
	Resource  string
	ExpiresAt *time.Time
	Opened    bool
	Revoked   bool
}

// Grants is the category of grants.
var Grants = Category[Grant]{Name: "grant", Events: []Event[Grant]{GrantOpened{}, GrantRevoked{}}}

// LiveAt says whether the grant allows anything at a moment.
func (g Grant) LiveAt(now time.Time) bool {
	return g.Opened && !g.Revoked && (g.ExpiresAt == nil || now.Before(*g.ExpiresAt))
}

// GrantOpened begins a grant.
type GrantOpened struct {
	AgentKey  AgentKey   `json:"agentKey"`
	ClientID  string     `json:"clientId"`
	Operator  string     `json:"operator"`
	Scopes    []string   `json:"scopes"`
	Resource  string     `json:"resource"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

// EventType implements [Event].
func (GrantOpened) EventType() string { return "grant.opened" }

// Apply implements [Event].
func (e GrantOpened) Apply(Grant) Grant {
	return Grant{
		AgentKey:  e.AgentKey,
		ClientID:  e.ClientID,
		Operator:  e.Operator,
		Scopes:    e.Scopes,
		Resource:  e.Resource,
		ExpiresAt: e.ExpiresAt,
		Opened:    true,
	}
}

// GrantRevoked ends a grant for good.
type GrantRevoked struct {
	Reason string `json:"reason"`
}

// EventType implements [Event].
func (GrantRevoked) EventType() string { return "grant.revoked" }

// Apply implements [Event].
func (GrantRevoked) Apply(g Grant) Grant {
	g.Revoked = true
	return g
}

// OpenGrant allows a client to act as an agent at a resource.
type OpenGrant struct {
	AgentKey  AgentKey
	ClientID  string
	Operator  string
	Scopes    []string // full names
	Resource  string   // absolute URL of the protected resource (RFC 8707)
	ExpiresAt *time.Time
}

// OpenGrantAnswer names the new grant.
type OpenGrantAnswer struct {
	GrantID string `json:"grantId"`
}

// Reads implements [Command].
func (c OpenGrant) Reads(m Meta) []Stream {
	return []Stream{Grants.Stream(m.NewID("gr")), Agents.Stream(string(c.AgentKey))}
}

// Decide implements [Command].
func (c OpenGrant) Decide(states States, m Meta) ([]Fact, OpenGrantAnswer, error) {
	if err := c.check(Agents.In(states, string(c.AgentKey)), m); err != nil {
		return nil, OpenGrantAnswer{}, err
	}
	id := m.NewID("gr")
	return []Fact{Grants.Record(id, GrantOpened(c))}, OpenGrantAnswer{id}, nil
}

func (c OpenGrant) check(subject Agent, m Meta) error {
	resource, err := url.Parse(c.Resource)
	switch {
	case m.Actor == c.AgentKey:
		return Refuse(Forbidden, "an agent cannot grant access to itself; its operator does")
	case subject.AgentID == "":
		return Refuse(NotFound, "there is no such agent").At("/agentKey")
	case c.ClientID == "":
		return Refuse(Invalid, "name the client that may act").At("/clientId")
	case c.Operator == "":
		return Refuse(Invalid, "name the operator who allows it").At("/operator")
	case len(c.Scopes) == 0 || slices.ContainsFunc(c.Scopes, func(s string) bool { return !slices.Contains(Scopes(), s) }):
		return Refuse(Invalid, "give one or more of the scopes %q", Scopes()).At("/scopes")
	case err != nil || !resource.IsAbs() || resource.Host == "" || resource.Fragment != "":
		return Refuse(Invalid, "give the absolute URL of the resource, without fragment").At("/resource")
	case c.ExpiresAt != nil && !m.At.Before(*c.ExpiresAt):
		return Refuse(Invalid, "a grant ends after it begins").At("/expiresAt")
	}
	return nil
}

// RevokeGrant ends a grant.
type RevokeGrant struct {
	GrantID string
	Reason  string
}

// RevokeGrantAnswer names the revoked grant.
type RevokeGrantAnswer struct {
	GrantID string `json:"grantId"`
}

// Reads implements [Command].
func (c RevokeGrant) Reads(Meta) []Stream { return []Stream{Grants.Stream(c.GrantID)} }

// Decide implements [Command]. Revoking twice is no error and records nothing
// (RFC 7009, section 2.2).
func (c RevokeGrant) Decide(states States, _ Meta) ([]Fact, RevokeGrantAnswer, error) {
	grant := Grants.In(states, c.GrantID)
	switch {
	case !grant.Opened:
		return nil, RevokeGrantAnswer{}, Refuse(NotFound, "there is no such grant").At("/grantId")
	case grant.Revoked:
		return nil, RevokeGrantAnswer{c.GrantID}, nil
	}
	return []Fact{Grants.Record(c.GrantID, GrantRevoked{c.Reason})}, RevokeGrantAnswer{c.GrantID}, nil
}
