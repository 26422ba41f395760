package mcp_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"sidequest/domain"
	"sidequest/mcp"
)

// A pending answer is what a write says that may wait for its operator.
type pending struct {
	Status      string `json:"status"`
	OperationID string `json:"operationId"`
	ApproveURL  string `json:"approveUrl"`
	Result      struct {
		AgentKey   domain.AgentKey   `json:"agentKey"`
		ApprovalID domain.ApprovalID `json:"approvalId"`
		Profile    map[string]any    `json:"profile"`
	} `json:"result"`
}

func (a answer) pending(t *testing.T) (p pending) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.Status == "" {
		t.Fatalf("%v: got %s", err, a.body)
	}
	return p
}

// decide is the answer of the operator.
func (m *market) decide(t *testing.T, id domain.ApprovalID, outcome string, change ...func(*domain.DecideApproval)) {
	t.Helper()
	c := domain.DecideApproval{ApprovalID: id, Outcome: outcome}
	for _, f := range change {
		f(&c)
	}
	do(t, m, operator, c)
	m.settle(t)
}

func TestARoleIsAskedForOnceAndGivenByTheOperator(t *testing.T) {
	t.Parallel()
	over(t, func(t *testing.T, by transport) {
		m := open(t)
		bid := encode(t, with(bid(m.person("dan"), m.ask(t, m.person("ann"))), object{"operationKey": "bid"}))
		refused := by.call(t, m.main, "dan", "submit_quote", bid).failure
		if refused.Code != "role-required" || refused.Role != "work" || refused.Next == nil || refused.Next.Tool != "request_role" {
			t.Fatalf("without the role: %+v", refused)
		}
		wish := with(refused.Next.Args, object{"operationKey": "role"})

		first := m.write(t, by, "dan", "request_role", with(wish)).pending(t)
		if first.Status != "approval" || first.ApproveURL != "https://sidequest.example/approve/"+string(first.Result.ApprovalID) {
			t.Fatalf("the first question: %+v", first)
		}
		second := by.call(t, m.main, "dan", "request_role", encode(t, with(wish, object{"operationKey": "again"}))).pending(t)
		if second.ApproveURL != first.ApproveURL || second.OperationID == first.OperationID {
			t.Errorf("asked again: %+v, want the same question as %+v", second, first)
		}
		var seen struct {
			Status     string       `json:"status"`
			ApproveURL string       `json:"approveUrl"`
			Retry      domain.Retry `json:"retry"`
		}
		check := encode(t, object{"operationId": first.OperationID})
		by.call(t, m.main, "dan", "check_operation", check).result(t, &seen)
		if seen.Status != "approval" || seen.ApproveURL != first.ApproveURL || seen.Retry != domain.RetryAfterOperator {
			t.Errorf("check_operation says %+v", seen)
		}

		m.decide(t, first.Result.ApprovalID, domain.Approved)
		m.person("dan").roles = []string{"work"} // as the program looks them up at the next call
		for _, key := range []string{"role", "again"} {
			p := by.call(t, m.main, "dan", "request_role", encode(t, with(wish, object{"operationKey": key}))).pending(t)
			if p.Status != "confirmed" || p.ApproveURL != "" {
				t.Errorf("%s after the decision: %+v", key, p)
			}
		}
		var granted struct{}
		by.call(t, m.main, "dan", "submit_quote", bid).result(t, &granted)
		by.call(t, m.main, "dan", "check_operation", check).result(t, &seen)
		if seen.Status != "confirmed" {
			t.Errorf("check_operation says %+v after the decision", seen)
		}
		var heard notices
		by.call(t, m.main, "dan", "inbox", `{"includePublic":false}`).result(t, &heard)
		if want := []string{"approval.requested", "approval.decided", "role.granted"}; !slices.Equal(heard.kinds(), want) {
			t.Errorf("dan heard %q, want %q", heard.kinds(), want)
		}
	})
}

func TestAnOperatorMaySayNo(t *testing.T) {
	t.Parallel()
	m := open(t)
	by := transports()[0]
	wish := object{"role": "hire", "operationKey": "role"}
	asked := by.call(t, m.main, "dan", "request_role", encode(t, wish)).pending(t)
	m.decide(t, asked.Result.ApprovalID, domain.Refused)
	if p := m.write(t, by, "dan", "request_role", wish).pending(t); p.Status != "rejected" || p.ApproveURL != "" {
		t.Errorf("after a no: %+v", p)
	}
	if p := by.call(t, m.main, "dan", "request_role", `{"role":"hire","operationKey":"another"}`).pending(t); p.Status != "approval" || p.ApproveURL == asked.ApproveURL {
		t.Errorf("a new question after a no: %+v", p)
	}
	var list struct {
		Approvals []struct {
			ID          domain.ApprovalID
			Kind        string
			Role        string
			OperationID string
			Status      string
			RequestedAt time.Time
			DecidedAt   *time.Time
			ApproveURL  string
		}
	}
	by.call(t, m.main, "dan", "list_approvals", `{"state":"refused"}`).result(t, &list)
	if len(list.Approvals) != 1 {
		t.Fatalf("refused: %+v", list)
	}
	a := list.Approvals[0]
	if a.ID != asked.Result.ApprovalID || a.Kind != "role" || a.Role != "hire" || a.OperationID != asked.OperationID ||
		a.DecidedAt == nil || a.DecidedAt.Before(a.RequestedAt) || a.ApproveURL != asked.ApproveURL {
		t.Errorf("it is shown as %+v", a)
	}
	by.call(t, m.main, "ann", "list_approvals", `{}`).result(t, &list)
	if len(list.Approvals) != 0 {
		t.Errorf("ann sees %+v", list)
	}
	var heard notices
	by.call(t, m.main, "dan", "inbox", `{"kinds":["role.refused"]}`).result(t, &heard)
	if len(heard.Events) != 1 {
		t.Errorf("dan did not hear of the no: %+v", heard)
	}
}

