package domain_test

import (
	"fmt"
	"strings"
	"testing"

	"sidequest/domain"
)

// quoteID is the quote that an agent's operation "op" makes on Ann's request.
func quoteID(by domain.Party) domain.QuoteID {
	own := meta(by.AgentKey, noon).NewID("qt")
	return domain.QuoteID("qt_" + strings.TrimPrefix(string(requestID), "rq_") + strings.TrimPrefix(own, "qt_"))
}

// offer is a quote of Bob's that Ann's request takes.
func offer(change ...func(*domain.SubmitQuote)) domain.SubmitQuote {
	c := domain.SubmitQuote{RequestID: requestID, AgentID: "2", Token: usd.Address, Amount: "20"}
	for _, f := range change {
		f(&c)
	}
	return c
}

// offered is the fact of a quote.
func offered(id domain.QuoteID, by domain.Party, change ...func(*domain.QuoteSubmitted)) domain.Fact {
	e := domain.QuoteSubmitted{QuoteID: id, Creator: ann.AgentKey, Bidder: by, Token: usd.Address, Amount: "20"}
	for _, f := range change {
		f(&e)
	}
	return domain.Requests.Record(string(requestID), e)
}

func withdrawn(id domain.QuoteID, by domain.Party) domain.Fact {
	return domain.Requests.Record(string(requestID), domain.QuoteWithdrawn{QuoteID: id, Bidder: by.AgentKey})
}

func end(e domain.Event[domain.Request]) domain.Fact {
	return domain.Requests.Record(string(requestID), e)
}

// asked is the market with Ann's open request.
func asked(change ...func(*domain.Terms)) []domain.Fact {
	return with(market(), opened(wished(change...))...)
}

const (
	bobs domain.QuoteID = "qt_bobs"
	cats domain.QuoteID = "qt_cats"
)

func TestSubmitQuote(t *testing.T) {
	t.Parallel()

	costs := &domain.Costs{Token: "0xf0000000000000000000000000000000000000bb", Amount: "0.001", Note: "gas"}
	run(t, []row{{
		name:   "an agent with the role work may quote",
		given:  asked(),
		by:     bob.AgentKey,
		when:   do(offer()),
		then:   []domain.Fact{offered(quoteID(bob), bob)},
		answer: domain.SubmitQuoteAnswer{QuoteID: quoteID(bob)},
	}, {
		name:  "note and costs are kept, addresses in the board's spelling",
		given: asked(),
		by:    bob.AgentKey,
		when: do(offer(func(c *domain.SubmitQuote) {
			c.Token, c.Note, c.ExpectedCosts = "0xf0000000000000000000000000000000000000aa", "By Friday.", costs
		})),
		then: []domain.Fact{offered(quoteID(bob), bob, func(e *domain.QuoteSubmitted) {
			e.Note, e.ExpectedCosts = "By Friday.", &domain.Costs{Token: eth.Address, Amount: "0.001", Note: "gas"}
		})},
	}, {
		name:   "a new quote replaces the bidder's own",
		given:  with(asked(), offered(bobs, bob), offered(cats, cat)),
		by:     bob.AgentKey,
		when:   do(offer()),
		then:   []domain.Fact{offered(quoteID(bob), bob, func(e *domain.QuoteSubmitted) { e.Replaces = bobs })},
		answer: domain.SubmitQuoteAnswer{QuoteID: quoteID(bob), Replaced: bobs},
	}, {
		name:  "a bidder may quote again after withdrawing",
		given: with(asked(), offered(bobs, bob), withdrawn(bobs, bob)),
		by:    bob.AgentKey,
		when:  do(offer()),
		then:  []domain.Fact{offered(quoteID(bob), bob)},
	}, {
		name:  "an invite is a notice and keeps nobody out",
		given: asked(func(t *domain.Terms) { t.Invite = &cat }),
		by:    bob.AgentKey,
		when:  do(offer()),
		then:  []domain.Fact{offered(quoteID(bob), bob)},
	}, {
		name:  "a quote of exactly the budget is within it",
		given: asked(func(t *domain.Terms) { t.Budget = &domain.Budget{Token: usd.Address, Max: "20.00"} }),
		by:    bob.AgentKey,
		when:  do(offer()),
		then:  []domain.Fact{offered(quoteID(bob), bob)},
	}, {
		name:  "a quote may come until just before the quote deadline",
		given: asked(),
		by:    bob.AgentKey,
		at:    wished().QuoteDeadline.Add(-1),
		when:  do(offer()),
		then:  []domain.Fact{offered(quoteID(bob), bob)},
	}})
}

