package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
)

func states(keys ...byte) States {
	s := States{Keys: map[byte][]byte{}}
	for _, id := range keys {
		s.Keys[id] = []byte(strings.Repeat(string(rune('a'+id)), 32))
		s.Current = id
	}
	return s
}

// asker is a server whose tools ask before they answer. A token is the name of an
// agent and, behind a slash, its grant; without a name it is a setup connection.
func asker(tb testing.TB, s States) *Server {
	tb.Helper()
	server := newServer(tb)
	server.States = s
	server.Authenticate = func(r *http.Request) (Caller, error) {
		agent, grant, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "/")
		return Caller{AgentKey: domain.AgentKey(agent), GrantID: grant, Scopes: []string{domain.ScopeRead}, Resource: "https://sidequest.example" + r.URL.Path}, nil
	}
	server.Methods = map[string]Method{
		"tools/call":     {Handle: askFirst, NameParam: "name", Asks: true},
		"resources/read": {Handle: askFirst, NameParam: "uri", Asks: true, Cacheable: true},
		"prompts/get":    {Handle: askFirst, NameParam: "name"}, // may not
	}
	return server
}

// askFirst asks what its name says, once, and then answers with what came back.
func askFirst(_ context.Context, c *Call) (any, error) {
	var p struct {
		Name string `json:"name"`
	}
	if err := c.Request.Decode(&p); err != nil {
		return nil, err
	}
	e, given, err := c.Inputs.Elicited("q")
	if err != nil {
		return nil, err
	}
	if given && c.Inputs.State != nil {
		return map[string]any{"action": e.Action, "answer": e.Content, "state": string(c.Inputs.State)}, nil
	}
	requests := map[string]InputRequest{
		"form":     {"elicitation/create", map[string]any{"message": "Who?"}},
		"url":      {"elicitation/create", URLElicitation{"url", "Look.", "https://sidequest.example/approve/1"}},
		"sampling": {"sampling/createMessage", map[string]any{}},
		"roots":    {"roots/list", map[string]any{}},
	}
	request, known := requests[p.Name]
	if !known {
		request = requests["form"]
	}
	return InputRequired{Requests: map[string]InputRequest{"q": request}, State: []byte("round 1")}, nil
}

// An askedCall is a call of a tool that may bring an answer.
type askedCall struct {
	token, path, method, target string
	arguments                   string
	capabilities                string
	inputs                      string // members of the parameters
}

// as returns the call with one thing changed.
func (a askedCall) as(change func(*askedCall)) askedCall {
	change(&a)
	return a
}

var firstCall = askedCall{
	token: "ann/g1", path: "/mcp", method: "tools/call", target: "form", arguments: `{"a":1,"b":[{"c":"x"}]}`, capabilities: `{"elicitation":{}}`,
}

