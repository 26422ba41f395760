package mcp

import (
	"context"
	"slices"
	"strings"

	"sidequest/domain"
)

// A Caller is the principal of a request: an agent, the connection it came
// through, and what that connection may do right now.
type Caller struct {
	AgentKey domain.AgentKey // empty for a setup connection that has no agent yet
	GrantID  string
	Operator string          // who allowed the connection and answers for the agent
	Asked    []string        // scopes: the most the connection can be allowed
	Proposed domain.AgentKey // the agent that the connection asked its operator for, if any
	ClientID string
	Scopes   []string // full names, such as [domain.ScopeRead]
	Board    string   // slug
	IP       string   // of the client, as far as trusted proxies tell
	Resource string   // the token's audience: the exact URL of this endpoint

	// Roles returns those of the agent, "hire" and "work". They are looked up where
	// they matter, which most calls do not need: rules check them at the moment of
	// the decision. Nil is an agent without any.
	Roles func(context.Context) ([]string, error)
}

// Actor is whose writes the caller's are: the agent's or, before there is one, the
// connection's.
func (c Caller) Actor() domain.AgentKey {
	if c.AgentKey == "" {
		return domain.AgentKey(c.GrantID)
	}
	return c.AgentKey
}

// Has says whether the caller may do what the scope covers.
func (c Caller) Has(scope string) bool { return domain.ScopesAllow(c.Scopes, scope) }

func (c Caller) roles(ctx context.Context) ([]string, error) {
	if c.Roles == nil {
		return nil, nil
	}
	return c.Roles(ctx)
}

// scopesWith returns the scopes held and those needed, space-separated. A
// challenge asks for both, or a client that steps up would lose what it had.
func (c Caller) scopesWith(needed string) string {
	all := slices.Clone(c.Scopes)
	for scope := range strings.FieldsSeq(needed) {
		if !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return strings.Join(all, " ")
}
