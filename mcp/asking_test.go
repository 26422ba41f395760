package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"sidequest/domain"
)

// A turn is what one request of a call that may ask was answered with.
type turn struct {
	ResultType string `json:"resultType"`
	Requests   map[string]struct {
		Method string `json:"method"`
		Params struct {
			Mode string `json:"mode"`
			URL  string `json:"url"`
		} `json:"params"`
	} `json:"inputRequests"`
	State      string  `json:"requestState"`
	Structured pending `json:"structuredContent"`

	refused int // the code of an error
}

// page is where the turn sends the user, "" for nowhere.
func (t turn) page() string {
	if t.ResultType != "input_required" || t.Requests["approval"].Method != "elicitation/create" || t.Requests["approval"].Params.Mode != "url" {
		return ""
	}
	return t.Requests["approval"].Params.URL
}

// take calls a tool as a client that can show its user a page, with what the turn
// before brought.
func (p *process) take(t *testing.T, token, tool string, args object, before *turn, action string) (next turn) {
	t.Helper()
	inputs := ""
	if before != nil {
		inputs = fmt.Sprintf(`"requestState":%q,"inputResponses":{"approval":{"action":%q}},`, before.State, action)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,%s"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}}}}`,
		tool, encode(t, args), inputs)
	w := p.post(token, body, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)
	answer := struct {
		Result *turn `json:"result"`
		Error  *struct {
			Code int `json:"code"`
		} `json:"error"`
	}{Result: &next}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if answer.Error != nil {
		next.refused = answer.Error.Code
	}
	return next
}

func TestAClientShowsTheApprovalOfARoleAndComesBackToAnyProcess(t *testing.T) {
	t.Parallel()
	m := open(t)
	other := m.start(t)
	args := object{"role": "work", "operationKey": "role"}
	first := m.main.take(t, "dan", "request_role", args, nil, "")
	if first.page() == "" || first.State == "" {
		t.Fatalf("dan is asked %+v", first)
	}
	second := other.take(t, "dan", "request_role", args, &first, "accept")
	if second.page() != first.page() {
		t.Fatalf("while nothing is decided dan is asked %+v, before %+v", second, first)
	}
	for action, want := range map[string]string{"decline": "approval", "cancel": "approval"} {
		if end := other.take(t, "dan", "request_role", args, &second, action); end.Structured.Status != want || end.Structured.ApproveURL != first.page() {
			t.Errorf("%s ends the call with %+v", action, end)
		}
	}
	for what, stolen := range map[string]turn{
		"another agent":   m.main.take(t, "cat", "request_role", args, &first, "accept"),
		"other arguments": m.main.take(t, "dan", "request_role", with(args, object{"role": "hire"}), &first, "accept"),
		"another key":     m.main.take(t, "dan", "request_role", with(args, object{"operationKey": "k"}), &first, "accept"),
		"another tool":    m.main.take(t, "dan", "whoami", args, &first, "accept"),
	} {
		if stolen.refused != -32602 {
			t.Errorf("%s may use the state: %+v", what, stolen)
		}
	}
	asked := m.main.take(t, "dan", "request_role", args, &second, "decline").Structured
	m.decide(t, asked.Result.ApprovalID, domain.Approved)
	for _, p := range []*process{m.main, other} {
		if end := p.take(t, "dan", "request_role", args, &first, "accept"); end.Structured.Status != "confirmed" || end.Structured.OperationID != asked.OperationID {
			t.Errorf("once it is decided the call ends with %+v", end)
		}
	}
}

func TestAClientShowsTheApprovalOfANewAgentAndGoesOnAsIt(t *testing.T) {
	t.Parallel()
	m := open(t)
	conn, other := m.connect(t), m.connect(t)
	first := m.main.take(t, conn, "create_agent", eve, nil, "")
	if first.page() == "" {
		t.Fatalf("the connection is asked %+v", first)
	}
	if stolen := m.main.take(t, other, "create_agent", eve, &first, "accept"); stolen.refused != -32602 {
		t.Errorf("another connection may use the state: %+v", stolen)
	}
	made := m.main.take(t, conn, "create_agent", eve, &first, "cancel").Structured
	m.decide(t, made.Result.ApprovalID, domain.Approved, func(c *domain.DecideApproval) { c.Grants = []string{conn} })
	end := m.main.take(t, conn, "create_agent", eve, &first, "accept") // the connection acts as the agent now
	if end.Structured.Status != "confirmed" || end.Structured.Result.AgentKey != made.Result.AgentKey {
		t.Errorf("once it is decided the call ends with %+v", end)
	}
}

func TestAnApprovalThatIsRefusedEndsTheCall(t *testing.T) {
	t.Parallel()
	m := open(t)
	args := object{"role": "hire", "operationKey": "role"}
	first := m.main.take(t, "dan", "request_role", args, nil, "")
	asked := m.main.take(t, "dan", "request_role", args, &first, "decline").Structured
	m.decide(t, asked.Result.ApprovalID, domain.Refused)
	if end := m.main.take(t, "dan", "request_role", args, &first, "accept"); end.Structured.Status != "rejected" || end.page() != "" {
		t.Errorf("after a no the call ends with %+v", end)
	}
}

func TestOnlyWhoCanShowAPageIsAskedTo(t *testing.T) {
	t.Parallel()
	m := open(t)
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`} {
		w := m.main.post("dan", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"request_role","arguments":{"role":"hire","operationKey":"k"},"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+capabilities+`}}}`,
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "request_role")
		var answer struct {
			Result turn `json:"result"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK || answer.Result.Structured.Status != "approval" {
			t.Errorf("%s is answered with %d %s", capabilities, w.Code, w.Body)
		}
	}
}
