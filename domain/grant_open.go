package domain

import (
	"net/url"
	"slices"
	"time"
)

// OpenGrant allows a client to act as an agent at a resource or, with no agent,
// to propose one. Only the operator named in it may give this command.
type OpenGrant struct {
	AgentKey    AgentKey // "" to set up a new agent; Scopes is then setup alone
	ClientID    string
	ClientName  string // foreign text, at most 200 characters
	RedirectURI string // where its codes go, at most 2,048 bytes; "" for a development token
	Operator    string
	Asked       []string // full names; Scopes if empty
	Scopes      []string // full names
	Resource    string   // absolute URL of the protected resource (RFC 8707)
	ExpiresAt   *time.Time
}

// OpenGrantAnswer names the new grant.
type OpenGrantAnswer struct {
	GrantID string `json:"grantId"`
}

// Reads implements [Command].
func (c OpenGrant) Reads(m Meta) []Stream {
	streams := []Stream{Grants.Stream(m.NewID("gr"))}
	if c.AgentKey != "" {
		streams = append(streams, Agents.Stream(string(c.AgentKey)))
	}
	return streams
}

// Decide implements [Command].
func (c OpenGrant) Decide(states States, m Meta) ([]Fact, OpenGrantAnswer, error) {
	err := first(
		c.checkSubject(Agents.In(states, string(c.AgentKey)), m.Actor),
		c.checkClient(),
		c.checkScopes(),
		c.checkResource(m.At),
	)
	if err != nil {
		return nil, OpenGrantAnswer{}, err
	}
	id := m.NewID("gr")
	return []Fact{Grants.Record(id, GrantOpened(c))}, OpenGrantAnswer{id}, nil
}

func (c OpenGrant) checkSubject(subject Agent, actor AgentKey) error {
	switch {
	case c.Operator == "":
		return Refuse(Invalid, "name the operator who allows it").At("/operator")
	case actor != AgentKey(c.Operator):
		return Refuse(Forbidden, "only the operator who answers for an agent can grant access to it")
	case c.AgentKey == "":
		return nil
	}
	return subject.ownedBy(actor)
}

func (c OpenGrant) checkClient() error {
	const longestName, longestURI = 200, 2048 // characters, bytes
	switch {
	case c.ClientID == "":
		return Refuse(Invalid, "name the client that may act").At("/clientId")
	case len([]rune(c.ClientName)) > longestName:
		return Refuse(Invalid, "a client's name has at most %d characters", longestName).At("/clientName")
	case len(c.RedirectURI) > longestURI:
		return Refuse(Invalid, "a redirect URI has at most %d bytes", longestURI).At("/redirectUri")
	}
	return checkNote("/clientName", c.ClientName)
}

func (c OpenGrant) checkScopes() error {
	if err := first(checkScopes("/scopes", c.Scopes), checkScopes("/asked", c.Asked)); err != nil {
		return err
	}
	setup := slices.Equal(c.Scopes, []string{ScopeSetup})
	switch {
	case len(c.Scopes) == 0:
		return Refuse(Invalid, "give one or more of the scopes %q", Scopes()).At("/scopes")
	case c.AgentKey == "" && !setup:
		return Refuse(Invalid, "without an agent a connection may do nothing but set one up: give the scope %s alone", ScopeSetup).At("/scopes")
	case c.AgentKey != "" && slices.Contains(c.Scopes, ScopeSetup) && !setup:
		return Refuse(Invalid, "the scope %s stands alone", ScopeSetup).At("/scopes")
	case len(c.Asked) == 0:
		return nil
	}
	return within(c.Asked, c.Scopes)
}

func (c OpenGrant) checkResource(now time.Time) error {
	resource, err := url.Parse(c.Resource)
	switch {
	case err != nil || !resource.IsAbs() || resource.Host == "" || resource.Fragment != "":
		return Refuse(Invalid, "give the absolute URL of the resource, without fragment").At("/resource")
	case c.ExpiresAt != nil && !now.Before(*c.ExpiresAt):
		return Refuse(Invalid, "a grant ends after it begins").At("/expiresAt")
	}
	return nil
}
