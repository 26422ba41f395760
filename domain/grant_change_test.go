package domain_test

import (
	"strings"
	"testing"

	"sidequest/domain"
)

const (
	setup = domain.ScopeSetup
	read  = domain.ScopeRead
	hire  = domain.ScopeHire
	work  = domain.ScopeWork
)

// changed is what a command about the grant answers.
func changed(scopes ...string) domain.GrantAnswer {
	return domain.GrantAnswer{GrantID: grantID, Scopes: scopes}
}

func grantFact(e domain.Event[domain.Grant]) []domain.Fact {
	return []domain.Fact{domain.Grants.Record(grantID, e)}
}

func grantRevoked() domain.Fact {
	return domain.Grants.Record(grantID, domain.GrantRevoked{Reason: "lost laptop"})
}

func TestBindGrant(t *testing.T) {
	t.Parallel()

	bind := func(key domain.AgentKey, scopes ...string) deed {
		return do(domain.BindGrant{GrantID: grantID, AgentKey: key, Scopes: scopes})
	}
	asking := func(asked ...string) []domain.Fact {
		return with(market(), granted(toSetUp(func(c *domain.OpenGrant) { c.Asked = asked })))
	}
	bound := func(scopes ...string) []domain.Fact {
		return grantFact(domain.GrantBound{AgentKey: ann.AgentKey, Scopes: scopes})
	}
	run(t, []row{
		{name: "a setup grant becomes the grant of an agent", given: asking(read, hire), by: operator, when: bind(ann.AgentKey, hire, read), then: bound(read, hire), answer: changed(read, hire)},
		{name: "a client gets no more than it asked for", given: asking(read), by: operator, when: bind(ann.AgentKey, read, hire), then: bound(read)},
		{name: "whoever asked for hire may read", given: asking(hire), by: operator, when: bind(ann.AgentKey, read), then: bound(read)},
		{name: "a client that asked only to set up keeps that", given: asking(setup), by: operator, when: bind(ann.AgentKey, read, hire), then: bound(setup)},
		{name: "binding twice records nothing", given: with(asking(read), bound(read)...), by: operator, when: bind(ann.AgentKey, read), answer: changed(read)},
		{name: "a bound grant stays with its agent", given: with(asking(read), bound(read)...), by: operator, when: bind(bob.AgentKey, read), err: "grant-bound", class: domain.Conflict, field: "/grantId"},
		{name: "a revoked grant stays revoked", given: with(asking(read), grantRevoked()), by: operator, when: bind(ann.AgentKey, read), err: "grant-revoked", class: domain.Conflict, field: "/grantId"},
		{name: "another's grant is unknown", given: asking(read), by: "stranger", when: bind(ann.AgentKey, read), err: "not-found", field: "/grantId"},
		{name: "the agent exists", given: asking(read), by: operator, when: bind("ag_stranger", read), err: "not-found", field: "/agentKey"},
		{name: "the scopes are known", given: asking(read), by: operator, when: bind(ann.AgentKey, "all"), err: "invalid", field: "/scopes"},
	})
}

func TestWidenGrant(t *testing.T) {
	t.Parallel()

	widen := func(asked []string, scopes ...string) deed {
		return do(domain.WidenGrant{GrantID: grantID, Scopes: scopes, Asked: asked})
	}
	given := with(market(), granted(allow(func(c *domain.OpenGrant) { c.Asked, c.Scopes = []string{read, hire}, []string{read} })))
	widened := func(asked []string, scopes ...string) []domain.Fact {
		return grantFact(domain.GrantWidened{Scopes: scopes, Asked: asked})
	}
	fresh := with(market(), granted(toSetUp()))
	onlySetup := with(fresh, grantFact(domain.GrantBound{AgentKey: ann.AgentKey, Scopes: []string{setup}})...)
	run(t, []row{
		{name: "an operator allows what the client asked for", given: given, by: operator, when: widen(nil, hire), then: widened([]string{read, hire}, read, hire), answer: changed(read, hire)},
		{name: "beyond that the client asks again", given: given, by: operator, when: widen(nil, work), err: "invalid", field: "/scopes"},
		{name: "a new consent brings what the client asks for now", given: given, by: operator, when: widen([]string{read, work}, work), then: widened([]string{read, hire, work}, read, work)},
		{name: "a client may ask and get nothing", given: given, by: operator, when: widen([]string{work}), then: widened([]string{read, hire, work}, read)},
		{name: "what is so already records nothing", given: given, by: operator, when: widen(nil, read), answer: changed(read)},
		{name: "setup ends where there is more", given: onlySetup, by: operator, when: widen(nil, read), then: widened(domain.Scopes(), read)},
		{name: "without an agent there is nothing to widen", given: fresh, by: operator, when: widen(nil, read), err: "no-agent", class: domain.Conflict, field: "/grantId"},
		{name: "a revoked grant stays revoked", given: with(given, grantRevoked()), by: operator, when: widen(nil, hire), err: "grant-revoked", class: domain.Conflict, field: "/grantId"},
		{name: "the agent cannot do it", given: given, by: ann.AgentKey, when: widen(nil, hire), err: "not-found", field: "/grantId"},
		{name: "the scopes are known", given: given, by: operator, when: widen(nil, "all"), err: "invalid", field: "/scopes"},
		{name: "what is asked for is known", given: given, by: operator, when: widen([]string{"all"}), err: "invalid", field: "/asked"},
	})
}

