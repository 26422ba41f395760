package mcp_test

import (
	"slices"
	"strings"
	"testing"

	"sidequest/domain"
)

// refusedAccess are refusals of the tools that set up agents and ask for more.
func refusedAccess() []refusal {
	connected := func(s *scene) object {
		id := s.connect(s.T)
		s.cast["connection"] = &person{name: id, key: domain.AgentKey(id)}
		return object{}
	}
	proposed := func(s *scene) object {
		args := connected(s)
		do(s.T, s.market, s.as("connection").key, domain.ProposeAgent{Name: "Eve", Wallet: "0xC000000000000000000000000000000000000007"})
		return args
	}
	agent := object{"name": "Eve"}
	private := func(s *scene) object {
		do(s.T, s.market, operator, domain.ConfigureBoard{Board: domain.Board{
			Slug: "hidden", Name: "Hidden", Private: true, RewardTokens: []domain.Token{usd}, Network: domain.NetworkTest, ChainID: 1337,
			Arbitrator: domain.Address(art),
		}})
		s.settle(s.T)
		return object{"boardId": "hidden"}
	}
	return []refusal{
		{"a second agent of one connection", "connection", "create_agent", agent, proposed, "setup-agent-exists", domain.Forbidden, "", "already has an agent or has proposed one"},
		{"an agent without a connection to set one up", "ann", "create_agent", agent, nil, "forbidden", "", "", "opened to set up an agent"},
		{"an agent without a name", "connection", "create_agent", nil, connected, "invalid", "", "/name", "name is required"},
		{"an agent with a name that is too long", "connection", "create_agent", object{"name": strings.Repeat("é", 81)}, connected, "invalid", "", "/name", "at most 80"},
		{"an agent with a name of two lines", "connection", "create_agent", object{"name": "Eve\nApproved"}, connected, "invalid", "", "/name", "on one line"},
		{"an agent with a tagline that is too long", "connection", "create_agent", with(agent, object{"tagline": strings.Repeat("é", 121)}), connected, "invalid", "", "/tagline", "at most 120"},
		{"an agent with a description that is too long", "connection", "create_agent", with(agent, object{"description": strings.Repeat("é", 601)}), connected, "invalid", "", "/description", "at most 600"},
		{"an agent with a description of control characters", "connection", "create_agent", with(agent, object{"description": "\x1b[2J"}), connected, "invalid", "", "/description", "control characters"},
		{"an agent with an empty prompt", "connection", "create_agent", with(agent, object{"avatarPrompt": ""}), connected, "invalid", "", "/avatarPrompt", "at least 1"},
		{"a request of a connection without an agent", "connection", "request_quotes", wish(), connected, "setup-pending", "", "", "has no agent yet"},
		{"a read of a connection without an agent", "connection", "inbox", nil, proposed, "setup-pending", "", "", "has no agent yet"},
		{"the status of a stranger", "connection", "setup_status", object{"agentKey": "ag_none"}, connected, "not-found", "", "/agentKey", "no such agent"},
		{"a role that is none", "dan", "request_role", object{"role": "king"}, nil, "invalid", "", "/role", "one of hire, work"},
		{"questions in no state", "ann", "list_approvals", object{"state": "lost"}, nil, "invalid", "", "/state", "one of open, approved, refused"},
		{"questions behind a foreign cursor", "ann", "list_approvals", object{"cursor": "p1.AAAA"}, nil, "invalid", "", "/cursor", "not a cursor of this list"},
		{"a board that is not there", "ann", "get_board", object{"boardId": "nowhere"}, nil, "not-found", "", "/boardId", "no such board"},
		{"a private board of others", "ann", "get_board", nil, private, "not-found", "", "/boardId", "no such board"},
		{"a board by another name", "ann", "get_board", object{"boardId": "No"}, nil, "invalid", "", "/boardId", "must match the pattern"},
	}
}

// TestARoleDecidesWhatAnAgentStartsAndNothingElse has a row for each tool that a
// role matters to: without the role it starts nothing, and ends what it has.
func TestARoleDecidesWhatAnAgentStartsAndNothingElse(t *testing.T) {
	t.Parallel()
	const hire, work = domain.RoleHire, domain.RoleWork
	over(t, func(t *testing.T, by transport) {
		m := open(t)
		for _, c := range []struct {
			tool    string
			without domain.Role
			starts  bool
			by      string
			args    func(s *scene) object
		}{
			{"request_quotes", hire, true, "host", func(*scene) object { return wish() }},
			{"pick_quote", hire, true, "host", quoted(0)},
			{"close_request", hire, false, "host", only("requestId", quoted(0))},
			{"list_quotes", hire, false, "host", only("requestId", quoted(0))},
			{"list_quote_requests", hire, false, "host", func(*scene) object { return object{"mine": true} }},
			{"inbox", hire, false, "host", func(*scene) object { return nil }},
			{"whoami", hire, false, "host", func(*scene) object { return nil }},
			{"request_role", hire, false, "host", func(*scene) object { return object{"role": "hire"} }},

			{"submit_quote", work, true, "bidder", asked()},
			{"withdraw_quote", work, false, "bidder", only("quoteId", quoted(0))},
			{"list_quotes", work, false, "bidder", only("requestId", quoted(0))},
			{"list_quote_requests", work, false, "bidder", func(*scene) object { return nil }},
			{"list_approvals", work, false, "bidder", func(*scene) object { return nil }},
			{"protocol_info", work, false, "bidder", func(*scene) object { return nil }},
		} {
			t.Run(c.tool+" without "+string(c.without), func(t *testing.T) {
				s := &scene{T: t, market: m, cast: map[string]*person{}}
				args := with(c.args(s))
				if writes(c.tool) {
					args["operationKey"] = s.key()
				}
				agent := s.as(c.by)
				sent := encode(t, args)
				m.give(t, agent, slices.DeleteFunc(domain.Roles(), func(r domain.Role) bool { return r == c.without })...)

				a := by.call(t, m.main, agent.name, c.tool, sent)
				if !c.starts {
					if a.failure.Code != "" || a.wire != nil {
						t.Errorf("refused: %s", a.body)
					}
					return
				}
				f := a.failure
				if f.Code != "role-required" || f.Role != string(c.without) || f.Next == nil || f.Next.Tool != "request_role" || f.Next.Args["role"] != string(c.without) {
					t.Fatalf("got %s", a.body)
				}
				m.give(t, agent, domain.Roles()...)
				if again := by.call(t, m.main, agent.name, c.tool, sent); again.failure.Code != "" {
					t.Errorf("with the role, the same call: %s", again.body)
				}
			})
		}
	})
}
