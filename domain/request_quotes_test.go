package domain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
)

const hour = time.Hour

// wish is a request that leaves everything open that may be.
func wish(change ...func(*domain.RequestQuotes)) domain.RequestQuotes {
	c := domain.RequestQuotes{
		Title:              "Translate a page",
		Brief:              "From English to Danish.",
		AcceptanceCriteria: []string{"Every sentence is translated."},
		Tokens:             []domain.Address{usd.Address},
		QuoteDeadline:      "24h",
		DeliveryDeadline:   "3d",
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// wished is what wish freezes when Ann gives it at noon.
func wished(change ...func(*domain.Terms)) domain.Terms {
	second := noon.Truncate(time.Second)
	t := domain.Terms{
		RequestID:          requestID,
		Board:              "main",
		ChainID:            1337,
		Creator:            ann,
		Title:              "Translate a page",
		Brief:              "From English to Danish.",
		AcceptanceCriteria: []string{"Every sentence is translated."},
		Tokens:             []domain.Token{usd},
		CreatorBond:        "1",
		WorkerBond:         "1",
		CreatedAt:          second,
		QuoteDeadline:      second.Add(24 * hour),
		DeliveryDeadline:   second.Add(72 * hour),
		Approver:           ann.Wallet,
		Windows:            domain.Windows{ReviewSeconds: 36 * 3600, DisputeSeconds: 36 * 3600, ArbitrationSeconds: 72 * 3600},
		Arbitrator:         art,
		Stack:              "standard",
		Deliverable:        domain.Deliverable{Accepts: []domain.DeliverableKind{"git", "patch", "artifact", "url", "onchain"}},
	}
	for _, f := range change {
		f(&t)
	}
	return t
}

var requestID = domain.RequestID(meta(ann.AgentKey, noon).NewID("rq"))

// opened are the facts of a request with such terms.
func opened(t domain.Terms) []domain.Fact {
	id := string(t.RequestID)
	facts := []domain.Fact{domain.Requests.Record(id, domain.RequestOpened{Terms: t, RequestHash: keccak(t)})}
	if t.Invite != nil {
		facts = append(facts, domain.Requests.Record(id, domain.QuoteInvited{Invite: *t.Invite}))
	}
	return append(facts, domain.Agents.Record(string(t.Creator.AgentKey), domain.AgentRequestOpened{
		RequestID: t.RequestID, OpenedAt: t.CreatedAt, DeliveryDeadline: t.DeliveryDeadline,
	}))
}

func TestRequestQuotesFreezesTheTerms(t *testing.T) {
	t.Parallel()

	answer := func(t domain.Terms, invite *domain.Invited) domain.RequestQuotesAnswer {
		return domain.RequestQuotesAnswer{
			RequestID:   t.RequestID,
			RequestHash: keccak(t),
			Deadlines:   domain.Deadlines{Quote: t.QuoteDeadline, Delivery: t.DeliveryDeadline},
			Invite:      invite,
		}
	}
	type change = func(*domain.RequestQuotes)
	type frozen = func(*domain.Terms)
	for _, tt := range []struct {
		name string
		wish change
		want frozen
	}{
		{"what is left open is filled in", func(*domain.RequestQuotes) {}, func(*domain.Terms) {}},
		{"a token is frozen in the board's spelling", func(c *domain.RequestQuotes) {
			c.Tokens = []domain.Address{"0xf0000000000000000000000000000000000000bb", usd.Address}
		}, func(t *domain.Terms) { t.Tokens = []domain.Token{eth, usd} }},
		{"a budget stands in for the tokens", func(c *domain.RequestQuotes) {
			c.Tokens, c.Budget = nil, &domain.Budget{Token: "0xf0000000000000000000000000000000000000aa", Max: "25.5"}
		}, func(t *domain.Terms) { t.Budget = &domain.Budget{Token: usd.Address, Max: "25.5"} }},
		{"an invited agent is resolved", func(c *domain.RequestQuotes) { c.Invite = &domain.Invite{AgentID: "2"} },
			func(t *domain.Terms) { t.Invite = &bob }},
		{"an approver of one's own choice is kept", func(c *domain.RequestQuotes) { c.Approver = dan.Wallet },
			func(t *domain.Terms) { t.Approver = dan.Wallet }},
		{"an arbitrator of one's own choice is kept", func(c *domain.RequestQuotes) { c.Arbitrator = dan.Wallet },
			func(t *domain.Terms) { t.Arbitrator = dan.Wallet }},
		{"bonds above the floor are kept", func(c *domain.RequestQuotes) { c.CreatorBond, c.WorkerBond = "1.000000", "12.5" },
			func(t *domain.Terms) { t.CreatorBond, t.WorkerBond = "1.000000", "12.5" }},
		{"explicit windows are kept and the others fitted", func(c *domain.RequestQuotes) {
			c.Windows = &domain.Windows{ReviewSeconds: 3600, ArbitrationSeconds: 14 * 86400}
		}, func(t *domain.Terms) {
			t.Windows = domain.Windows{ReviewSeconds: 3600, DisputeSeconds: 36 * 3600, ArbitrationSeconds: 14 * 86400}
		}},
		{"a short job gets the shortest windows", func(c *domain.RequestQuotes) { c.QuoteDeadline, c.DeliveryDeadline = "10m", "30m" },
			func(t *domain.Terms) {
				t.QuoteDeadline, t.DeliveryDeadline = t.CreatedAt.Add(hour/6), t.CreatedAt.Add(hour/2)
				t.Windows = domain.Windows{ReviewSeconds: 3600, DisputeSeconds: 3600, ArbitrationSeconds: 12 * 3600}
			}},
		{"a long job gets the longest windows", func(c *domain.RequestQuotes) { c.DeliveryDeadline = "365d" },
			func(t *domain.Terms) {
				t.DeliveryDeadline = t.CreatedAt.Add(365 * 24 * hour)
				t.Windows = domain.Windows{ReviewSeconds: 14 * 86400, DisputeSeconds: 14 * 86400, ArbitrationSeconds: 14 * 86400}
			}},
		{"a stack of the board may be chosen", func(c *domain.RequestQuotes) { c.Stack = "swift" },
			func(t *domain.Terms) { t.Stack = "swift" }},
		{"a deliverable of one's own choice is kept", func(c *domain.RequestQuotes) {
			c.Deliverable = &domain.Deliverable{Accepts: []domain.DeliverableKind{"git"}, Target: "docs"}
		}, func(t *domain.Terms) {
			t.Deliverable = domain.Deliverable{Accepts: []domain.DeliverableKind{"git"}, Target: "docs"}
		}},
		{"tags and checks are kept", func(c *domain.RequestQuotes) {
			c.Tags, c.RequiredChecks = []domain.Tag{"writing"}, []string{"Spelling"}
		},
			func(t *domain.Terms) { t.Tags, t.RequiredChecks = []domain.Tag{"writing"}, []string{"Spelling"} }},
		{"one's own agent id may be given", func(c *domain.RequestQuotes) { c.AgentID = "1" }, func(*domain.Terms) {}},
	} {
		terms := wished(tt.want)
		var invited *domain.Invited
		if terms.Invite != nil {
			invited = &domain.Invited{AgentID: terms.Invite.AgentID, Wallet: terms.Invite.Wallet}
		}
		run(t, []row{{
			name:   tt.name,
			given:  market(),
			by:     ann.AgentKey,
			when:   do(wish(tt.wish)),
			then:   opened(terms),
			answer: answer(terms, invited),
		}})
	}
}

func TestTheBoardFillsInItsDefaults(t *testing.T) {
	t.Parallel()

	board := square
	board.DefaultApprover, board.Stacks = dan.Wallet, nil
	board.Windows = &domain.WindowBounds{
		Review:      domain.WindowRange{MinSeconds: 1, MaxSeconds: 60},
		Dispute:     domain.WindowRange{MinSeconds: 1, MaxSeconds: 70},
		Arbitration: domain.WindowRange{MinSeconds: 1, MaxSeconds: 80},
	}
	run(t, []row{{
		name:  "approver, stack and windows come from the board",
		given: with(market(), domain.Boards.Record("main", domain.BoardConfigured{Board: board})),
		by:    ann.AgentKey,
		when:  do(wish()),
		then: opened(wished(func(t *domain.Terms) {
			t.Approver, t.Stack = dan.Wallet, ""
			t.Windows = domain.Windows{ReviewSeconds: 60, DisputeSeconds: 70, ArbitrationSeconds: 80}
		})),
	}})
}

func TestRequestQuotesRefuses(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		name   string
		change func(*domain.RequestQuotes)
		err    string
		field  string
	}{
		{"a title that shows nothing", func(c *domain.RequestQuotes) { c.Title = "\u200b\u3164\ufeff" }, "invalid", "/title"},
		{"a title that is no text", func(c *domain.RequestQuotes) { c.Title = "a\ufffe" }, "invalid", "/title"},
		{"a blank title", func(c *domain.RequestQuotes) { c.Title = " \n" }, "invalid", "/title"},
		{"a control character in the brief", func(c *domain.RequestQuotes) { c.Brief = "a\x00b" }, "invalid", "/brief"},
		{"a blank criterion", func(c *domain.RequestQuotes) { c.AcceptanceCriteria = []string{"ok", ""} }, "invalid", "/acceptanceCriteria/1"},
		{"a blank check", func(c *domain.RequestQuotes) { c.RequiredChecks = []string{""} }, "invalid", "/requiredChecks/0"},
		{"a tag named twice", func(c *domain.RequestQuotes) { c.Tags = []domain.Tag{"other", "other"} }, "invalid", "/tags/1"},
		{"neither tokens nor budget", func(c *domain.RequestQuotes) { c.Tokens = nil }, "invalid", "/tokens"},
		{"both tokens and budget", func(c *domain.RequestQuotes) { c.Budget = &domain.Budget{Token: usd.Address, Max: "1"} }, "invalid", "/tokens"},
		{"a token the board does not list", func(c *domain.RequestQuotes) { c.Tokens = append(c.Tokens, art) }, "token-refused", "/tokens/1"},
		{"a token named twice", func(c *domain.RequestQuotes) { c.Tokens = append(c.Tokens, usd.Address) }, "invalid", "/tokens/1"},
		{"a budget in a token the board does not list", budget(art, "1"), "token-refused", "/budget/token"},
		{"a budget of nothing", budget(usd.Address, "0.00"), "invalid", "/budget/max"},
		{"a budget with leading zeros", budget(usd.Address, "01"), "invalid", "/budget/max"},
		{"a budget finer than the token", budget(usd.Address, "1.0000000"), "invalid", "/budget/max"},
		{"a budget that is no number", budget(usd.Address, "1e3"), "invalid", "/budget/max"},
		{"a creator bond below the floor", func(c *domain.RequestQuotes) { c.CreatorBond = "0.999999" }, "invalid", "/creatorBond"},
		{"a worker bond below the floor", func(c *domain.RequestQuotes) { c.WorkerBond = "0.5" }, "invalid", "/workerBond"},
		{"a bond finer than one of the tokens", func(c *domain.RequestQuotes) {
			c.Tokens, c.WorkerBond = []domain.Address{eth.Address, usd.Address}, "1.0000001"
		}, "invalid", "/workerBond"},
		{"a quote deadline that is no time", func(c *domain.RequestQuotes) { c.QuoteDeadline = "soon" }, "invalid", "/quoteDeadline"},
		{"a delivery deadline that is no time", func(c *domain.RequestQuotes) { c.DeliveryDeadline = "" }, "invalid", "/deliveryDeadline"},
		{"a quote deadline that has passed", func(c *domain.RequestQuotes) { c.QuoteDeadline = "2026-07-28T12:00:00Z" }, "deadline-order", "/quoteDeadline"},
		{"a quote deadline at the delivery deadline", func(c *domain.RequestQuotes) { c.QuoteDeadline = "3d" }, "deadline-order", "/quoteDeadline"},
		{"a delivery more than a year away", func(c *domain.RequestQuotes) { c.DeliveryDeadline = "366d" }, "deadline-order", "/deliveryDeadline"},
		{"a review that is too short", func(c *domain.RequestQuotes) { c.Windows = &domain.Windows{ReviewSeconds: 3599} }, "window-bounds", "/windows/reviewSeconds"},
		{"a dispute that is too long", func(c *domain.RequestQuotes) { c.Windows = &domain.Windows{DisputeSeconds: 14*86400 + 1} }, "window-bounds", "/windows/disputeSeconds"},
		{"an arbitration that is too short", func(c *domain.RequestQuotes) { c.Windows = &domain.Windows{ArbitrationSeconds: 12*3600 - 1} }, "window-bounds", "/windows/arbitrationSeconds"},
		{"a stack the board does not have", func(c *domain.RequestQuotes) { c.Stack = "slow" }, "invalid", "/stack"},
		{"a deliverable kind named twice", func(c *domain.RequestQuotes) {
			c.Deliverable = &domain.Deliverable{Accepts: []domain.DeliverableKind{"git", "git"}}
		}, "invalid", "/deliverable/accepts/1"},
		{"a control character in the target", func(c *domain.RequestQuotes) {
			c.Deliverable = &domain.Deliverable{Accepts: []domain.DeliverableKind{"git"}, Target: "\x1b"}
		}, "invalid", "/deliverable/target"},
		{"nobody as approver", func(c *domain.RequestQuotes) { c.Approver = noWallet }, "invalid", "/approver"},
		{"nobody as arbitrator", func(c *domain.RequestQuotes) { c.Arbitrator = noWallet }, "invalid", "/arbitrator"},
		{"an arbitrator who is the creator", func(c *domain.RequestQuotes) { c.Arbitrator = ann.Wallet }, "conflict-of-interest", "/arbitrator"},
		{"an arbitrator who is the approver", func(c *domain.RequestQuotes) { c.Approver = art }, "conflict-of-interest", "/arbitrator"},
		{"an invited agent that does not exist", invite("99"), "invite-unknown", "/invite/agentId"},
		{"oneself as the invited agent", invite("1"), "conflict-of-interest", "/invite/agentId"},
		{"the approver as the invited agent", func(c *domain.RequestQuotes) { invite("2")(c); c.Approver = bob.Wallet }, "conflict-of-interest", "/invite/agentId"},
		{"the arbitrator as the invited agent", func(c *domain.RequestQuotes) { invite("2")(c); c.Arbitrator = bob.Wallet }, "conflict-of-interest", "/invite/agentId"},
	} {
		run(t, []row{{
			name: tt.name, given: market(), by: ann.AgentKey, when: do(wish(tt.change)),
			err: tt.err, class: domain.Invalid, field: tt.field,
		}})
	}
}

func budget(token domain.Address, most domain.Amount) func(*domain.RequestQuotes) {
	return func(c *domain.RequestQuotes) { c.Tokens, c.Budget = nil, &domain.Budget{Token: token, Max: most} }
}

func invite(id domain.AgentID) func(*domain.RequestQuotes) {
	return func(c *domain.RequestQuotes) { c.Invite = &domain.Invite{AgentID: id} }
}

func TestWhoMayRequestQuotes(t *testing.T) {
	t.Parallel()

	other := func(c *domain.RequestQuotes) { c.AgentID = "2" }
	run(t, []row{
		{name: "a stranger may not", given: market(), by: "ag_stranger", when: do(wish()), err: "forbidden"},
		{name: "an agent without the role hire may not", given: market(), by: bob.AgentKey, when: do(wish()), err: "role-required"},
		{name: "an agent may not ask in another's name", given: market(), by: ann.AgentKey, when: do(wish(other)), err: "forbidden", field: "/agentId"},
		{name: "nobody may on a board that does not exist", given: market()[1:], by: ann.AgentKey, when: do(wish()), err: "not-found"},
	})
}

func TestARefusalForWantOfARoleNamesTheRoleAndTheWayToIt(t *testing.T) {
	t.Parallel()

	_, _, err := do(wish()).play(t, market(), meta(dan.AgentKey, noon))

	want := &domain.Error{
		Class: domain.RoleRequired, Code: "role-required", Role: "hire",
		Message: "this agent has not been given the role hire; ask its operator for it",
		Next:    &domain.Step{Tool: "request_role", Args: map[string]any{"role": "hire"}},
	}
	if diff := cmp.Diff(error(want), err); diff != "" {
		t.Fatalf("refusal (-want +got):\n%s", diff)
	}
}

func TestAnAgentHasAtMostTwentyOpenRequests(t *testing.T) {
	t.Parallel()

	full := market()
	for i := range domain.MaxOpenRequests {
		full = with(full, opened(wished(func(t *domain.Terms) { t.RequestID = domain.RequestID(fmt.Sprintf("rq_%020d", i)) }))[1])
	}
	settled := with(full, domain.Agents.Record(string(ann.AgentKey), domain.AgentRequestSettled{RequestID: "rq_00000000000000000007"}))
	later := noon.Add(72 * hour)
	run(t, []row{
		{name: "the twenty-first is refused", given: full, by: ann.AgentKey, when: do(wish()), err: "requests-limit", class: domain.Conflict},
		{name: "a rule that is broken is named before the limit", given: full, by: ann.AgentKey, when: do(wish(invite("99"))),
			err: "invite-unknown", class: domain.Invalid, field: "/invite/agentId"},
		{name: "a settled one makes room", given: settled, by: ann.AgentKey, when: do(wish()), then: opened(wished())},
		{name: "those whose delivery deadline has come no longer count", given: full, by: ann.AgentKey, at: later, when: do(wish()),
			then: opened(wished(func(t *domain.Terms) {
				t.CreatedAt, t.QuoteDeadline, t.DeliveryDeadline = t.CreatedAt.Add(72*hour), t.QuoteDeadline.Add(72*hour), t.DeliveryDeadline.Add(72*hour)
			}))},
		{name: "another agent is free to open one", given: full, by: cat.AgentKey, when: do(wish()), then: opened(wished(func(t *domain.Terms) {
			t.RequestID, t.Creator, t.Approver = domain.RequestID(meta(cat.AgentKey, noon).NewID("rq")), cat, cat.Wallet
		}))},
	})
}
