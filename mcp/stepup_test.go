package mcp_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sidequest/mcp"
)

// post sends a body to the MCP endpoint as it is.
func (p *process) post(token, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func TestAChallengeSaysInWordsWhereMoreIsAllowedAndIsRepeatedInTheBody(t *testing.T) {
	t.Parallel()
	m := open(t)
	for _, by := range transports() {
		a := by.call(t, m.main, "ann:read", "request_quotes", `{}`)
		challenge := a.header.Get("WWW-Authenticate")
		_, description, _ := strings.Cut(challenge, `error_description="`)
		description, _, _ = strings.Cut(description, `"`)
		for _, part := range []string{"request_quotes", "https://sidequest.example/connections"} {
			if !strings.Contains(description, part) {
				t.Errorf("%s: the description %q lacks %s", by.name, description, part)
			}
		}
		message := a.failure.Message
		if a.wire != nil {
			message = a.wire.Message
			if got := a.wire.Data.Meta.Challenges; len(got) != 1 || got[0] != challenge {
				t.Errorf("%s: the body has the challenges %q, the header %q", by.name, got, challenge)
			}
		}
		if message != description {
			t.Errorf("%s: the message is %q, the description %q", by.name, message, description)
		}
	}
}

func TestABadTokenIsRefusedBeforeTheScopeIsLookedAt(t *testing.T) {
	t.Parallel()
	m := open(t)
	for _, by := range transports() {
		a := by.call(t, m.main, "mallory", "request_quotes", `{}`)
		if a.status != http.StatusUnauthorized || !strings.Contains(a.header.Get("WWW-Authenticate"), `error="invalid_token"`) {
			t.Errorf("%s: got %d %v", by.name, a.status, a.header)
		}
	}
}

func TestScopeIsRefusedBeforeArgumentsAreLookedAt(t *testing.T) {
	t.Parallel()
	m := open(t)
	for _, args := range []string{`5`, `{"no":"such"}`, `null`} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"request_quotes","arguments":` + args + `}}`
		if w := m.main.post("ann:read", body); w.Code != http.StatusForbidden {
			t.Errorf("%s: got %d %s", args, w.Code, w.Body)
		}
	}
}

func TestOneForbiddenCallInABatchRefusesAllOfIt(t *testing.T) {
	t.Parallel()
	m := open(t)
	call := func(id, tool, args string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`
	}
	wanted := encode(t, wish(object{"operationKey": "k"}))
	events, receipts := m.logged(t)
	w := m.main.post("ann:hire", "["+call("1", "request_quotes", wanted)+","+call("2", "submit_quote", `{}`)+"]")
	var refused struct {
		Error wireError `json:"error"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &refused); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	scope := "sidequest:hire sidequest:work"
	if w.Code != http.StatusForbidden || refused.Error.Code != mcp.CodeForbidden || refused.Error.Data.Scope != scope {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if got := w.Header().Get("WWW-Authenticate"); !strings.Contains(got, `scope="`+scope+`"`) {
		t.Errorf("the challenge is %s", got)
	}
	if e, r := m.logged(t); e != events || r != receipts {
		t.Error("a part of the batch was carried out")
	}
	if w := m.main.post("ann:hire", "["+call("1", "request_quotes", wanted)+","+call("2", "nothing", `{}`)+"]"); w.Code != http.StatusOK {
		t.Errorf("a batch within the scopes: got %d %s", w.Code, w.Body)
	}
}

func TestASecondAuthorizationHeaderIsABadRequest(t *testing.T) {
	t.Parallel()
	m := open(t)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	if w := m.main.post("ann", list, "Authorization", "Bearer bob"); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"jsonrpc"`) {
		t.Errorf("MCP: got %d %s", w.Code, w.Body)
	}
	r := restCall("whoami", `{}`)
	r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer ann", "Bearer ann"}}
	w := httptest.NewRecorder()
	m.main.ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"code":"invalid"`) {
		t.Errorf("REST: got %d %s", w.Code, w.Body)
	}
}

func TestATokenInTheAddressIsNoToken(t *testing.T) {
	t.Parallel()
	m := open(t)
	for _, path := range []string{"/mcp?access_token=ann", "/api/whoami?access_token=ann"} {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		m.main.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized || strings.Contains(w.Header().Get("WWW-Authenticate"), "error=") {
			t.Errorf("%s: got %d %s", path, w.Code, w.Header().Get("WWW-Authenticate"))
		}
	}
}

func TestAnAddressThatIsSpeltOtherwiseIsChallengedForTheSameResource(t *testing.T) {
	t.Parallel()
	m := open(t)
	for path, resource := range map[string]string{
		"/%6dcp": "/mcp", "/m%63%70": "/mcp", "/%61pi/whoami": "/mcp", "/api/%77hoami": "/mcp",
	} {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		m.main.ServeHTTP(w, r)
		want := `resource_metadata="https://sidequest.example/.well-known/oauth-protected-resource` + resource + `"`
		if got := w.Header().Get("WWW-Authenticate"); w.Code != http.StatusUnauthorized || !strings.Contains(got, want) {
			t.Errorf("%s: got %d %s", path, w.Code, got)
		}
	}
}
