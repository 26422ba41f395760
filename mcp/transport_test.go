package mcp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sidequest/mcp"
)

// A transport is one way to call a tool.
type transport struct {
	name    string
	request func(tool, args string) *http.Request
	read    func(w *httptest.ResponseRecorder) (answer, error)
}

func transports() []transport {
	return []transport{
		{"modern", modernCall, readResult},
		{"legacy", legacyCall, readResult},
		{"rest", restCall, readREST},
	}
}

// over runs a story over each transport, at once.
func over(t *testing.T, story func(t *testing.T, by transport)) {
	t.Helper()
	for _, by := range transports() {
		t.Run(by.name, func(t *testing.T) {
			t.Parallel()
			story(t, by)
		})
	}
}

// An answer is what came of a call. Either the tool answered, with body, or the
// request was refused as a whole, with wire.
type answer struct {
	status  int
	header  http.Header
	body    string
	failure mcp.Failure // its OK tells whether it is one
	wire    *wireError
}

// A wireError is a JSON-RPC error.
type wireError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Code  string `json:"code"`
		Retry string `json:"retry"`
		Scope string `json:"scope"`
		Meta  struct {
			Challenges []string `json:"mcp/www_authenticate"`
		} `json:"_meta"`
	} `json:"data"`
}

// call calls a tool and checks that the answer has the form it must have.
func (by transport) call(t *testing.T, p *process, token, tool, args string) answer {
	t.Helper()
	a, err := by.try(t, p, token, tool, args)
	if err != nil {
		t.Fatalf("%s over %s: %v", tool, by.name, err)
	}
	return a
}

// try is call for goroutines of a test.
func (by transport) try(t *testing.T, p *process, token, tool, args string) (answer, error) {
	r := by.request(tool, args).WithContext(t.Context())
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	a, err := by.read(w)
	if err != nil {
		return a, fmt.Errorf("%w: %d %s", err, w.Code, w.Body)
	}
	a.status, a.header = w.Code, w.Header()
	if a.wire != nil {
		return a, nil
	}
	if err := json.Unmarshal([]byte(a.body), &a.failure); err != nil {
		return a, fmt.Errorf("%w: %s", err, a.body)
	}
	if err := fits(tool, a.body); err != nil {
		return a, fmt.Errorf("the answer does not fit the tool's schema: %w: %s", err, a.body)
	}
	return a, nil
}

// fits checks an answer against the tool's published schema.
func fits(tool, body string) error {
	t := row(tool)
	if t == nil {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		return err
	}
	return t.Out.Check(value)
}

// result reads the result of a granted call.
func (a answer) result(t *testing.T, dst any) {
	t.Helper()
	if a.wire != nil || !a.failure.OK {
		t.Fatalf("refused: %d %s %+v", a.status, a.body, a.wire)
	}
	envelope := struct {
		Result any `json:"result"`
	}{dst}
	if err := json.Unmarshal([]byte(a.body), &envelope); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// operation returns the id of a granted write.
func (a answer) operation(t *testing.T) string {
	t.Helper()
	var w struct {
		OperationID string `json:"operationId"`
	}
	if err := json.Unmarshal([]byte(a.body), &w); err != nil || w.OperationID == "" {
		t.Fatalf("not a granted write: %s", a.body)
	}
	return w.OperationID
}

func modernCall(tool, args string) *http.Request {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, tool, args)
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", "tools/call")
	r.Header.Set("Mcp-Name", tool)
	return r
}

func legacyCall(tool, args string) *http.Request {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args)
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	return r
}

func restCall(tool, args string) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/api/"+tool, strings.NewReader(args))
}

func readREST(w *httptest.ResponseRecorder) (answer, error) {
	return answer{body: w.Body.String()}, nil
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// readResult reads a response to tools/call: its text must be its structured
// content, and isError must be what ok is not.
func readResult(w *httptest.ResponseRecorder) (answer, error) {
	var response struct {
		Error  *wireError `json:"error"`
		Result struct {
			ResultType string          `json:"resultType"`
			Content    []textContent   `json:"content"`
			Structured json.RawMessage `json:"structuredContent"`
			IsError    bool            `json:"isError"`
		} `json:"result"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &response); err != nil {
		return answer{}, err
	}
	if response.Error != nil {
		return answer{wire: response.Error}, nil
	}
	r := response.Result
	if r.ResultType != "" {
		if err := satisfies(w.Body.Bytes()); err != nil {
			return answer{}, err
		}
	}
	if w.Code != http.StatusOK || len(r.Content) != 1 || r.Content[0].Type != "text" || r.Content[0].Text != string(r.Structured) {
		return answer{}, errors.New("the text is not the structured content, or the status is not 200")
	}
	var said struct {
		OK bool `json:"ok"`
	}
	if err := json.Unmarshal(r.Structured, &said); err != nil || said.OK == r.IsError {
		return answer{}, fmt.Errorf("isError %v says other than ok %v: %w", r.IsError, said.OK, err)
	}
	return answer{body: string(r.Structured)}, nil
}

// callToolResponse is the protocol's own schema of a modern response.
var callToolResponse = sync.OnceValues(func() (*jsonschema.Schema, error) {
	return jsonschema.NewCompiler().Compile("testdata/mcp-2026-07-28.schema.json#/$defs/CallToolResultResponse")
})

func satisfies(body []byte) error {
	schema, err := callToolResponse()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}