func TestSubmitQuoteRefuses(t *testing.T) {
	t.Parallel()

	capped := asked(func(t *domain.Terms) { t.Budget = &domain.Budget{Token: usd.Address, Max: "19.999999"} })
	full := asked()
	for i := range domain.MaxQuotes {
		by := domain.Party{AgentKey: domain.AgentKey(fmt.Sprint("ag_", i))}
		full = append(full, offered(domain.QuoteID(fmt.Sprint("qt_", i)), by))
	}
	cost := func(c domain.Costs) domain.SubmitQuote {
		return offer(func(q *domain.SubmitQuote) { q.ExpectedCosts = &c })
	}
	amount := func(a domain.Amount) domain.SubmitQuote {
		return offer(func(c *domain.SubmitQuote) { c.Amount = a })
	}
	own := domain.SubmitQuote{RequestID: requestID, AgentID: "3", Token: usd.Address, Amount: "20"}
	foreign := asked(func(t *domain.Terms) { t.Board = "attic" })

	run(t, []row{
		{name: "a stranger", given: asked(), by: "ag_stranger", when: do(offer()), err: "forbidden"},
		{name: "an agent without the role work", given: asked(), by: ann.AgentKey, when: do(offer()), err: "role-required"},
		{name: "an agent id that is another's", given: asked(), by: cat.AgentKey, when: do(offer()), err: "forbidden", field: "/agentId"},
		{name: "a request that does not exist", given: market(), by: bob.AgentKey, when: do(offer()), err: "not-found", field: "/requestId"},
		{name: "a request of another board", given: foreign, by: bob.AgentKey, when: do(offer()), err: "not-found", field: "/requestId"},
		{name: "the creator of the request", given: asked(func(t *domain.Terms) { t.Creator = cat }), by: cat.AgentKey, when: do(own),
			err: "own-request", class: domain.Invalid, field: "/requestId"},
		{name: "an agent that shares the creator's wallet", given: asked(func(t *domain.Terms) { t.Creator.Wallet = cat.Wallet }), by: cat.AgentKey, when: do(own),
			err: "own-request", class: domain.Invalid, field: "/requestId"},
		{name: "the approver of the request", given: asked(func(t *domain.Terms) { t.Approver = cat.Wallet }), by: cat.AgentKey, when: do(own),
			err: "conflict-of-interest", class: domain.Invalid, field: "/requestId"},
		{name: "the arbitrator of the request", given: asked(func(t *domain.Terms) { t.Arbitrator = cat.Wallet }), by: cat.AgentKey, when: do(own),
			err: "conflict-of-interest", class: domain.Invalid, field: "/requestId"},
		{name: "a quote at the quote deadline", given: asked(), by: bob.AgentKey, at: wished().QuoteDeadline, when: do(offer()),
			err: "request-closed", class: domain.Conflict, field: "/requestId"},
		{name: "a request that is picked", given: with(asked(), offered(cats, cat), end(domain.RequestPicked{QuoteID: cats})), by: bob.AgentKey, when: do(offer()),
			err: "request-closed", class: domain.Conflict, field: "/requestId"},
		{name: "a request that is closed", given: with(asked(), end(domain.RequestClosed{})), by: bob.AgentKey, when: do(offer()),
			err: "request-closed", class: domain.Conflict, field: "/requestId"},
		{name: "a request that is expired", given: with(asked(), end(domain.RequestExpired{})), by: bob.AgentKey, when: do(offer()),
			err: "request-closed", class: domain.Conflict, field: "/requestId"},
		{name: "a token the request does not pay in", given: asked(), by: bob.AgentKey, when: do(offer(func(c *domain.SubmitQuote) { c.Token = eth.Address })),
			err: "token-refused", class: domain.Invalid, field: "/token"},
		{name: "an amount of nothing", given: asked(), by: bob.AgentKey, when: do(amount("0")), err: "invalid", field: "/amount"},
		{name: "an amount with leading zeros", given: asked(), by: bob.AgentKey, when: do(amount("020")), err: "invalid", field: "/amount"},
		{name: "an amount finer than the token", given: asked(), by: bob.AgentKey, when: do(amount("20.0000001")), err: "invalid", field: "/amount"},
		{name: "an amount with an exponent", given: capped, by: bob.AgentKey, when: do(amount("1e999999999")), err: "invalid", field: "/amount"},
		{name: "an amount over the budget", given: capped, by: bob.AgentKey, when: do(offer()), err: "over-budget", class: domain.Invalid, field: "/amount"},
		{name: "a control character in the note", given: asked(), by: bob.AgentKey, when: do(offer(func(c *domain.SubmitQuote) { c.Note = "\a" })),
			err: "invalid", field: "/note"},
		{name: "costs in a token the board does not list", given: asked(), by: bob.AgentKey, when: do(cost(domain.Costs{Token: art, Amount: "1"})),
			err: "token-refused", class: domain.Invalid, field: "/expectedCosts/token"},
		{name: "costs of nothing", given: asked(), by: bob.AgentKey, when: do(cost(domain.Costs{Token: usd.Address, Amount: "0"})),
			err: "invalid", field: "/expectedCosts/amount"},
		{name: "a control character in the note on costs", given: asked(), by: bob.AgentKey, when: do(cost(domain.Costs{Token: usd.Address, Amount: "1", Note: "\v"})),
			err: "invalid", field: "/expectedCosts/note"},
		{name: "the two hundred and first quote", given: full, by: bob.AgentKey, when: do(offer()), err: "quotes-limit", class: domain.Conflict, field: "/requestId"},
	})
	run(t, []row{{
		name:  "no replacement because the request is full",
		given: with(full, withdrawn("qt_0", domain.Party{}), offered(bobs, bob)),
		by:    bob.AgentKey,
		when:  do(offer()),
		then:  []domain.Fact{offered(quoteID(bob), bob, func(e *domain.QuoteSubmitted) { e.Replaces = bobs })},
	}})
}

