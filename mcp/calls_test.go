package mcp_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
	"sidequest/projections"
)

// The answers of the tools, as a client reads them.
type (
	opened struct {
		RequestID   string           `json:"requestId"`
		RequestHash string           `json:"requestHash"`
		Deadlines   domain.Deadlines `json:"deadlines"`
		Invite      *domain.Invited  `json:"invite"`
	}
	submitted struct {
		QuoteID  string `json:"quoteId"`
		Replaced string `json:"replaced"`
	}
	notices struct {
		Events []struct {
			EventID string `json:"eventId"`
			Data    struct {
				Kind string `json:"kind"`
			} `json:"data"`
		} `json:"events"`
		Cursor  string `json:"cursor"`
		HasMore bool   `json:"hasMore"`
	}
)

// kinds lists what happened, oldest first.
func (n notices) kinds() []string {
	var all []string
	for _, e := range n.Events {
		all = append(all, e.Data.Kind)
	}
	return all
}

// write makes a write and repeats it over every transport: each answers the very
// same.
func (m *market) write(t *testing.T, by transport, token, tool string, args object) answer {
	t.Helper()
	sent := encode(t, with(object{"operationKey": m.key()}, args))
	first := by.call(t, m.main, token, tool, sent)
	events, receipts := m.logged(t)
	for _, other := range transports() {
		again := other.call(t, m.main, token, tool, sent)
		if again.body != first.body || again.status != first.status && other.name == by.name {
			t.Errorf("%s over %s answers %s, and repeated over %s %s", tool, by.name, first.body, other.name, again.body)
		}
	}
	if e, r := m.logged(t); e != events || r != receipts {
		t.Errorf("repeats of %s recorded %d events and %d receipts", tool, e-events, r-receipts)
	}
	return first
}

func TestADealIsStruckOverEachTransport(t *testing.T) {
	t.Parallel()
	over(t, func(t *testing.T, by transport) {
		m := open(t)
		bob := m.person("bob")

		var request opened
		m.write(t, by, "ann", "request_quotes", wish(object{"invite": object{"agentId": bob.id}})).result(t, &request)
		if request.Invite == nil || request.Invite.AgentID != bob.id || len(request.RequestHash) != 66 {
			t.Errorf("the request is %+v", request)
		}

		m.settle(t)
		var work projections.RequestList
		by.call(t, m.main, "bob", "list_quote_requests", `{}`).result(t, &work)
		if len(work.Requests) != 1 || work.Requests[0].RequestID != domain.RequestID(request.RequestID) || work.Requests[0].Work.Title != "A logo" {
			t.Fatalf("bob finds %+v", work)
		}
		var quote, better, cats submitted
		id := domain.RequestID(request.RequestID)
		m.write(t, by, "bob", "submit_quote", bid(bob, id)).result(t, &quote)
		m.write(t, by, "bob", "submit_quote", with(bid(bob, id), object{"amount": "19.5"})).result(t, &better)
		m.write(t, by, "cat", "submit_quote", bid(m.person("cat"), id)).result(t, &cats)
		if better.Replaced != quote.QuoteID {
			t.Errorf("the second quote %+v does not replace %s", better, quote.QuoteID)
		}

		m.settle(t)
		var quotes projections.QuoteList
		by.call(t, m.main, "ann", "list_quotes", encode(t, object{"requestId": id})).result(t, &quotes)
		if len(quotes.Quotes) != 2 || quotes.Quotes[0].Amount != "19.5" || quotes.RequestHash != request.RequestHash {
			t.Errorf("ann chooses from %+v", quotes)
		}
		var hire domain.PickQuoteAnswer
		m.write(t, by, "ann", "pick_quote", object{"requestId": id, "quoteId": better.QuoteID}).result(t, &hire)
		if hire.TaskID == "" || hire.Selection.Status != "awaiting-publish" {
			t.Errorf("the hire is %+v", hire)
		}

		m.settle(t)
		for name, want := range map[string][]string{
			"ann": {"request.opened", "quote.received", "quote.received", "quote.received", "request.picked"},
			"bob": {"request.opened", "quote.invited", "request.picked"},
			"cat": {"request.opened", "request.picked", "quote.lost"},
		} {
			var heard notices
			by.call(t, m.main, name, "inbox", `{}`).result(t, &heard)
			if diff := cmp.Diff(want, heard.kinds()); diff != "" {
				t.Errorf("%s hears (-want +got):\n%s", name, diff)
			}
		}
	})
}

