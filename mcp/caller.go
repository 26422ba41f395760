package mcp

import (
	"slices"
	"strings"

	"sidequest/domain"
)

// A Caller is the principal of a request: an agent, the connection it came
// through, and what that connection may do right now.
type Caller struct {
	AgentKey domain.AgentKey // empty for a setup connection that has no agent yet
	AgentID  string          // decimal
	Wallet   string          // EIP-55
	Name     string
	GrantID  string
	ClientID string
	Scopes   []string // full names, such as [domain.ScopeRead]
	Roles    []string // "hire", "work"
	Board    string   // slug
	IP       string   // of the client, as far as trusted proxies tell
	Resource string   // the token's audience: the exact URL of this endpoint
}

// Has says whether the caller may do what the scope covers.
func (c Caller) Has(scope string) bool { return domain.ScopesAllow(c.Scopes, scope) }

// HasRole says whether the caller's agent holds the role "hire" or "work".
func (c Caller) HasRole(role string) bool { return slices.Contains(c.Roles, role) }

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
