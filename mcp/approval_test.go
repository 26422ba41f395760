package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"testing"

	"sidequest/domain"
)

// approver is a server with one tool, whose answer is what the operator of the
// test has decided by then.
func approver(tb testing.TB, decided *writeAnswered) *Server {
	tb.Helper()
	s := asker(tb, states(1))
	m := &Market{Log: slog.New(slog.DiscardHandler), Tools: []Tool{{
		Name: "spend", Scopes: []string{domain.ScopeRead},
		In: compile("spend.in", reflectSchema(reflect.TypeFor[struct {
			Amount string `json:"amount"`
		}]())),
		run: func(context.Context, *Market, Caller, arguments) (any, error) { return *decided, nil },
	}}}
	s.Methods = m.Methods()
	return s
}

var spend = firstCall.as(func(a *askedCall) {
	a.target, a.arguments, a.capabilities = "spend", `{"amount":"5"}`, `{"elicitation":{"url":{}}}`
})

func undecided() *writeAnswered {
	return &writeAnswered{OK: true, Status: "approval", OperationID: "op_1", ApproveURL: "https://sidequest.example/approve/ap_1"}
}

// respond is the call repeated with what became of the question.
func (a askedCall) respond(state, action string) askedCall {
	return a.as(func(a *askedCall) {
		a.inputs = fmt.Sprintf(`"inputResponses":{"approval":{"action":%q}},"requestState":%q`, action, state)
	})
}

func resultOf(tb testing.TB, a askedCall, s *Server) map[string]any {
	tb.Helper()
	_, answer := a.send(tb, s)
	result, ok := answer["result"].(map[string]any)
	if !ok {
		tb.Fatalf("answered with %v", answer)
	}
	return result
}

func TestAModernClientIsAskedToShowTheApprovalAndComesBackWhenItIsDecided(t *testing.T) {
	t.Parallel()
	decided := undecided()
	s := approver(t, decided)
	asks := func(result map[string]any) string {
		t.Helper()
		requests, _ := result["inputRequests"].(map[string]any)
		request, _ := requests["approval"].(map[string]any)
		params, _ := request["params"].(map[string]any)
		if result["resultType"] != "input_required" || request["method"] != "elicitation/create" || params["mode"] != "url" ||
			params["url"] != decided.ApproveURL || params["message"] == "" || params["elicitationId"] != nil {
			t.Fatalf("the client is asked %v", result)
		}
		state, _ := result["requestState"].(string)
		return state
	}
	state := asks(resultOf(t, spend, s))
	state = asks(resultOf(t, spend.respond(state, "accept"), s)) // the page was opened, nothing is decided
	state = asks(resultOf(t, spend.as(func(a *askedCall) { a.inputs = fmt.Sprintf(`"requestState":%q`, state) }), s))

	decided.Status, decided.ApproveURL = "confirmed", ""
	result := resultOf(t, spend.respond(state, "accept"), s)
	if answer, _ := result["structuredContent"].(map[string]any); result["resultType"] != "complete" || answer["status"] != "confirmed" {
		t.Errorf("the decided call is answered with %v", result)
	}
}

func TestWhoDoesNotWantToSeeTheApprovalGetsItsLink(t *testing.T) {
	t.Parallel()
	s := approver(t, undecided())
	state, _ := resultOf(t, spend, s)["requestState"].(string)
	for what, call := range map[string]askedCall{
		"declined":               spend.respond(state, "decline"),
		"cancelled":              spend.respond(state, "cancel"),
		"asked of nobody":        spend.as(func(a *askedCall) { a.capabilities = `{}` }),
		"able to ask forms only": spend.as(func(a *askedCall) { a.capabilities = `{"elicitation":{}}` }),
	} {
		result := resultOf(t, call, s)
		answer, _ := result["structuredContent"].(map[string]any)
		if result["resultType"] != "complete" || result["isError"] != nil || answer["status"] != "approval" || answer["approveUrl"] != undecided().ApproveURL {
			t.Errorf("%s: answered with %v", what, result)
		}
	}
}

func TestALegacyClientGetsTheApprovalAsAnAnswer(t *testing.T) {
	t.Parallel()
	s := approver(t, undecided())
	for _, version := range supportedVersions()[1:] {
		r := newRequest(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"spend","arguments":{"amount":"5"}}}`)
		r.Header.Set("Mcp-Protocol-Version", version)
		if status := stringAt(t, record(t, s, r), "result", "structuredContent", "status"); status != "approval" {
			t.Errorf("%s: the status is %q", version, status)
		}
	}
}

func TestAStateOfAnotherOperationIsRefused(t *testing.T) {
	t.Parallel()
	decided := undecided()
	s := approver(t, decided)
	state, _ := resultOf(t, spend, s)["requestState"].(string)
	decided.OperationID = "op_2"
	if status, answer := spend.respond(state, "accept").send(t, s); status != http.StatusBadRequest || answer["error"] == nil {
		t.Errorf("it is answered with %d %v", status, answer)
	}
}