func TestWhatIsTakenBackIsGone(t *testing.T) {
	t.Parallel()
	over(t, func(t *testing.T, by transport) {
		m := open(t)
		id := m.ask(t, m.person("ann"))
		quote := m.offer(t, m.person("bob"), id)

		m.write(t, by, "bob", "withdraw_quote", object{"quoteId": quote}).result(t, &submitted{})
		m.settle(t)
		var quotes projections.QuoteList
		by.call(t, m.main, "ann", "list_quotes", encode(t, object{"requestId": id})).result(t, &quotes)
		if len(quotes.Quotes) != 0 {
			t.Errorf("the withdrawn quote still stands: %+v", quotes)
		}

		m.write(t, by, "ann", "close_request", object{"requestId": id}).result(t, &opened{})
		m.settle(t)
		for args, want := range map[string]int{`{}`: 0, `{"mine":true}`: 0, `{"recent":true}`: 1} {
			var list projections.RequestList
			by.call(t, m.main, "bob", "list_quote_requests", args).result(t, &list)
			if len(list.Requests) != want {
				t.Errorf("bob asks for %s and finds %d requests, want %d", args, len(list.Requests), want)
			}
		}
	})
}

func TestCheckOperationShowsTheEvidence(t *testing.T) {
	t.Parallel()
	over(t, func(t *testing.T, by transport) {
		m := open(t)
		a := m.write(t, by, "ann", "request_quotes", wish())
		var request, recorded opened
		a.result(t, &request)
		var op struct {
			Tool    string          `json:"tool"`
			Status  string          `json:"status"`
			Result  json.RawMessage `json:"result"`
			Receipt struct {
				Facts []struct {
					EventID string `json:"eventId"`
					Type    string `json:"type"`
					Hash    string `json:"hash"`
				} `json:"facts"`
			} `json:"receipt"`
		}
		by.call(t, m.main, "ann", "check_operation", encode(t, object{"operationId": a.operation(t)})).result(t, &op)
		if err := json.Unmarshal(op.Result, &recorded); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(request, recorded); diff != "" || op.Status != "confirmed" || op.Tool != "request_quotes" {
			t.Errorf("the operation is %+v (-answered +recorded):\n%s", op, diff)
		}
		var types []string
		for _, f := range op.Receipt.Facts {
			types = append(types, f.Type)
			if len(f.Hash) != 64 || f.EventID == "" {
				t.Errorf("%s has the id %q and the hash %q", f.Type, f.EventID, f.Hash)
			}
		}
		slices.Sort(types)
		if diff := cmp.Diff([]string{"agent.request_opened", "request.opened"}, types); diff != "" {
			t.Errorf("facts (-want +got):\n%s", diff)
		}
	})
}

