package mcp_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"sidequest/domain"
)

// An arrangement makes what a call meets, and returns arguments of the call.
type arrangement = func(s *scene) object

// asked is a request of the host, with the bidder about to quote.
func asked(change ...func(*domain.RequestQuotes)) arrangement {
	return func(s *scene) object { return bid(s.as("bidder"), s.ask(s.T, s.as("host"), change...)) }
}

// quoted is a request of the host with a quote of the bidder, both made so long ago.
func quoted(ago time.Duration) arrangement {
	return func(s *scene) object {
		at := time.Now().Add(-ago)
		id := s.askAt(s.T, s.as("host"), at)
		return object{"requestId": id, "quoteId": s.offerAt(s.T, s.as("bidder"), at, id)}
	}
}

// then adds what happened to the request and the quote of an arrangement.
func then(a arrangement, happens func(s *scene, id domain.RequestID, quote domain.QuoteID)) arrangement {
	return func(s *scene) object {
		args := a(s)
		id, _ := args["requestId"].(domain.RequestID)
		quote, _ := args["quoteId"].(domain.QuoteID)
		happens(s, id, quote)
		return args
	}
}

// only keeps one argument, for tools that take no more.
func only(member string, a arrangement) arrangement {
	return func(s *scene) object { return object{member: a(s)[member]} }
}

// but changes arguments.
func but(a arrangement, change object) arrangement {
	return func(s *scene) object { return with(a(s), change) }
}

func picked(s *scene, id domain.RequestID, quote domain.QuoteID) {
	do(s.T, s.market, s.as("host").key, domain.PickQuote{RequestID: id, QuoteID: quote})
}

func closed(s *scene, id domain.RequestID, _ domain.QuoteID) {
	do(s.T, s.market, s.as("host").key, domain.CloseRequest{RequestID: id})
}

func withdrawn(s *scene, _ domain.RequestID, quote domain.QuoteID) {
	do(s.T, s.market, s.as("bidder").key, domain.WithdrawQuote{QuoteID: quote})
}

func replaced(s *scene, id domain.RequestID, _ domain.QuoteID) {
	s.offer(s.T, s.as("bidder"), id)
}

func crowded(s *scene, id domain.RequestID, _ domain.QuoteID) {
	do(s.T, s.market, operator, crowd{id})
}

const days = 24 * time.Hour

// refusedQuotes are refusals of request_quotes and submit_quote that depend on
// what happened before.
func refusedQuotes() []refusal {
	const conflict, invalid = domain.Conflict, domain.Invalid
	costs := object{"expectedCosts": object{"token": art, "amount": "1"}}
	byApprover := func(s *scene) object {
		return asked(func(c *domain.RequestQuotes) { c.Approver = s.as("bidder").wallet })(s)
	}
	late := func(s *scene) object {
		return bid(s.as("bidder"), s.askAt(s.T, s.as("host"), time.Now().Add(-31*days)))
	}
	own := func(s *scene) object { return bid(s.as("host"), s.ask(s.T, s.as("host"))) }
	tooMany := func(s *scene) object {
		for range domain.MaxOpenRequests {
			s.ask(s.T, s.as("host"))
		}
		return nil
	}
	approver := func(s *scene) object {
		return object{"approver": s.as("bidder").wallet, "invite": object{"agentId": s.as("bidder").id}}
	}
	ownJudge := func(s *scene) object { return object{"arbitrator": s.as("host").wallet} }
	oneself := func(s *scene) object { return object{"invite": object{"agentId": s.as("host").id}} }
	return []refusal{
		{"a quote above the budget", "bidder", "submit_quote", nil, but(asked(), object{"amount": "25.000001"}), "over-budget", invalid, "/amount", "the budget of this request is 25"},
		{"a quote in another token", "bidder", "submit_quote", nil, but(asked(), object{"token": eth.Address}), "token-refused", invalid, "/token", "one of its tokens"},
		{"costs in a foreign token", "bidder", "submit_quote", nil, but(asked(), costs), "token-refused", invalid, "/expectedCosts/token", "protocol_info"},
		{"a note with U+0000", "bidder", "submit_quote", nil, but(asked(), object{"note": "\x00"}), "invalid", "", "/note", "control characters"},
		{"a note that is too long", "bidder", "submit_quote", nil, but(asked(), object{"note": strings.Repeat("é", 1001)}), "invalid", "", "/note", "at most 1000"},
		{"an amount of too many digits", "bidder", "submit_quote", nil, but(asked(), object{"amount": strings.Repeat("9", 31)}), "invalid", "", "/amount", "pattern"},
		{"a quote in the name of another", "bidder", "submit_quote", nil, but(asked(), object{"agentId": "1"}), "forbidden", "", "/agentId", "agent id of the calling agent"},
		{"a quote of the approver", "bidder", "submit_quote", nil, byApprover, "conflict-of-interest", invalid, "/requestId", "approver or arbitrator"},
		{"a quote on the own request", "host", "submit_quote", nil, own, "own-request", invalid, "/requestId", "its own request"},
		{"a quote on a closed request", "bidder", "submit_quote", nil, then(asked(), closed), "request-closed", conflict, "/requestId", "this request is closed"},
		{"a quote after the quote deadline", "bidder", "submit_quote", nil, late, "request-closed", conflict, "/requestId", "the quote deadline"},
		{"a quote on a full request", "bidder", "submit_quote", nil, then(asked(), crowded), "quotes-limit", conflict, "/requestId", "200 quotes"},
		{"a quote on nothing", "bidder", "submit_quote", nil, but(asked(), object{"requestId": "rq_none"}), "not-found", "", "/requestId", "no such quote request"},

		{"one request too many", "host", "request_quotes", wish(), tooMany, "requests-limit", conflict, "", "20 open requests"},
		{"a judge in the own cause", "host", "request_quotes", wish(), ownJudge, "conflict-of-interest", invalid, "/arbitrator", "the agent that asks"},
		{"an invitation to oneself", "host", "request_quotes", wish(), oneself, "conflict-of-interest", invalid, "/invite/agentId", "cannot invite itself"},
		{"an invitation to the approver", "host", "request_quotes", wish(), approver, "conflict-of-interest", invalid, "/invite/agentId", "cannot be invited"},
	}
}

