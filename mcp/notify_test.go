package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// teller is a server whose one tool tells of its work.
func teller(tb testing.TB) *Server {
	tb.Helper()
	s := newServer(tb)
	s.Methods = map[string]Method{"tools/call": {NameParam: "name", Handle: func(_ context.Context, c *Call) (any, error) {
		if err := c.Progress(0, 0, ""); err != nil {
			return nil, err
		}
		if err := errors.Join(c.Tell("debug", "", "fine"), c.Tell("warning", "work", map[string]int{"left": 1})); err != nil {
			return nil, err
		}
		if err := c.Progress(0.5, 1, "half"); err != nil {
			return nil, err
		}
		return map[string]any{"content": []any{}}, nil
	}}}
	return s
}

// told returns the notifications that come with an answer, and the answer.
func tellings(tb testing.TB, meta, accept string) (notes []string, kind, answer string) {
	tb.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{%s%q:%q,%q:{}}}}`,
		meta, metaProtocolVersion, V20260728, metaClientCapabilities)
	r := newRequest(tb, "/mcp", body)
	r.Header.Set("Mcp-Protocol-Version", V20260728)
	r.Header.Set("Mcp-Method", "tools/call")
	r.Header.Set("Mcp-Name", "t")
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	teller(tb).ServeHTTP(w, r)
	answer = w.Body.String()
	for line := range strings.Lines(w.Body.String()) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			notes, answer = append(notes, data), data
		}
	}
	if len(notes) > 0 {
		notes = notes[:len(notes)-1]
	}
	return notes, w.Header().Get("Content-Type"), answer
}

const (
	begun   = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":0}}`
	half    = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":0.5,"total":1,"message":"half"}}`
	fine    = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"fine"}}`
	warning = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"work","data":{"left":1}}}`
)

func TestACallTellsOfItsWorkWhatTheClientAskedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		meta, accept string
		want         []string
	}{
		{"", "", nil},
		{`"progressToken":"p",`, "", []string{begun, half}},
		{`"progressToken":"p",`, "application/json, text/event-stream", []string{begun, half}},
		{`"progressToken":"p",`, "application/json", nil},
		{`"io.modelcontextprotocol/logLevel":"debug",`, "", []string{fine, warning}},
		{`"io.modelcontextprotocol/logLevel":"warning",`, "", []string{warning}},
		{`"io.modelcontextprotocol/logLevel":"error",`, "", nil},
		{`"io.modelcontextprotocol/logLevel":"info","progressToken":"p",`, "text/event-stream", []string{begun, warning, half}},
	} {
		notes, kind, answer := tellings(t, c.meta, c.accept)
		if diff := cmp.Diff(c.want, notes); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.meta, c.accept, diff)
		}
		if streamed := kind == "text/event-stream"; streamed != (len(c.want) > 0) || !strings.Contains(answer, `"resultType":"complete"`) || strings.Contains(answer, "subscriptionId") {
			t.Errorf("%s %s: the answer is %s %s", c.meta, c.accept, kind, answer)
		}
	}
}

func TestALevelOrATokenThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for _, meta := range []string{
		`"progressToken":1.5,`, `"progressToken":{},`, `"progressToken":null,`,
		`"io.modelcontextprotocol/logLevel":"loud",`, `"io.modelcontextprotocol/logLevel":7,`, `"io.modelcontextprotocol/LOGLEVEL":"info",`,
	} {
		notes, kind, answer := tellings(t, meta, "")
		if notes != nil || kind != "application/json" || !strings.Contains(answer, `"error"`) {
			t.Errorf("%s is answered with %s", meta, answer)
		}
	}
}

func TestALegacyClientHearsOfProgressAndNoMessages(t *testing.T) {
	t.Parallel()
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":"p","io.modelcontextprotocol/logLevel":"debug"}}}`
	r := newRequest(t, "/mcp", call)
	r.Header.Set("Mcp-Protocol-Version", V20250618)
	if body := record(t, teller(t), r); !strings.Contains(body, begun) || strings.Contains(body, "notifications/message") {
		t.Errorf("it is answered with %s", body)
	}
	if body := record(t, teller(t), newRequest(t, "/mcp", "["+call+"]")); !strings.HasPrefix(body, `[{"jsonrpc":"2.0","id":1,"result"`) {
		t.Errorf("a batch is answered with %s", body)
	}
}

func TestTheMessagesOfABatchDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	met := make(chan struct{})
	s.Methods = map[string]Method{
		"give": {Handle: func(ctx context.Context, _ *Call) (any, error) {
			select {
			case met <- struct{}{}:
			case <-ctx.Done():
			}
			return nil, ctx.Err()
		}},
		"take": {Handle: func(ctx context.Context, _ *Call) (any, error) {
			select {
			case <-met:
			case <-ctx.Done():
			}
			return nil, ctx.Err()
		}},
		"abort": {Handle: func(context.Context, *Call) (any, error) { panic(http.ErrAbortHandler) }},
	}
	body := record(t, s, newRequest(t, "/mcp",
		`[{"jsonrpc":"2.0","id":1,"method":"give"},{"jsonrpc":"2.0","id":"b","method":"take"},{"jsonrpc":"2.0","id":3,"method":"abort"}]`))
	want := `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":"b","result":{}},{"jsonrpc":"2.0","id":3,"error":`
	if !strings.HasPrefix(body, want) {
		t.Errorf("the batch is answered with %s", body)
	}
}
