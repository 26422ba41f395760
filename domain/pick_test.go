package domain_test

import (
	"strings"
	"testing"
	"time"

	"sidequest/domain"
)

var taskID = domain.TaskID("tk_" + strings.TrimPrefix(string(requestID), "rq_"))

// hired are the facts of Ann's picking Bob's quote.
func hired(change ...func(*domain.Offer)) []domain.Fact {
	offer := domain.Offer{
		TaskID:      taskID,
		RequestHash: keccak(wished()),
		Terms:       wished(),
		QuoteID:     bobs,
		Worker:      bob,
		Token:       usd,
		Reward:      "20",
		FrozenAt:    noon.Truncate(time.Second),
	}
	for _, f := range change {
		f(&offer)
	}
	return []domain.Fact{
		end(domain.RequestPicked{QuoteID: bobs, TaskID: taskID, Creator: ann.AgentKey, Bidder: bob, Losers: []domain.Loser{{AgentKey: cat.AgentKey, QuoteID: cats}}}),
		domain.Agents.Record(string(ann.AgentKey), domain.AgentRequestSettled{RequestID: requestID}),
		domain.Hires.Record(string(taskID), domain.HireFrozen{Offer: offer, TermsHash: keccak(offer)}),
	}
}

// pick takes Bob's quote, with a budget if there is one.
func pick(budget ...*domain.ExecutionBudget) deed {
	c := domain.PickQuote{RequestID: requestID, QuoteID: bobs}
	for _, b := range budget {
		c.ExecutionBudget = b
	}
	return do(c)
}

func TestPickQuote(t *testing.T) {
	t.Parallel()

	quoted := with(asked(), offered(bobs, bob), offered(cats, cat))
	run(t, []row{{
		name:   "the creator may pick, and the offer is frozen",
		given:  quoted,
		by:     ann.AgentKey,
		when:   pick(),
		then:   hired(),
		answer: domain.PickQuoteAnswer{TaskID: taskID, Selection: domain.Selection{Status: "awaiting-publish"}},
	}, {
		name:  "a pick may come until just before the delivery deadline",
		given: quoted,
		by:    ann.AgentKey,
		at:    wished().DeliveryDeadline.Add(-1),
		when:  pick(),
		then:  hired(func(o *domain.Offer) { o.FrozenAt = wished().DeliveryDeadline.Add(-time.Second) }),
	}, {
		name:  "an advance defaults to the token of the quote and ends with the delivery",
		given: quoted,
		by:    ann.AgentKey,
		when:  pick(&domain.ExecutionBudget{Kind: "advance", Cap: "5"}),
		then: hired(func(o *domain.Offer) {
			o.ExecutionBudget = &domain.FrozenBudget{Kind: "advance", Token: usd, Cap: "5", ExpiresAt: wished().DeliveryDeadline}
		}),
	}, {
		name:  "a call budget is for one function of one contract",
		given: quoted,
		by:    ann.AgentKey,
		when: pick(&domain.ExecutionBudget{
			Kind: "call", Token: eth.Address, Target: dan.Wallet, Function: "mint(address)", Cap: "0.1", ExpiresAt: "1d",
		}),
		then: hired(func(o *domain.Offer) {
			o.ExecutionBudget = &domain.FrozenBudget{
				Kind: "call", Token: eth, Target: dan.Wallet, Function: "mint(address)", Cap: "0.1",
				ExpiresAt: noon.Add(24 * hour).Truncate(time.Second),
			}
		}),
	}})
}

func TestPickQuoteRefuses(t *testing.T) {
	t.Parallel()

	quoted := with(asked(), offered(bobs, bob), offered(cats, cat))
	conflict := func(name, code, field string, more ...domain.Fact) row {
		return row{name: name, given: with(quoted, more...), by: ann.AgentKey, when: pick(), err: code, class: domain.Conflict, field: field}
	}
	late := conflict("a pick at the delivery deadline", "request-closed", "/requestId")
	late.at = wished().DeliveryDeadline
	noRole := domain.Agents.Record(string(ann.AgentKey), domain.AgentRolesSet{})

	run(t, []row{
		{name: "a request that does not exist", given: market(), by: ann.AgentKey, when: pick(), err: "not-found", field: "/requestId"},
		{name: "a request that is another's", given: quoted, by: cat.AgentKey, when: pick(), err: "forbidden", field: "/requestId"},
		{name: "a creator that has lost the role hire", given: with(quoted, noRole), by: ann.AgentKey, when: pick(), err: "role-required"},
		{name: "a quote that does not exist", given: asked(), by: ann.AgentKey, when: pick(), err: "not-found", field: "/quoteId"},
		conflict("a second pick", "already-picked", "/requestId", hired()...),
		conflict("a closed request", "request-closed", "/requestId", end(domain.RequestClosed{})),
		conflict("an expired request", "request-closed", "/requestId", end(domain.RequestExpired{})),
		conflict("a withdrawn quote", "quote-withdrawn", "/quoteId", withdrawn(bobs, bob)),
		conflict("a replaced quote", "quote-withdrawn", "/quoteId", offered("qt_new", bob, func(e *domain.QuoteSubmitted) { e.Replaces = bobs })),
		late,
	})
}

