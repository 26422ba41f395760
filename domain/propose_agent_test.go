package domain_test

import (
	"slices"
	"strings"
	"testing"

	"sidequest/domain"
)

// A connection of the operator's without an agent proposes Eve.
var (
	connection  = domain.AgentKey(grantID)
	eve         = domain.AgentKey(meta(connection, noon).NewID("ag"))
	eveWallet   = domain.Address("0x1000000000000000000000000000000000000006")
	eveQuestion = domain.ApprovalID("ap_" +
		strings.TrimPrefix(string(eve), "ag_") + strings.TrimPrefix(meta(connection, noon).NewID("ap"), "ap_"))
)

func proposal(change ...func(*domain.ProposeAgent)) domain.ProposeAgent {
	c := domain.ProposeAgent{
		Name: "Eve", Description: "Draws logos.\nAnd more.", Tagline: "Logos", AvatarPrompt: "A fox", Wallet: eveWallet,
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func proposed() []domain.Fact {
	return []domain.Fact{
		domain.Agents.Record(string(eve), domain.AgentProposed{
			AgentKey: eve, Name: "Eve", Description: "Draws logos.\nAnd more.", Tagline: "Logos", AvatarPrompt: "A fox",
			Wallet: eveWallet, Operator: string(operator), GrantID: grantID, ApprovalID: eveQuestion,
		}),
		domain.Approvals.Record(string(eveQuestion), domain.ApprovalRequested{
			Kind: domain.ApprovalOfAgent, AgentKey: eve, Operator: string(operator), Board: "main",
			OperationID: meta(connection, noon).OperationID(), GrantID: grantID, Resource: allow().Resource,
		}),
		domain.Grants.Record(grantID, domain.GrantProposed{AgentKey: eve}),
	}
}

// waiting is another setup grant.
func waiting(id string, change ...func(*domain.OpenGrant)) domain.Fact {
	return domain.Grants.Record(id, domain.GrantOpened(toSetUp(change...)))
}

func TestProposeAgent(t *testing.T) {
	t.Parallel()

	given := with(market(), granted(toSetUp()))
	propose := func(change ...func(*domain.ProposeAgent)) deed { return do(proposal(change...)) }
	bound := domain.Grants.Record(grantID, domain.GrantBound{AgentKey: ann.AgentKey, Scopes: []string{read}})
	run(t, []row{
		{name: "a connection proposes an agent", given: given, by: connection, when: propose(), then: proposed(), answer: domain.ProposeAgentAnswer{
			AgentKey: eve, ApprovalID: eveQuestion, Profile: domain.Profile{Name: "Eve", Description: "Draws logos.\nAnd more.", Tagline: "Logos"},
		}},
		{name: "it proposes one, ever", given: with(given, proposed()...), by: connection, when: propose(), err: "setup-agent-exists", class: domain.Forbidden},
		{name: "one that has an agent proposes none", given: with(given, bound), by: connection, when: propose(), err: "setup-agent-exists", class: domain.Forbidden},
		{name: "one that was opened with an agent proposes none", given: with(market(), granted(allow())), by: connection, when: propose(), err: "setup-agent-exists", class: domain.Forbidden},
		{name: "one that was revoked proposes none", given: with(given, grantRevoked()), by: connection, when: propose(), err: "forbidden"},
		{name: "an agent proposes none", given: given, by: ann.AgentKey, when: propose(), err: "forbidden"},
		{name: "a name says something", given: given, by: connection, when: propose(func(c *domain.ProposeAgent) { c.Name = " " }), err: "invalid", field: "/name"},
		{name: "a name has no space around it", given: given, by: connection, when: propose(func(c *domain.ProposeAgent) { c.Name = " Eve" }), err: "invalid", field: "/name"},
		{name: "a name is short", given: given, by: connection, when: propose(func(c *domain.ProposeAgent) { c.Name = strings.Repeat("é", 81) }), err: "invalid", field: "/name"},
		{name: "a name stands on one line", given: given, by: connection, when: propose(func(c *domain.ProposeAgent) { c.Name = "Eve\nApproved" }), err: "invalid", field: "/name"},
		{name: "a tagline stands on one line", given: given, by: connection, when: propose(func(c *domain.ProposeAgent) { c.Tagline = "a\nb" }), err: "invalid", field: "/tagline"},
		{name: "a description is text", given: given, by: connection, when: propose(func(c *domain.ProposeAgent) { c.Description = "\x1b" }), err: "invalid", field: "/description"},
		{name: "a prompt is text", given: given, by: connection, when: propose(func(c *domain.ProposeAgent) { c.AvatarPrompt = "\x00" }), err: "invalid", field: "/avatarPrompt"},
		{name: "there is a wallet", given: given, by: connection, when: propose(func(c *domain.ProposeAgent) { c.Wallet = "" }), err: "invalid", field: "/wallet"},
	})
}

func TestDecideAnAgent(t *testing.T) {
	t.Parallel()

	given := with(market(), append([]domain.Fact{granted(toSetUp())}, proposed()...)...)
	others := []domain.Fact{
		waiting("gr_waits", func(c *domain.OpenGrant) { c.Asked = []string{read, work} }),
		waiting("gr_elsewhere", func(c *domain.OpenGrant) { c.Resource = "https://sidequest.test/b/acme/mcp" }),
		waiting("gr_foreign", func(c *domain.OpenGrant) { c.Operator = "stranger" }),
		waiting("gr_other"), domain.Grants.Record("gr_other", domain.GrantProposed{AgentKey: "ag_other"}),
		waiting("gr_gone"), domain.Grants.Record("gr_gone", domain.GrantRevoked{Reason: "lost"}),
	}
	grants := []string{grantID, "gr_waits", "gr_elsewhere", "gr_foreign", "gr_other", "gr_gone", "gr_never"}
	decide := func(outcome string, roles ...domain.Role) deed {
		return do(domain.DecideApproval{ApprovalID: eveQuestion, Outcome: outcome, Roles: roles, Grants: grants})
	}
	decided := func(outcome string) domain.Fact {
		return domain.Approvals.Record(string(eveQuestion), domain.ApprovalDecided{
			Kind: domain.ApprovalOfAgent, AgentKey: eve, OperationID: meta(connection, noon).OperationID(), Outcome: outcome, By: string(operator),
		})
	}
	bind := func(id string, scopes ...string) domain.Fact {
		return domain.Grants.Record(id, domain.GrantBound{AgentKey: eve, Scopes: scopes})
	}
	registered := func(roles ...domain.Role) []domain.Fact {
		return []domain.Fact{
			decided(domain.Approved),
			domain.Registries.Record("agents", domain.AgentNumbered{AgentKey: eve, AgentID: "5", Wallet: eveWallet, Name: "Eve"}),
			domain.Agents.Record(string(eve), domain.AgentRegistered{
				AgentKey: eve, AgentID: "5", Name: "Eve", Wallet: eveWallet, Operator: string(operator),
			}),
			domain.Agents.Record(string(eve), domain.AgentRolesSet{Roles: append([]domain.Role{}, roles...)}),
		}
	}
	all := with(given, others...)
	run(t, []row{
		{name: "yes makes the agent, with its roles and the connections that wait for it", given: all, by: operator, when: decide("approved", "work", "hire"),
			then:   append(registered("hire", "work"), bind(grantID, read, hire, work), bind("gr_waits", read, work)),
			answer: domain.DecideApprovalAnswer{ApprovalID: eveQuestion, Outcome: "approved", AgentKey: eve}},
		{name: "yes without roles lets it look", given: all, by: operator, when: decide("approved"),
			then: append(registered(), bind(grantID, read), bind("gr_waits", read))},
		{name: "no makes nothing", given: all, by: operator, when: decide("refused"), then: []domain.Fact{decided("refused")}},
		{name: "nobody else decides", given: all, by: "stranger", when: decide("approved"), err: "not-found", field: "/approvalId"},
		{name: "the connection does not decide", given: all, by: connection, when: decide("approved"), err: "not-found", field: "/approvalId"},
		{name: "the same answer again records nothing", given: with(all, registered()...), by: operator, when: decide("approved")},
	})
}

func TestBindWaiting(t *testing.T) {
	t.Parallel()

	given := with(market(), slices.Concat([]domain.Fact{waiting("gr_waits"), granted(toSetUp())}, proposed())...)
	pick := func(key domain.AgentKey, grants ...string) deed {
		return do(domain.BindWaiting{AgentKey: key, Resource: allow().Resource, Grants: grants})
	}
	run(t, []row{
		{name: "an operator's pick binds what waits, but not what proposed another", given: given, by: operator, when: pick(ann.AgentKey, "gr_waits", grantID),
			then:   []domain.Fact{domain.Grants.Record("gr_waits", domain.GrantBound{AgentKey: ann.AgentKey, Scopes: []string{read, hire}})},
			answer: domain.BindWaitingAnswer{AgentKey: ann.AgentKey}},
		{name: "an agent that is not there yet binds nothing", given: given, by: operator, when: pick(eve, "gr_waits"), err: "not-found", field: "/agentKey"},
		{name: "another's agent is unknown", given: given, by: "stranger", when: pick(ann.AgentKey, "gr_waits"), err: "not-found", field: "/agentKey"},
		{name: "connections are given once", given: given, by: operator, when: pick(ann.AgentKey, "a", "a"), err: "invalid", field: "/grants/1"},
	})
}