// send returns the status and the answer.
func (a askedCall) send(tb testing.TB, s *Server) (int, map[string]any) {
	tb.Helper()
	member := "name"
	if a.method == "resources/read" {
		member = "uri"
	}
	inputs := a.inputs
	if inputs != "" {
		inputs += ","
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%q:%q,"arguments":%s,%s"_meta":{%q:%q,%q:%s}}}`,
		a.method, member, a.target, a.arguments, inputs, metaProtocolVersion, V20260728, metaClientCapabilities, a.capabilities)
	r := httptest.NewRequest(http.MethodPost, a.path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+a.token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Mcp-Protocol-Version", V20260728)
	r.Header.Set("Mcp-Method", a.method)
	r.Header.Set("Mcp-Name", a.target)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		tb.Fatalf("%v: %s", err, w.Body)
	}
	return w.Code, answer
}

// begin makes the first call and returns its state.
func (a askedCall) begin(tb testing.TB, s *Server) string {
	tb.Helper()
	status, answer := a.send(tb, s)
	result, _ := answer["result"].(map[string]any)
	state, _ := result["requestState"].(string)
	if status != http.StatusOK || result["resultType"] != "input_required" || state == "" {
		tb.Fatalf("the first call is answered with %d %v", status, answer)
	}
	return state
}

// answered is the call repeated with an answer.
func (a askedCall) answered(state string) askedCall {
	return a.as(func(a *askedCall) {
		a.inputs = fmt.Sprintf(`"inputResponses":{"q":{"action":"accept","content":{"name":"Ann"}}},"requestState":%q`, state)
	})
}

func TestACallIsCompletedWithTheAnswerItAskedFor(t *testing.T) {
	t.Parallel()
	s, replica := asker(t, states(1)), asker(t, states(1))
	state := firstCall.begin(t, s)
	for _, server := range []*Server{s, replica} {
		status, answer := firstCall.answered(state).send(t, server)
		result, _ := answer["result"].(map[string]any)
		delete(result, "_meta")
		want := map[string]any{"resultType": "complete", "action": "accept", "answer": map[string]any{"name": "Ann"}, "state": "round 1"}
		if diff := cmp.Diff(want, result); status != http.StatusOK || diff != "" {
			t.Errorf("status %d (-want +got):\n%s", status, diff)
		}
	}
}

func TestAQuestionIsNotKeptByCaches(t *testing.T) {
	t.Parallel()
	_, answer := firstCall.as(func(a *askedCall) { a.method, a.target = "resources/read", "form" }).send(t, asker(t, states(1)))
	result, _ := answer["result"].(map[string]any)
	if result["resultType"] != "input_required" || result["ttlMs"] != nil || result["cacheScope"] != nil {
		t.Errorf("the question is %v", answer)
	}
}

func TestAStateServesTheCallItWasMadeForAndNoOther(t *testing.T) {
	t.Parallel()
	s := asker(t, states(1))
	state := firstCall.begin(t, s)
	for what, c := range map[string]struct {
		call  askedCall
		opens bool
	}{
		"the same call":            {firstCall, true},
		"arguments written anew":   {firstCall.as(func(a *askedCall) { a.arguments = ` {"b": [{"c":"\u0078"}], "a":1.0}` }), true},
		"other arguments":          {firstCall.as(func(a *askedCall) { a.arguments = `{"a":2,"b":[{"c":"x"}]}` }), false},
		"no arguments":             {firstCall.as(func(a *askedCall) { a.arguments = `null` }), false},
		"another tool":             {firstCall.as(func(a *askedCall) { a.target = "other" }), false},
		"another method":           {firstCall.as(func(a *askedCall) { a.method = "resources/read" }), false},
		"another endpoint":         {firstCall.as(func(a *askedCall) { a.path = "/b/other/mcp" }), false},
		"another agent":            {firstCall.as(func(a *askedCall) { a.token = "bob/g1b" }), false},
		"another grant's setup":    {firstCall.as(func(a *askedCall) { a.token = "/g1" }), false},
		"the agent, newly at work": {firstCall.as(func(a *askedCall) { a.token = "ann/g2" }), true},
	} {
		status, answer := c.call.answered(state).send(t, s)
		if opens := answer["error"] == nil; opens != c.opens || !opens && status != http.StatusBadRequest {
			t.Errorf("%s: answered with %d %v", what, status, answer)
		}
	}
}

func TestAStateThatWasAlteredIsRefused(t *testing.T) {
	t.Parallel()
	s := asker(t, states(1))
	state := firstCall.begin(t, s)
	altered := []string{"", "v1", state + "-TAMPERED", state[:len(state)-1], strings.ToUpper(state), strings.Repeat("A", maxState+1), " " + state}
	for i := range len(state) {
		other := byte('A')
		if state[i] == other {
			other = 'B'
		}
		altered = append(altered, state[:i]+string(other)+state[i+1:])
	}
	for _, text := range altered {
		status, answer := firstCall.answered(text).send(t, s)
		if fault, _ := answer["error"].(map[string]any); status != http.StatusBadRequest || fault["code"] != float64(CodeInvalidParams) {
			t.Errorf("%q is answered with %d %v", text, status, answer)
		}
	}
}

func TestWhoBeganInSetupGoesOnAsTheAgent(t *testing.T) {
	t.Parallel()
	s := asker(t, states(1))
	setup := firstCall.as(func(a *askedCall) { a.token = "/g1" })
	state := setup.begin(t, s)
	for token, opens := range map[string]bool{"/g1": true, "ann/g1": true, "ann/g2": false, "/g2": false} {
		_, answer := setup.as(func(a *askedCall) { a.token = token }).answered(state).send(t, s)
		if (answer["error"] == nil) != opens {
			t.Errorf("%q is answered with %v", token, answer)
		}
	}
}

func TestAKeyOfStatesCanBeReplacedWhileStatesAreOut(t *testing.T) {
	t.Parallel()
	old := firstCall.begin(t, asker(t, states(1)))
	both := asker(t, states(1, 2))
	fresh := firstCall.begin(t, both)
	for state, opens := range map[string][3]bool{old: {true, true, false}, fresh: {false, true, true}} {
		for i, s := range []States{states(1), states(1, 2), states(2)} {
			_, answer := firstCall.answered(state).send(t, asker(t, s))
			if (answer["error"] == nil) != opens[i] {
				t.Errorf("with keys %d: %v", i, answer)
			}
		}
	}
}

func TestNothingIsAskedThatTheClientDoesNotDeclare(t *testing.T) {
	t.Parallel()
	s := asker(t, states(1))
	for _, c := range []struct {
		asks, declares string
		missing        string // "" when it may be asked
	}{
		{"form", `{}`, `{"elicitation":{"form":{}}}`},
		{"form", `{"elicitation":{}}`, ""},
		{"form", `{"elicitation":{"form":{}}}`, ""},
		{"form", `{"elicitation":{"form":{},"url":{}}}`, ""},
		{"form", `{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{}}}`},
		{"form", `{"elicitation":true}`, `{"elicitation":{"form":{}}}`},
		{"url", `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`},
		{"url", `{"elicitation":{"form":{}}}`, `{"elicitation":{"url":{}}}`},
		{"url", `{"elicitation":{"url":{}}}`, ""},
		{"sampling", `{"elicitation":{}}`, `{"sampling":{}}`},
		{"sampling", `{"sampling":{}}`, ""},
		{"roots", `{}`, `{"roots":{}}`},
		{"roots", `{"roots":{}}`, ""},
	} {
		call := firstCall.as(func(a *askedCall) { a.target, a.capabilities = c.asks, c.declares })
		if c.missing == "" {
			call.begin(t, s)
			continue
		}
		status, answer := call.send(t, s)
		fault, _ := answer["error"].(map[string]any)
		data, _ := fault["data"].(map[string]any)
		missing, err := json.Marshal(data["requiredCapabilities"])
		if err != nil || status != http.StatusBadRequest || fault["code"] != float64(CodeMissingCapability) || string(missing) != c.missing {
			t.Errorf("%s with %s: answered with %d %v", c.asks, c.declares, status, answer)
		}
	}
}

func TestAnswersOfTheWrongFormAreRefused(t *testing.T) {
	t.Parallel()
	s := asker(t, states(1))
	state := firstCall.begin(t, s)
	for inputs, want := range map[string]string{
		`"inputResponses":null`:                                                     "asked again",
		`"inputResponses":{}`:                                                       "asked again",
		`"inputResponses":{"other":7}`:                                              "asked again",
		`"inputResponses":{"q":{"action":"accept"}}`:                                "asked again", // without its state
		`"inputResponses":{"q":{"action":"decline"}},"requestState":"` + state:      "answered",
		`"inputResponses":{"q":{"action":"cancel","x":1}},"requestState":"` + state: "answered",
		`"inputResponses":7`:                                                        "refused",
		`"inputResponses":[]`:                                                       "refused",
		`"inputResponses":{"q":7}`:                                                  "refused",
		`"inputResponses":{"q":{}}`:                                                 "refused",
		`"inputResponses":{"q":{"action":"perhaps"}}`:                               "refused",
		`"inputResponses":{"q":{"Action":"accept"}}`:                                "refused",
		`"inputResponses":{"q":{"action":"accept","content":[]}}`:                   "refused",
		`"requestState":7`:                                                          "refused",
		`"requestState":""`:                                                         "refused",
		`"requestState":null`:                                                       "asked again",
	} {
		if strings.HasSuffix(inputs, state) {
			inputs += `"`
		}
		_, answer := firstCall.as(func(a *askedCall) { a.inputs = inputs }).send(t, s)
		got := "refused"
		if result, ok := answer["result"].(map[string]any); ok {
			got = map[any]string{"input_required": "asked again", "complete": "answered"}[result["resultType"]]
		}
		if got != want {
			t.Errorf("%s is %s, want %s: %v", inputs, got, want, answer)
		}
	}
}