// refusedPicks are refusals of pick_quote that depend on what happened before.
func refusedPicks() []refusal {
	const conflict, invalid = domain.Conflict, domain.Invalid
	now := quoted(0)
	spend := func(change object) arrangement {
		return but(now, object{"executionBudget": with(object{"kind": "advance", "cap": "1"}, change)})
	}
	return []refusal{
		{"a pick from the request of another", "bidder", "pick_quote", nil, now, "forbidden", "", "/requestId", "only the agent that opened"},
		{"a pick from nothing", "host", "pick_quote", nil, but(now, object{"requestId": "rq_none"}), "not-found", "", "/requestId", "no such quote request"},
		{"a pick of nothing", "host", "pick_quote", nil, but(now, object{"quoteId": "qt_none"}), "not-found", "", "/quoteId", "no such quote"},
		{"a second pick", "host", "pick_quote", nil, then(now, picked), "already-picked", conflict, "/requestId", "already been picked"},
		{"a pick from a closed request", "host", "pick_quote", nil, then(now, closed), "request-closed", conflict, "/requestId", "this request is closed"},
		{"a pick after the delivery deadline", "host", "pick_quote", nil, quoted(61 * days), "request-closed", conflict, "/requestId", "the delivery deadline"},
		{"a pick of a withdrawn quote", "host", "pick_quote", nil, then(now, withdrawn), "quote-withdrawn", conflict, "/quoteId", "replaced or withdrawn"},
		{"a pick of a replaced quote", "host", "pick_quote", nil, then(now, replaced), "quote-withdrawn", conflict, "/quoteId", "replaced or withdrawn"},
		{"a budget in a foreign token", "host", "pick_quote", nil, spend(object{"token": art}), "token-refused", invalid, "/executionBudget/token", "protocol_info"},
		{"a budget that outlives the work", "host", "pick_quote", nil, spend(object{"expiresAt": "61d"}), "deadline-order", invalid, "/executionBudget/expiresAt", "by the delivery deadline"},
		{"a budget for no function", "host", "pick_quote", nil, spend(object{"kind": "call", "target": art}), "invalid", "", "/executionBudget/function", "signature"},
		{"a budget of an unknown kind", "host", "pick_quote", nil, spend(object{"kind": "gift"}), "invalid", "", "/executionBudget/kind", "must be one of advance, call"},
	}
}

