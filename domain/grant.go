package domain

import (
	"slices"
	"time"
)

// A Grant is what an operator allowed one client to do as one agent, at one
// resource. An access token authorises nothing unless its grant is live.
//
//	(none) ──opened──▶ live ──bound, widened, narrowed──▶ live ──revoked──▶ revoked
//
// A setup grant has no agent yet. It allows only to propose one, and becomes the
// grant of an agent when it is bound. A live grant may also run out, at
// ExpiresAt; that is no event.
type Grant struct {
	Operator    string
	ClientID    string
	ClientName  string // foreign text
	RedirectURI string
	Resource    string
	Asked       []string // the most it can ever allow, until its operator consents anew
	Scopes      []string // what it allows now
	AgentKey    AgentKey // the subject; "" while it is a setup grant
	Proposed    AgentKey // the agent that a setup grant asked for, "" for none
	ExpiresAt   *time.Time
	Opened      bool
	Revoked     bool
}

// Grants is the category of grants.
var Grants = Category[Grant]{Name: "grant", Events: []Event[Grant]{
	GrantOpened{}, GrantProposed{}, GrantBound{}, GrantWidened{}, GrantNarrowed{}, GrantReuseDetected{}, GrantRevoked{},
}}

// LiveAt says whether the grant allows anything at a moment.
func (g Grant) LiveAt(now time.Time) bool {
	return g.Opened && !g.Revoked && (g.ExpiresAt == nil || now.Before(*g.ExpiresAt))
}

// heldBy refuses everyone but the operator of a grant, and what cannot change any
// more. That a grant is someone else's is not told.
func (g Grant) heldBy(actor AgentKey) error {
	switch {
	case !g.Opened || actor != AgentKey(g.Operator):
		return Refuse(NotFound, "there is no such grant").At("/grantId")
	case g.Revoked:
		return RefuseAs(Conflict, "grant-revoked", "this access has been revoked; connect again").At("/grantId")
	}
	return nil
}

// within refuses scopes beyond what was asked for.
func within(asked, scopes []string) error {
	for _, s := range scopes {
		if s != ScopeSetup && !ScopesAllow(asked, s) {
			return Refuse(Invalid, "the client did not ask for the scope %s; it has to ask for it first", s).At("/scopes")
		}
	}
	return nil
}

// checkScopes refuses what is no scope of ours.
func checkScopes(field string, scopes []string) error {
	if slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(Scopes(), s) }) {
		return Refuse(Invalid, "the scopes are %q", Scopes()).At(field)
	}
	return nil
}

// canonicalScopes returns each scope once, in the order of [Scopes].
func canonicalScopes(lists ...[]string) []string {
	given := slices.Concat(lists...)
	return slices.DeleteFunc(Scopes(), func(s string) bool { return !slices.Contains(given, s) })
}

// ofAgent returns the scopes that a grant with an agent keeps of those it was
// given: setup goes where there is anything else.
func ofAgent(scopes []string) []string {
	rest := slices.DeleteFunc(canonicalScopes(scopes), func(s string) bool { return s == ScopeSetup })
	if len(rest) == 0 {
		return []string{ScopeSetup}
	}
	return rest
}

// GrantOpened begins a grant.
type GrantOpened struct {
	AgentKey    AgentKey   `json:"agentKey,omitempty"`
	ClientID    string     `json:"clientId"`
	ClientName  string     `json:"clientName,omitempty"`
	RedirectURI string     `json:"redirectUri,omitempty"`
	Operator    string     `json:"operator"`
	Asked       []string   `json:"asked,omitempty"` // Scopes, if left out
	Scopes      []string   `json:"scopes"`
	Resource    string     `json:"resource"`
	ExpiresAt   *time.Time `json:"expiresAt,omitempty"`
}

// EventType implements [Event].
func (GrantOpened) EventType() string { return "grant.opened" }

// Apply implements [Event].
func (e GrantOpened) Apply(Grant) Grant {
	g := Grant{
		AgentKey:    e.AgentKey,
		ClientID:    e.ClientID,
		ClientName:  e.ClientName,
		RedirectURI: e.RedirectURI,
		Operator:    e.Operator,
		Asked:       e.Asked,
		Scopes:      e.Scopes,
		Resource:    e.Resource,
		ExpiresAt:   e.ExpiresAt,
		Opened:      true,
	}
	if len(g.Asked) == 0 {
		g.Asked = g.Scopes
	}
	return g
}

// GrantProposed records which agent a setup grant asked for. It is the only one
// it can ever ask for.
type GrantProposed struct {
	AgentKey AgentKey `json:"agentKey"`
}

// EventType implements [Event].
func (GrantProposed) EventType() string { return "grant.proposed" }

// Apply implements [Event].
func (e GrantProposed) Apply(g Grant) Grant {
	g.Proposed = e.AgentKey
	return g
}

// GrantBound makes a setup grant the grant of an agent.
type GrantBound struct {
	AgentKey AgentKey `json:"agentKey"`
	Scopes   []string `json:"scopes"`
}

// EventType implements [Event].
func (GrantBound) EventType() string { return "grant.bound" }

// Apply implements [Event].
func (e GrantBound) Apply(g Grant) Grant {
	g.AgentKey, g.Scopes = e.AgentKey, e.Scopes
	return g
}

// GrantWidened replaces what a grant allows by more, and what its client asked
// for by as much or more.
type GrantWidened struct {
	Scopes []string `json:"scopes"`
	Asked  []string `json:"asked"`
}

// EventType implements [Event].
func (GrantWidened) EventType() string { return "grant.widened" }

// Apply implements [Event].
func (e GrantWidened) Apply(g Grant) Grant {
	g.Scopes, g.Asked = e.Scopes, e.Asked
	return g
}

// GrantNarrowed replaces what a grant allows by less.
type GrantNarrowed struct {
	Scopes []string `json:"scopes"`
}

// EventType implements [Event].
func (GrantNarrowed) EventType() string { return "grant.narrowed" }

// Apply implements [Event].
func (e GrantNarrowed) Apply(g Grant) Grant {
	g.Scopes = e.Scopes
	return g
}

// GrantReuseDetected records that a refresh token was used again after its
// successor: someone else may hold a copy.
type GrantReuseDetected struct{}

// EventType implements [Event].
func (GrantReuseDetected) EventType() string { return "grant.reuse_detected" }

// Apply implements [Event].
func (GrantReuseDetected) Apply(g Grant) Grant { return g }

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
