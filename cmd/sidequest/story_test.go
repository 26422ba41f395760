package main

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"sidequest/mcp"
	"sidequest/projections"
)

// bearer adds a token to what a client sends that knows of none.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// A session is an agent at work with a client that is not ours.
type session struct {
	*sdk.ClientSession

	agent *agent
}

// connect connects an independent client in the agent's revision of the protocol.
func (a *agent) connect(t testing.TB, origin string) session {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "story", Version: "1"}, nil)
	s, err := client.Connect(context.Background(), &sdk.StreamableClientTransport{
		Endpoint: origin + "/mcp", HTTPClient: &http.Client{Transport: bearer{a.tokens[0]}},
	}, &sdk.ClientSessionOptions{ProtocolVersion: a.version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if got := s.InitializeResult().ProtocolVersion; got != a.version {
		t.Fatalf("the session speaks %s, want %s", got, a.version)
	}
	return session{s, a}
}

// call calls a tool. Text and structure of the answer must say the same.
func (s session) call(t testing.TB, tool string, args map[string]any) answer {
	t.Helper()
	result, err := s.CallTool(context.Background(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	raw, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	var a, text answer
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(result.Content[0].(*sdk.TextContent).Text), &text); err != nil {
		t.Fatal(err)
	}
	if text.OK != a.OK || text.OperationID != a.OperationID || result.IsError == a.OK {
		t.Errorf("%s says different things: %+v, %s", tool, result, raw)
	}
	a.raw = string(raw)
	return a
}

func (s session) must(t testing.TB, tool string, args map[string]any) answer {
	t.Helper()
	a := s.call(t, tool, args)
	if !a.OK {
		t.Fatalf("%s was refused: %s", tool, a.raw)
	}
	return a
}

// TestTwoAgentsStrikeADeal is the product in one test: an agent asks for quotes,
// another hears of it and quotes, the first picks, and both hear of that.
func TestTwoAgentsStrikeADeal(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	for _, version := range []string{mcp.V20260728, mcp.V20251125, mcp.V20250618} {
		t.Run("in revision "+version, func(t *testing.T) {
			t.Parallel()
			cast := m.join(t, 1, "hirer "+version, "worker "+version)
			ann, bob := cast[0], cast[1]
			ann.version, bob.version = version, version
			strikeDeal(t, r, ann, bob)
		})
	}
}

func strikeDeal(t *testing.T, r *replica, ann, bob *agent) {
	t.Helper()
	hirer, worker := ann.connect(t, r.origin), bob.connect(t, r.origin)
	home := func() string { return r.origin }
	public, inbox := bob.follow(t, projections.FeedRequests, home), bob.follow(t, projections.FeedInbox, home)
	public.active(t)
	inbox.active(t)

	request := requestArgs("request")
	asked := hirer.must(t, "request_quotes", request)
	id := read[requested](t, asked).RequestID
	if next := public.until(t, "request.opened", id); !next.Data.Public {
		t.Errorf("the notice of a request is not public: %+v", next)
	}

	if open := read[projections.RequestList](t, worker.must(t, "list_quote_requests", nil)); !slices.ContainsFunc(open.Requests, func(i projections.RequestItem) bool {
		return string(i.RequestID) == id && i.Work.Title == "A logo" && i.Status == "open"
	}) {
		t.Fatalf("the worker does not find request %s among %+v", id, open)
	}
	quote := bob.quoteArgs("quote", id)
	offered := worker.must(t, "submit_quote", quote)
	quoteID := read[quoted](t, offered).QuoteID

	hirer.findsInInbox(t, "quote.received", id)
	list := read[projections.QuoteList](t, hirer.must(t, "list_quotes", map[string]any{"requestId": id}))
	if len(list.Quotes) != 1 || string(list.Quotes[0].QuoteID) != quoteID || list.Quotes[0].Amount != "10" {
		t.Fatalf("the hirer sees the quotes %+v, want %s alone", list.Quotes, quoteID)
	}

	pick := map[string]any{"operationKey": "pick", "requestId": id, "quoteId": quoteID}
	picked := hirer.must(t, "pick_quote", pick)
	public.until(t, "request.picked", id)
	inbox.until(t, "request.picked", id)
	worker.findsInInbox(t, "request.picked", id)
	hirer.findsInInbox(t, "request.picked", id)

	hirer.repeats(t, "request_quotes", request, asked)
	worker.repeats(t, "submit_quote", quote, offered)
	hirer.repeats(t, "pick_quote", pick, picked)
	if diff := cmp.Diff([]string{"request.opened", "request.picked"}, public.kindsOf(id)); diff != "" {
		t.Errorf("the public feed of the request (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"request.picked"}, inbox.kindsOf(id)); diff != "" {
		t.Errorf("the worker's inbox of the request (-want +got):\n%s", diff)
	}
}

// findsInInbox waits for a notice in the agent's inbox.
func (s session) findsInInbox(t *testing.T, kind, requestID string) {
	t.Helper()
	eventually(t, kind+" is in the inbox", func() bool {
		var inbox struct {
			Events []occurrence `json:"events"`
		}
		a := s.must(t, "inbox", map[string]any{"requestId": requestID, "kinds": []string{kind}, "includePublic": false})
		if err := json.Unmarshal(a.Result, &inbox); err != nil {
			t.Fatal(err)
		}
		return len(inbox.Events) == 1
	})
}

// repeats does a write again: with the same arguments it is answered the same,
// with others refused, and neither does anything.
func (s session) repeats(t *testing.T, tool string, args map[string]any, first answer) {
	t.Helper()
	if again := s.must(t, tool, args); again.raw != first.raw {
		t.Errorf("%s was answered %s, and when repeated %s", tool, first.raw, again.raw)
	}
	other := maps.Clone(args)
	switch tool {
	case "pick_quote":
		other["quoteId"] = "qt_" + "0123456789012345678901234567890123456789"
	case "submit_quote":
		other["amount"] = "11"
	default:
		other["title"] = "Another logo"
	}
	if a := s.call(t, tool, other); a.Code != "key-conflict" {
		t.Errorf("%s with other arguments was answered %s, want key-conflict", tool, a.raw)
	}
	checked := read[struct {
		Status string          `json:"status"`
		Result json.RawMessage `json:"result"`
	}](t, s.must(t, "check_operation", map[string]any{"operationId": first.OperationID}))
	if checked.Status != "confirmed" || string(checked.Result) != string(first.Result) {
		t.Errorf("check_operation tells %+v of %s", checked, first.raw)
	}
}

// kindsOf are the kinds of what the listener heard about a request, in order.
func (l *listener) kindsOf(requestID string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var kinds []string
	for _, o := range l.heard {
		if o.Data.RequestID == requestID {
			kinds = append(kinds, o.Data.Kind)
		}
	}
	return kinds
}

func TestAWriteLeavesOneTraceHoweverOftenItIsSent(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	cast := m.join(t, 1, "ann", "bob")
	ann, bob := cast[0].at(r.origin), cast[1].at(r.origin)
	id := read[requested](t, ann.must(t, "request_quotes", requestArgs("r1"))).RequestID
	other := read[requested](t, ann.must(t, "request_quotes", requestArgs("r2"))).RequestID
	first := read[quoted](t, bob.must(t, "submit_quote", cast[1].quoteArgs("q1", id))).QuoteID
	for _, write := range []struct {
		by   connection
		tool string
		args map[string]any
		diff string // an argument, and what else it could be
		to   any
	}{
		{ann, "request_quotes", requestArgs("new"), "title", "Two logos"},
		{bob, "submit_quote", cast[1].quoteArgs("new-quote", other), "amount", "12"},
		{bob, "withdraw_quote", map[string]any{"operationKey": "back", "quoteId": first}, "quoteId", "qt_" + id},
		{ann, "close_request", map[string]any{"operationKey": "close", "requestId": id}, "requestId", other},
	} {
		one := write.by.must(t, write.tool, write.args)
		head := m.head(t)
		legacy := write.by
		legacy.version = mcp.V20251125
		for _, by := range []connection{write.by, legacy} {
			if again := by.must(t, write.tool, write.args); again.raw != one.raw {
				t.Errorf("%s: answered %s, then %s", write.tool, one.raw, again.raw)
			}
		}
		if status, again := write.by.rest(t, write.tool, write.args); status != http.StatusOK || cmp.Diff(one.Result, again.Result) != "" || again.OperationID != one.OperationID {
			t.Errorf("%s over REST: %d %s", write.tool, status, again.raw)
		}
		write.args[write.diff] = write.to
		if status, a := write.by.rest(t, write.tool, write.args); status != http.StatusConflict || a.Code != "key-conflict" {
			t.Errorf("%s with another %s: %d %s", write.tool, write.diff, status, a.raw)
		}
		if now := m.head(t); now != head {
			t.Errorf("%s: repeats moved the log from %d to %d", write.tool, head, now)
		}
	}
}

// head is the position of the last event.
func (m *market) head(t testing.TB) int64 {
	t.Helper()
	return query[int64](t, m, `SELECT pos FROM log.head`)[0]
}