func TestARoleThatIsGivenElsewhereAnswersTheQuestion(t *testing.T) {
	t.Parallel()
	m := open(t)
	by := transports()[0]
	wish := `{"role":"hire","operationKey":"role"}`
	by.call(t, m.main, "dan", "request_role", wish)
	m.give(t, m.person("dan"), domain.RoleHire)
	if p := by.call(t, m.main, "dan", "request_role", wish).pending(t); p.Status != "confirmed" {
		t.Errorf("got %+v", p)
	}
	if p := by.call(t, m.main, "dan", "request_role", `{"role":"hire","operationKey":"more"}`).pending(t); p.Status != "confirmed" || p.Result.ApprovalID != "" {
		t.Errorf("a role that is held was asked for: %+v", p)
	}
}

func TestFiftyCallsAtOnceAskOneQuestion(t *testing.T) {
	t.Parallel()
	m := open(t)
	other := m.start(t)
	calls := make([]string, 50)
	for i := range calls {
		calls[i] = encode(t, object{"role": "work", "operationKey": "k" + strings.Repeat("x", i%5)})
	}
	urls := map[string]bool{}
	for _, a := range m.race(t, "dan", "request_role", []*process{m.main, other}, calls) {
		urls[a.pending(t).ApproveURL] = true
	}
	if len(urls) != 1 || urls[""] {
		t.Errorf("the operator was asked %v", urls)
	}
}

// statusOf is what setup_status says.
func (m *market) statusOf(t *testing.T, by transport, token string, key domain.AgentKey) (s struct {
	State   string         `json:"state"`
	AgentID domain.AgentID `json:"agentId"`
	Message string         `json:"message"`
}) {
	t.Helper()
	by.call(t, m.main, token, "setup_status", encode(t, object{"agentKey": key})).result(t, &s)
	return s
}

var eve = object{"name": "Eve", "tagline": "Logos", "operationKey": "eve"}

func TestAConnectionSetsUpItsAgentAndActsAsIt(t *testing.T) {
	t.Parallel()
	over(t, func(t *testing.T, by transport) {
		m := open(t)
		conn, waits, other := m.connect(t), m.connect(t), m.connect(t)
		by.call(t, m.main, other, "create_agent", encode(t, with(eve, object{"name": "Other"}))).pending(t)

		var self struct {
			Setup    bool
			Operator string
			Proposed *domain.AgentKey
			Agents   []struct {
				AgentKey domain.AgentKey
				AgentID  *domain.AgentID
				Name     string
				State    string
			}
		}
		by.call(t, m.main, conn, "whoami", `{}`).result(t, &self)
		if !self.Setup || self.Operator != string(operator) || self.Proposed != nil || len(self.Agents) != 5 {
			t.Fatalf("a connection without an agent is %+v", self)
		}
		early := by.call(t, m.main, conn, "request_quotes", encode(t, wish(object{"operationKey": "k"}))).failure
		if early.Code != "setup-pending" || early.Retry != domain.RetryAfterOperator || early.Next.Tool != "whoami" {
			t.Errorf("too early: %+v", early)
		}

		made := m.write(t, by, conn, "create_agent", eve).pending(t)
		key := made.Result.AgentKey
		if made.Status != "approval" || !strings.HasSuffix(made.ApproveURL, "/approve/"+string(made.Result.ApprovalID)) {
			t.Fatalf("create_agent answers %+v", made)
		}
		if p := made.Result.Profile; p["name"] != "Eve" || p["tagline"] != "Logos" || p["description"] != "" || p["image"] != nil {
			t.Errorf("the profile is %v", p)
		}
		if s := m.statusOf(t, by, conn, key); s.State != "awaiting-approval" || !strings.Contains(s.Message, made.ApproveURL) {
			t.Errorf("while it waits: %+v", s)
		}
		if next := by.call(t, m.main, conn, "inbox", `{}`).failure.Next; next == nil || next.Tool != "setup_status" {
			t.Errorf("the next step of a connection that waits is %+v", next)
		}

		m.decide(t, made.Result.ApprovalID, domain.Approved, func(c *domain.DecideApproval) {
			c.Roles, c.Grants = []domain.Role{domain.RoleHire}, []string{conn, waits, other}
		})
		for _, token := range []string{conn, waits} {
			var me struct {
				AgentID string
				Address domain.Address
				Roles   []string
				Scopes  []string
			}
			by.call(t, m.main, token, "whoami", `{}`).result(t, &me)
			if me.AgentID != "5" || !slices.Equal(me.Roles, []string{"hire"}) || !slices.Equal(me.Scopes, []string{domain.ScopeRead, domain.ScopeHire}) {
				t.Errorf("after the decision %s is %+v", token, me)
			}
			if s := m.statusOf(t, by, token, key); s.State != "ready" || s.AgentID != "5" {
				t.Errorf("setup_status after the decision: %+v", s)
			}
		}
		by.call(t, m.main, other, "whoami", `{}`).result(t, &self)
		if !self.Setup {
			t.Error("a connection that proposed another agent was bound")
		}
		again := by.call(t, m.main, conn, "create_agent", encode(t, eve)).pending(t)
		if again.Status != "confirmed" || again.OperationID != made.OperationID || again.Result.AgentKey != key {
			t.Errorf("the repeat after the decision: %+v", again)
		}
		var op struct{ Status string }
		by.call(t, m.main, conn, "check_operation", encode(t, object{"operationId": made.OperationID})).result(t, &op)
		if op.Status != "confirmed" {
			t.Errorf("check_operation of the proposal: %+v", op)
		}
		by.call(t, m.main, conn, "request_quotes", encode(t, wish(object{"operationKey": "k"}))).result(t, &struct{}{})
	})
}