func TestWithdrawQuote(t *testing.T) {
	t.Parallel()

	id := quoteID(bob)
	take := do(domain.WithdrawQuote{QuoteID: id})
	quoted := with(asked(), offered(id, bob), offered(cats, cat))
	noQuote := func(name string, given []domain.Fact, by domain.AgentKey, id domain.QuoteID) row {
		return row{name: name, given: given, by: by, when: do(domain.WithdrawQuote{QuoteID: id}), err: "not-found", field: "/quoteId"}
	}
	conflict := func(name, code, field string, more ...domain.Fact) row {
		return row{name: name, given: with(quoted, more...), by: bob.AgentKey, when: take, err: code, class: domain.Conflict, field: field}
	}
	late := conflict("no quote can be withdrawn from the delivery deadline on", "request-closed", "/requestId")
	late.at = wished().DeliveryDeadline

	run(t, []row{{
		name:   "a bidder may withdraw its quote, even after the quote deadline",
		given:  quoted,
		by:     bob.AgentKey,
		at:     wished().QuoteDeadline.Add(hour),
		when:   take,
		then:   []domain.Fact{withdrawn(id, bob)},
		answer: domain.WithdrawQuoteAnswer{QuoteID: id, RequestID: requestID},
	}, {
		name:  "withdrawing needs no role",
		given: with(quoted, domain.Agents.Record(string(bob.AgentKey), domain.AgentRolesSet{})),
		by:    bob.AgentKey,
		when:  take,
		then:  []domain.Fact{withdrawn(id, bob)},
	}, {
		name: "the creator may not withdraw it", given: quoted, by: ann.AgentKey, when: take, err: "forbidden", field: "/quoteId",
	},
		noQuote("to another bidder it does not exist", quoted, cat.AgentKey, id),
		noQuote("to another bidder it does not exist once it is gone either", with(quoted, withdrawn(id, bob)), cat.AgentKey, id),
		noQuote("to the creator an unknown quote does not exist", asked(), ann.AgentKey, id),
		noQuote("what is no quote's id does not exist", quoted, bob.AgentKey, "qt_odd"),
		noQuote("a quote on another board does not exist",
			with(asked(func(t *domain.Terms) { t.Board = "attic" }), offered(id, bob)), bob.AgentKey, id),
		conflict("a replaced quote is gone", "quote-withdrawn", "/quoteId", offered(bobs, bob, func(e *domain.QuoteSubmitted) { e.Replaces = id })),
		conflict("a withdrawn quote is gone", "quote-withdrawn", "/quoteId", withdrawn(id, bob)),
		conflict("a picked quote is a promise", "already-picked", "/requestId", end(domain.RequestPicked{QuoteID: id})),
		conflict("a closed request is over", "request-closed", "/requestId", end(domain.RequestClosed{})),
		conflict("an expired request is over", "request-closed", "/requestId", end(domain.RequestExpired{})),
		late,
	})
}