func TestAMethodThatMayNotAskDoesNot(t *testing.T) {
	t.Parallel()
	_, answer := firstCall.as(func(a *askedCall) { a.method = "prompts/get" }).send(t, asker(t, states(1)))
	if fault, _ := answer["error"].(map[string]any); fault["code"] != float64(CodeInternal) {
		t.Errorf("it is answered with %v", answer)
	}
}

func TestALegacyClientIsToldThatACallNeedsTheModernEra(t *testing.T) {
	t.Parallel()
	r := newRequest(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"form","requestState":7,"inputResponses":7}}`)
	r.Header.Set("Mcp-Protocol-Version", V20251125)
	if body := record(t, asker(t, states(1)), r); !strings.Contains(body, `"code":-32600`) || !strings.Contains(body, V20251125) {
		t.Errorf("it is answered with %s", body)
	}
}

// FuzzState looks for a text that opens although nobody sealed it.
func FuzzState(f *testing.F) {
	s := states(1)
	sealed, err := s.seal([]byte("a"), []byte("state"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add("AQE")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if _, opens := s.open([]byte("b"), text); opens {
			t.Errorf("%q opens for another call", text)
		}
		// The processes that look seal a seed each, under one key.
		if state, opens := s.open([]byte("a"), text); opens && string(state) != "state" {
			t.Errorf("%q opens as %q", text, state)
		}
	})
}