// refusedEnds are refusals of close_request and withdraw_quote.
func refusedEnds() []refusal {
	const conflict = domain.Conflict
	now := quoted(0)
	request := func(a arrangement) arrangement { return only("requestId", a) }
	quote := func(a arrangement) arrangement { return only("quoteId", a) }
	return []refusal{
		{"an end of another's request", "bidder", "close_request", nil, request(now), "forbidden", "", "/requestId", "only the agent that opened"},
		{"an end of nothing", "host", "close_request", object{"requestId": "rq_none"}, nil, "not-found", "", "/requestId", "no such quote request"},
		{"an end after a pick", "host", "close_request", nil, request(then(now, picked)), "already-picked", conflict, "/requestId", "already been picked"},
		{"an end after the end", "host", "close_request", nil, request(then(now, closed)), "request-closed", conflict, "/requestId", "this request is closed"},

		{"a withdrawal of another's quote", "stranger", "withdraw_quote", nil, quote(now), "not-found", "", "/quoteId", "not yours to see"},
		{"a withdrawal by the creator", "host", "withdraw_quote", nil, quote(now), "forbidden", "", "/quoteId", "only the agent that made"},
		{"a withdrawal of nothing", "bidder", "withdraw_quote", object{"quoteId": "qt_none"}, nil, "not-found", "", "/quoteId", "no such quote"},
		{"a withdrawal after a pick", "bidder", "withdraw_quote", nil, quote(then(now, picked)), "already-picked", conflict, "/requestId", "already been picked"},
		{"a withdrawal after the end", "bidder", "withdraw_quote", nil, quote(then(now, closed)), "request-closed", conflict, "/requestId", "this request is closed"},
		{"a second withdrawal", "bidder", "withdraw_quote", nil, quote(then(now, withdrawn)), "quote-withdrawn", conflict, "/quoteId", "replaced or withdrawn"},
	}
}

// refusedStrangers may not do what they ask for, or may not know what they ask
// about.
func refusedStrangers() []refusal {
	byDan := func(s *scene) object { return bid(s.as("dan"), s.ask(s.T, s.as("host"))) }
	used := func(s *scene) object {
		key := s.key()
		transports()[0].call(s.T, s.main, s.as("host").name, "request_quotes", encode(s.T, wish(object{"operationKey": key}))).result(s.T, &struct{}{})
		return object{"operationKey": key}
	}
	others := func(s *scene) object {
		a := transports()[0].call(s.T, s.main, s.as("host").name, "request_quotes", encode(s.T, wish(object{"operationKey": s.key()})))
		return object{"operationId": a.operation(s.T)}
	}
	return []refusal{
		{"a request without the role", "dan", "request_quotes", wish(), nil, "role-required", "", "", "the role hire"},
		{"a quote without the role", "dan", "submit_quote", nil, byDan, "role-required", "", "", "the role work"},
		{"a request in the name of another", "ann", "request_quotes", wish(object{"agentId": "2"}), nil, "forbidden", "", "/agentId", "agent id of the calling agent"},
		{"a key that was used for something else", "host", "request_quotes", wish(object{"title": "Another logo"}), used, "key-conflict", "", "/operationKey", "already used for another tool or with other arguments"},
		{"quotes on nothing", "ann", "list_quotes", object{"requestId": "rq_none"}, nil, "not-found", "", "/requestId", "no such quote request"},
		{"an operation that never was", "ann", "check_operation", object{"operationId": "op_none"}, nil, "not-found", "", "/operationId", "no operation with that id"},
		{"an operation of another", "ann", "check_operation", nil, others, "not-found", "", "/operationId", "no operation with that id"},
	}
}

// crowd fills a request with quotes of agents that nobody knows.
type crowd struct{ id domain.RequestID }

func (c crowd) Reads(domain.Meta) []domain.Stream {
	return []domain.Stream{domain.Requests.Stream(string(c.id))}
}

func (c crowd) Decide(states domain.States, _ domain.Meta) (facts []domain.Fact, answer struct{}, err error) {
	creator := domain.Requests.In(states, string(c.id)).Terms.Creator.AgentKey
	for i := range domain.MaxQuotes {
		n := strconv.Itoa(i)
		facts = append(facts, domain.Requests.Record(string(c.id), domain.QuoteSubmitted{
			QuoteID: domain.QuoteID("qt_" + n + string(c.id)), Creator: creator, Token: usd.Address, Amount: "20",
			Bidder: domain.Party{AgentKey: domain.AgentKey("ag_crowd" + n), AgentID: domain.AgentID("9" + n), Wallet: domain.Address(fmt.Sprintf("0xc000%036d", i))},
		}))
	}
	return facts, answer, nil
}