func TestNarrowGrant(t *testing.T) {
	t.Parallel()

	narrow := func(scopes ...string) deed { return do(domain.NarrowGrant{GrantID: grantID, Scopes: scopes}) }
	given := with(market(), granted(allow()))
	run(t, []row{
		{name: "an operator takes scopes away", given: given, by: operator, when: narrow(read), then: grantFact(domain.GrantNarrowed{Scopes: []string{read}}), answer: changed(read)},
		{name: "reading is left of hiring", given: with(market(), granted(allow(func(c *domain.OpenGrant) { c.Scopes = []string{hire} }))), by: operator, when: narrow(read), then: grantFact(domain.GrantNarrowed{Scopes: []string{read}})},
		{name: "what is so already records nothing", given: given, by: operator, when: narrow(hire, read), answer: changed(read, hire)},
		{name: "nothing is added", given: given, by: operator, when: narrow(read, work), err: "invalid", field: "/scopes"},
		{name: "something is left", given: given, by: operator, when: narrow(), err: "invalid", field: "/scopes"},
		{name: "the scopes are known", given: given, by: operator, when: narrow("all"), err: "invalid", field: "/scopes"},
		{name: "a revoked grant stays revoked", given: with(given, grantRevoked()), by: operator, when: narrow(read), err: "grant-revoked", class: domain.Conflict, field: "/grantId"},
		{name: "another's grant is unknown", given: given, by: "stranger", when: narrow(read), err: "not-found", field: "/grantId"},
	})
}

func TestRevokeGrant(t *testing.T) {
	t.Parallel()

	revoke := do(domain.RevokeGrant{GrantID: grantID, Reason: "lost laptop"})
	given := []domain.Fact{granted(allow())}
	answer := domain.RevokeGrantAnswer{GrantID: grantID}
	because := func(reason string) deed { return do(domain.RevokeGrant{GrantID: grantID, Reason: reason}) }
	run(t, []row{
		{name: "a live grant ends", given: given, by: operator, when: revoke, then: []domain.Fact{grantRevoked()}, answer: answer},
		{name: "the system ends it for its client", given: given, by: domain.System, when: revoke, then: []domain.Fact{grantRevoked()}, answer: answer},
		{name: "a second time records nothing", given: with(given, grantRevoked()), by: operator, when: revoke, answer: answer},
		{name: "an unknown grant is refused", by: operator, when: revoke, err: "not-found", field: "/grantId"},
		{name: "another's grant is unknown", given: given, by: "stranger", when: revoke, err: "not-found", field: "/grantId"},
		{name: "there is a reason", given: given, by: operator, when: because(" "), err: "invalid", field: "/reason"},
		{name: "a reason is short", given: given, by: operator, when: because(strings.Repeat("é", 201)), err: "invalid", field: "/reason"},
	})
}

func TestRecordReuse(t *testing.T) {
	t.Parallel()

	reuse := do(domain.RecordReuse{GrantID: grantID})
	given := []domain.Fact{granted(allow())}
	run(t, []row{
		{name: "a stolen token ends its grant", given: given, by: domain.System, when: reuse, then: append(
			grantFact(domain.GrantReuseDetected{}), grantFact(domain.GrantRevoked{Reason: "a refresh token was used twice"})...)},
		{name: "a grant that has ended records nothing", given: with(given, grantRevoked()), by: domain.System, when: reuse},
		{name: "an unknown grant is refused", by: domain.System, when: reuse, err: "not-found", field: "/grantId"},
		{name: "nobody else may say so", given: given, by: operator, when: reuse, err: "not-found", field: "/grantId"},
	})
}