func TestEachAgentSeesItselfAndTheBoard(t *testing.T) {
	t.Parallel()
	m := open(t)
	for _, by := range transports() {
		var me struct {
			Address string   `json:"address"`
			AgentID string   `json:"agentId"`
			BoardID string   `json:"boardId"`
			ChainID int      `json:"chainId"`
			Roles   []string `json:"roles"`
		}
		a := by.call(t, m.main, "ann:hire", "whoami", `{}`)
		a.result(t, &me)
		ann := m.person("ann")
		if me.AgentID != string(ann.id) || me.BoardID != "main" || me.ChainID != 1337 || !strings.EqualFold(me.Address, string(ann.wallet)) {
			t.Errorf("ann is %+v", me)
		}
		if diff := cmp.Diff([]string{"hire"}, me.Roles); diff != "" {
			t.Errorf("the roles are not those that the scope covers (-want +got):\n%s", diff)
		}
		if !strings.Contains(a.body, `"name":"ann"`) || !strings.Contains(a.body, `"id":"sq_`) {
			t.Errorf("name and id are not beside the result: %s", a.body)
		}

		var info struct {
			Network      string         `json:"network"`
			RewardTokens []domain.Token `json:"rewardTokens"`
			Limits       map[string]int `json:"limits"`
		}
		by.call(t, m.main, "ann:read", "protocol_info", `{}`).result(t, &info)
		if diff := cmp.Diff([]domain.Token{usd, eth}, info.RewardTokens); diff != "" || info.Network != "test" || info.Limits["openRequestsPerAgent"] != 20 {
			t.Errorf("the board is %+v:\n%s", info, diff)
		}
	}
}

func TestArgumentsAreReadForWhatTheyMean(t *testing.T) {
	t.Parallel()
	over(t, func(t *testing.T, by transport) {
		m := open(t)
		cafe := "e\u0301" // é, in two code points
		deadline := time.Now().Add(48 * time.Hour).Truncate(time.Second)
		m.write(t, by, "ann", "request_quotes", wish(object{
			"title":         strings.Repeat(cafe, 120), // 120 characters, as people count
			"budget":        nil,
			"tokens":        []string{strings.ToLower(string(usd.Address)), "0x" + strings.ToUpper(string(eth.Address[2:]))},
			"approver":      "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359",
			"windows":       object{"reviewSeconds": json.Number("7.2e3")},
			"quoteDeadline": json.Number(strconv.FormatInt(deadline.Unix(), 10) + ".0"),
		})).result(t, &opened{})

		m.settle(t)
		var list projections.RequestList
		by.call(t, m.main, "bob", "list_quote_requests", `{}`).result(t, &list)
		r := list.Requests[0]
		if r.Work.Title != domain.Foreign(strings.Repeat("é", 120)) {
			t.Errorf("the title is not in normal form C: %q", r.Work.Title)
		}
		if diff := cmp.Diff([]domain.Address{usd.Address, eth.Address}, r.Tokens); diff != "" {
			t.Errorf("tokens (-want +got):\n%s", diff)
		}
		if r.Windows.ReviewSeconds != 7200 || !r.Deadlines.Quote.Equal(deadline) {
			t.Errorf("the review takes %d s, quotes end %v, want 7200 and %v", r.Windows.ReviewSeconds, r.Deadlines.Quote, deadline)
		}
		var approver string
		err := m.main.DB.QueryRow(t.Context(), `
			SELECT convert_from(data, 'UTF8')::jsonb #>> '{terms,approver}'
			FROM log.events
			WHERE type = 'request.opened'`).Scan(&approver)
		if err != nil || approver != "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359" {
			t.Errorf("the approver is kept as %s (%v)", approver, err)
		}
		by.call(t, m.main, "bob", "inbox", `{"limit":2.0,"includePublic":false}`).result(t, &notices{})
	})
}

func TestNoArgumentsAreAnEmptyObject(t *testing.T) {
	t.Parallel()
	m := open(t)
	legacy := func(params string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params+`}`))
		r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
		return r
	}
	for name, r := range map[string]*http.Request{
		"absent": legacy(`{"name":"inbox"}`),
		"null":   legacy(`{"name":"inbox","arguments":null}`),
		"empty":  httptest.NewRequest(http.MethodPost, "/api/inbox", nil),
		"blank":  httptest.NewRequest(http.MethodPost, "/api/inbox", strings.NewReader(" \n")),
	} {
		r.Header.Set("Authorization", "Bearer ann")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		m.main.ServeHTTP(w, r)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"events":[]`) {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
	}
}
