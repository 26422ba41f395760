package domain_test

import (
	"strings"
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
		Operator: string(operator),
		Scopes:   []string{domain.ScopeRead, domain.ScopeHire},
		Resource: "https://sidequest.test/mcp",
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// toSetUp is a grant without an agent, of a client that asked for everything.
func toSetUp(change ...func(*domain.OpenGrant)) domain.OpenGrant {
	return allow(append([]func(*domain.OpenGrant){func(c *domain.OpenGrant) {
		c.AgentKey, c.Asked, c.Scopes = "", domain.Scopes(), []string{domain.ScopeSetup}
	}}, change...)...)
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
		{name: "nobody grants access for another operator", given: market(), by: "stranger", when: do(allow()), err: "forbidden"},
		{name: "an operator cannot let a client act as another's agent", given: market(), by: "stranger", when: do(allow(func(c *domain.OpenGrant) {
			c.Operator = "stranger"
		})), err: "not-found", field: "/agentKey"},
		{name: "a grant to set up an agent needs none", by: operator, when: do(toSetUp()), then: []domain.Fact{granted(toSetUp())}},
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
		{"setup stands alone", func(c *domain.OpenGrant) { c.Scopes = []string{domain.ScopeSetup, domain.ScopeRead} }, "invalid", "/scopes"},
		{"without an agent there is nothing but setup", func(c *domain.OpenGrant) { c.AgentKey = "" }, "invalid", "/scopes"},
		{"the scopes were asked for", func(c *domain.OpenGrant) { c.Asked = []string{domain.ScopeWork} }, "invalid", "/scopes"},
		{"what was asked for is known", func(c *domain.OpenGrant) { c.Asked = []string{"everything"} }, "invalid", "/asked"},
		{"the client's name is short", func(c *domain.OpenGrant) { c.ClientName = strings.Repeat("é", 201) }, "invalid", "/clientName"},
		{"the client's name is text", func(c *domain.OpenGrant) { c.ClientName = "\x1b[2J" }, "invalid", "/clientName"},
		{"the redirect URI is short", func(c *domain.OpenGrant) { c.RedirectURI = strings.Repeat("a", 2049) }, "invalid", "/redirectUri"},
		{"the scopes are known", func(c *domain.OpenGrant) { c.Scopes = []string{"read"} }, "invalid", "/scopes"},
		{"the resource is absolute", func(c *domain.OpenGrant) { c.Resource = "/mcp" }, "invalid", "/resource"},
		{"the resource is a URL", func(c *domain.OpenGrant) { c.Resource = "http://[" }, "invalid", "/resource"},
		{"the resource has no fragment", func(c *domain.OpenGrant) { c.Resource += "#a" }, "invalid", "/resource"},
		{"it ends after it begins", func(c *domain.OpenGrant) { now := noon; c.ExpiresAt = &now }, "invalid", "/expiresAt"},
	} {
		run(t, []row{{name: tt.name, given: market(), by: operator, when: do(allow(tt.change)), err: tt.err, field: tt.field}})
	}
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