func TestAnAgentThatIsRefusedIsNotThere(t *testing.T) {
	t.Parallel()
	m := open(t)
	by, conn := transports()[0], m.connect(t)
	made := by.call(t, m.main, conn, "create_agent", encode(t, eve)).pending(t)
	m.decide(t, made.Result.ApprovalID, domain.Refused)
	if p := by.call(t, m.main, conn, "create_agent", encode(t, eve)).pending(t); p.Status != "rejected" {
		t.Errorf("create_agent after a no: %+v", p)
	}
	if s := m.statusOf(t, by, conn, made.Result.AgentKey); s.State != "failed" {
		t.Errorf("setup_status after a no: %+v", s)
	}
	if f := by.call(t, m.main, conn, "create_agent", encode(t, with(eve, object{"operationKey": "more"}))).failure; f.Code != "setup-agent-exists" {
		t.Errorf("another agent on the same connection: %+v", f)
	}
}

func TestAConnectionWithoutAnAgentSeesWhatItWillBeAbleToDo(t *testing.T) {
	t.Parallel()
	m := open(t)
	conn := m.connect(t)
	before := m.toolsOf(t, conn)
	for _, name := range []string{"whoami", "create_agent", "setup_status", "request_quotes", "submit_quote", "inbox"} {
		if !slices.Contains(before, name) {
			t.Errorf("%s is not listed before there is an agent: %q", name, before)
		}
	}
	made := transports()[0].call(t, m.main, conn, "create_agent", encode(t, eve)).pending(t)
	m.decide(t, made.Result.ApprovalID, domain.Approved, func(c *domain.DecideApproval) { c.Grants = []string{conn} })
	after := m.toolsOf(t, conn)
	if !slices.Contains(after, "setup_status") || slices.Contains(after, "request_quotes") {
		t.Errorf("with an agent that may only read it sees %q", after)
	}
	if slices.Contains(m.toolsOf(t, "ann"), "create_agent") {
		t.Error("an agent that was never set up here is offered create_agent")
	}
}

// toolsOf lists the tools that a token sees.
func (m *market) toolsOf(t *testing.T, token string) (names []string) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://sidequest.example/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	m.main.ServeHTTP(w, req)
	var list struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	for _, tool := range list.Result.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func TestBoardsAreListedUnlessTheyArePrivate(t *testing.T) {
	t.Parallel()
	m := open(t)
	for _, b := range []domain.Board{{Slug: "acme", Name: "Acme"}, {Slug: "secret", Name: "Secret", Private: true}} {
		b.RewardTokens, b.Network, b.ChainID, b.Arbitrator = []domain.Token{usd}, domain.NetworkTest, 1337, domain.Address(art)
		do(t, m, operator, domain.ConfigureBoard{Board: b})
	}
	m.settle(t)
	type board struct {
		BoardID, Name, Resource string
		Public                  bool
	}
	var list struct{ Boards []board }
	by := transports()[0]
	by.call(t, m.main, "ann", "list_boards", `{}`).result(t, &list)
	want := []board{
		{"acme", "Acme", "https://sidequest.example/b/acme/mcp", true},
		{mcp.MainBoard, "Main", "https://sidequest.example/mcp", true},
	}
	if !slices.Equal(list.Boards, want) {
		t.Errorf("boards %+v, want %+v", list.Boards, want)
	}
	var one board
	by.call(t, m.main, "ann", "get_board", `{}`).result(t, &one)
	if one != want[1] {
		t.Errorf("the board of this connection is %+v", one)
	}
	by.call(t, m.main, "ann", "get_board", `{"boardId":"acme"}`).result(t, &one)
	if one != want[0] {
		t.Errorf("another board is %+v", one)
	}
}
