package domain_test

import (
	"testing"
	"time"

	"sidequest/domain"
)

var grantID = meta(operator, noon).NewID("gr")

// allow is a grant for Ann that can be opened.
func allow(change ...func(*domain.OpenGrant)) domain.OpenGrant {
	c := domain.OpenGrant{
		AgentKey: ann.AgentKey,
		ClientID: "client",
		Operator: "operator",
		Scopes:   []string{domain.ScopeRead, domain.ScopeHire},
		Resource: "https://sidequest.test/mcp",
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func granted(c domain.OpenGrant) domain.Fact {
	return domain.Grants.Record(grantID, domain.GrantOpened(c))
}

func TestOpenGrant(t *testing.T) {
	t.Parallel()

	until := noon.Add(hour)
	ending := allow(func(c *domain.OpenGrant) { c.ExpiresAt = &until })
	run(t, []row{
		{name: "an operator may let a client act", given: market(), by: operator, when: do(allow()),
			then: []domain.Fact{granted(allow())}, answer: domain.OpenGrantAnswer{GrantID: grantID}},
		{name: "a grant may have an end", given: market(), by: operator, when: do(ending), then: []domain.Fact{granted(ending)}},
		{name: "an agent cannot grant access to itself", given: market(), by: ann.AgentKey, when: do(allow()), err: "forbidden"},
	})
	for _, tt := range []struct {
		name   string
		change func(*domain.OpenGrant)
		err    string
		field  string
	}{
		{"the agent exists", func(c *domain.OpenGrant) { c.AgentKey = "ag_stranger" }, "not-found", "/agentKey"},
		{"the client is named", func(c *domain.OpenGrant) { c.ClientID = "" }, "invalid", "/clientId"},
		{"the operator is named", func(c *domain.OpenGrant) { c.Operator = "" }, "invalid", "/operator"},
		{"there is a scope", func(c *domain.OpenGrant) { c.Scopes = nil }, "invalid", "/scopes"},
		{"the scopes are known", func(c *domain.OpenGrant) { c.Scopes = []string{"read"} }, "invalid", "/scopes"},
		{"the resource is absolute", func(c *domain.OpenGrant) { c.Resource = "/mcp" }, "invalid", "/resource"},
		{"the resource is a URL", func(c *domain.OpenGrant) { c.Resource = "http://[" }, "invalid", "/resource"},
		{"the resource has no fragment", func(c *domain.OpenGrant) { c.Resource += "#a" }, "invalid", "/resource"},
		{"it ends after it begins", func(c *domain.OpenGrant) { now := noon; c.ExpiresAt = &now }, "invalid", "/expiresAt"},
	} {
		run(t, []row{{name: tt.name, given: market(), by: operator, when: do(allow(tt.change)), err: tt.err, field: tt.field}})
	}
}

func TestRevokeGrant(t *testing.T) {
	t.Parallel()

	revoke := do(domain.RevokeGrant{GrantID: grantID, Reason: "lost laptop"})
	revoked := domain.Grants.Record(grantID, domain.GrantRevoked{Reason: "lost laptop"})
	answer := domain.RevokeGrantAnswer{GrantID: grantID}
	run(t, []row{
		{name: "a live grant ends", given: []domain.Fact{granted(allow())}, by: operator, when: revoke, then: []domain.Fact{revoked}, answer: answer},
		{name: "a second time records nothing", given: []domain.Fact{granted(allow()), revoked}, by: operator, when: revoke, answer: answer},
		{name: "an unknown grant is refused", by: operator, when: revoke, err: "not-found", field: "/grantId"},
	})
}

func TestAGrantIsLiveUntilItEnds(t *testing.T) {
	t.Parallel()

	until := noon.Add(hour)
	opened := granted(allow(func(c *domain.OpenGrant) { c.ExpiresAt = &until }))
	revoked := domain.Grants.Record(grantID, domain.GrantRevoked{})
	for _, tt := range []struct {
		name  string
		facts []domain.Fact
		at    time.Time
		want  bool
	}{
		{"one that was never opened is not", nil, noon, false},
		{"an open one is", []domain.Fact{opened}, until.Add(-1), true},
		{"one that has run out is not", []domain.Fact{opened}, until, false},
		{"one without an end is", []domain.Fact{granted(allow())}, until, true},
		{"a revoked one is not", []domain.Fact{opened, revoked}, noon, false},
	} {
		states := domain.Fold(domain.Categories, tt.facts...)
		if got := domain.Grants.In(states, grantID).LiveAt(tt.at); got != tt.want {
			t.Errorf("%s: live %v, want %v", tt.name, got, tt.want)
		}
	}
}