func TestPickQuoteRefusesAnExecutionBudgetWith(t *testing.T) {
	t.Parallel()

	quoted := with(asked(), offered(bobs, bob))
	for _, tt := range []struct {
		name   string
		budget domain.ExecutionBudget
		err    string
		field  string
	}{
		{"an unknown kind", domain.ExecutionBudget{Kind: "gift", Cap: "1"}, "invalid", "/kind"},
		{"a token the board does not list", domain.ExecutionBudget{Kind: "advance", Token: art, Cap: "1"}, "token-refused", "/token"},
		{"a cap of nothing", domain.ExecutionBudget{Kind: "advance", Cap: "0"}, "invalid", "/cap"},
		{"a target for an advance", domain.ExecutionBudget{Kind: "advance", Cap: "1", Target: art}, "invalid", "/target"},
		{"a function for an advance", domain.ExecutionBudget{Kind: "advance", Cap: "1", Function: "f()"}, "invalid", "/function"},
		{"no target for a call", domain.ExecutionBudget{Kind: "call", Cap: "1", Function: "f()"}, "invalid", "/target"},
		{"no function for a call", domain.ExecutionBudget{Kind: "call", Cap: "1", Target: art}, "invalid", "/function"},
		{"an end that is no time", domain.ExecutionBudget{Kind: "advance", Cap: "1", ExpiresAt: "later"}, "invalid", "/expiresAt"},
		{"an end that has passed", domain.ExecutionBudget{Kind: "advance", Cap: "1", ExpiresAt: "0s"}, "deadline-order", "/expiresAt"},
		{"an end after the delivery deadline", domain.ExecutionBudget{Kind: "advance", Cap: "1", ExpiresAt: "73h"}, "deadline-order", "/expiresAt"},
	} {
		run(t, []row{{
			name: tt.name, given: quoted, by: ann.AgentKey, when: pick(&tt.budget),
			err: tt.err, class: domain.Invalid, field: "/executionBudget" + tt.field,
		}})
	}
}

func TestCloseRequest(t *testing.T) {
	t.Parallel()

	shut := do(domain.CloseRequest{RequestID: requestID})
	quoted := with(asked(), offered(bobs, bob))
	noRole := domain.Agents.Record(string(ann.AgentKey), domain.AgentRolesSet{})
	closed := []domain.Fact{
		end(domain.RequestClosed{Losers: []domain.Loser{{AgentKey: bob.AgentKey, QuoteID: bobs}}}),
		domain.Agents.Record(string(ann.AgentKey), domain.AgentRequestSettled{RequestID: requestID}),
	}
	conflict := func(name, code string, more ...domain.Fact) row {
		return row{name: name, given: with(quoted, more...), by: ann.AgentKey, when: shut, err: code, class: domain.Conflict, field: "/requestId"}
	}
	late := conflict("not from the delivery deadline on", "request-closed")
	late.at = wished().DeliveryDeadline

	run(t, []row{{
		name:   "the creator may close, and the bidders are named",
		given:  quoted,
		by:     ann.AgentKey,
		when:   shut,
		then:   closed,
		answer: domain.CloseRequestAnswer{RequestID: requestID, Status: "closed"},
	},
		{name: "closing needs no role", given: with(quoted, noRole), by: ann.AgentKey, when: shut, then: closed},
		{name: "nobody else may", given: quoted, by: bob.AgentKey, when: shut, err: "forbidden", field: "/requestId"},
		{name: "not what does not exist", given: market(), by: ann.AgentKey, when: shut, err: "not-found", field: "/requestId"},
		conflict("not after a pick", "already-picked", hired()...),
		conflict("not twice", "request-closed", closed...),
		conflict("not after it expired", "request-closed", end(domain.RequestExpired{})),
		late,
	})
}

func TestExpireRequest(t *testing.T) {
	t.Parallel()

	over := wished().DeliveryDeadline
	expire := do(domain.ExpireRequest{RequestID: requestID})
	quoted := with(asked(), offered(bobs, bob))
	run(t, []row{{
		name:   "a request expires at its delivery deadline",
		given:  quoted,
		by:     domain.System,
		at:     over,
		when:   expire,
		then:   []domain.Fact{end(domain.RequestExpired{Losers: []domain.Loser{{AgentKey: bob.AgentKey, QuoteID: bobs}}})},
		answer: domain.ExpireRequestAnswer{RequestID: requestID, Status: "expired"},
	}, {
		name:   "a request that has ended stays as it is",
		given:  with(quoted, end(domain.RequestClosed{})),
		by:     domain.System,
		at:     over,
		when:   expire,
		answer: domain.ExpireRequestAnswer{RequestID: requestID, Status: "closed"},
	},
		{name: "not before its deadline", given: quoted, by: domain.System, at: over.Add(-1), when: expire, err: "invalid", field: "/requestId"},
		{name: "not what does not exist", given: market(), by: domain.System, at: over, when: expire, err: "not-found", field: "/requestId"},
		{name: "not at the wish of an agent", given: quoted, by: ann.AgentKey, at: over, when: expire, err: "forbidden"},
	})
}
