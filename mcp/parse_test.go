package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestAMessageKeepsItsPartsAsTheyWereSent(t *testing.T) {
	t.Parallel()
	m, refused := parse([]byte(` {"params": {"x":[1 ,2], "name":"a\u0062", "_meta" : {"progressToken":7} } ,"id":-9007199254740993,"method":"m","jsonrpc":"2.0","extra":null} `))
	if refused != nil {
		t.Fatal(refused)
	}
	got := []string{string(m.ID), m.Method, string(m.Params), string(m.Meta.Raw), string(m.Meta.ProgressToken), string(m.name)}
	want := []string{"-9007199254740993", "m", `{"x":[1 ,2], "name":"a\u0062", "_meta" : {"progressToken":7} }`, `{"progressToken":7}`, "7", `"a\u0062"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestABodyThatTwoReadersCouldUnderstandDifferentlyIsRefused(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		``:     CodeParse,
		`{`:    CodeParse,
		`nope`: CodeParse,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}{}`:                                 CodeParse,
		`{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}`:                   CodeParse,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"b":1,"\u0062":2}}}`: CodeParse,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}":                         CodeParse,
		`{"jsonrpc":"2.0","id":1,"method":"\ud800"}`:                                 CodeParse,
		`5`:      CodeInvalidRequest,
		`"text"`: CodeInvalidRequest,
		`{}`:     CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"METHOD":"ping"}`:                                    CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","METHOD":"tools/call"}`:        CodeInvalidRequest,
		`{"j\u017fonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}`:               CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"Name":"a"}}`:              CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`:                        CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":1}}`:               CodeInvalidParams,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"Cursor":null}}`:           CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"maxevents":1}}`:           CodeInvalidRequest,
		`{"jsonrpc":"1.0","id":1,"method":"ping"}`:                                    CodeInvalidRequest,
		`{"jsonrpc":2.0,"id":1,"method":"ping"}`:                                      CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":5}`:                                         CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":""}`:                                        CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`:                        CodeInvalidRequest,
		`{"jsonrpc":"2.0","method":"ping"}`:                                           CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", maxID) + `","method":"ping"}`: CodeInvalidRequest,
	} {
		if _, refused := parse([]byte(body)); refused == nil || refused.Code != want {
			t.Errorf("%.90s: got %v, want %d", body, refused, want)
		}
	}
}

func TestAnIDIsAStringOrAnInteger(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		`"a"`: true, `""`: true, `0`: true, `-1`: true, `123456789012345678901234567890`: true,
		`null`: false, `true`: false, `1.0`: false, `1e3`: false, `{}`: false, `[1]`: false,
	} {
		m, refused := parse([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`))
		if (refused == nil) != want {
			t.Errorf("id %s: got %v", id, refused)
		}
		if refused != nil && m.ID != nil {
			t.Errorf("id %s would be repeated in the answer", id)
		}
	}
}

func TestARefusedMessageStillHasItsID(t *testing.T) {
	t.Parallel()
	m, refused := parse([]byte(`{"jsonrpc":"2.0","id":"a","method":5}`))
	if refused == nil || string(m.ID) != `"a"` {
		t.Errorf("got id %s, refusal %v", m.ID, refused)
	}
}

func TestDepthIsBoundedAndBracketsInStringsDoNotCount(t *testing.T) {
	t.Parallel()
	nest := func(depth int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":` +
			strings.Repeat("[", depth-2) + strings.Repeat("]", depth-2) + `}}`
	}
	quoted := `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"` + strings.Repeat(`[{\"`, 100) + `"}}`
	for body, want := range map[string]bool{nest(MaxDepth): true, nest(MaxDepth + 1): false, quoted: true} {
		if _, refused := parse([]byte(body)); (refused == nil) != want {
			t.Errorf("%s: got %v", body, refused)
		}
	}
}

func TestABatchIsBounded(t *testing.T) {
	t.Parallel()
	batch := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }
	for body, want := range map[string]bool{
		batch(1): true, batch(MaxBatch): true, batch(0): false, batch(MaxBatch + 1): false,
		`[1]2`: false, `[1`: false, `[{"a":1,"a":2}]`: false,
	} {
		if _, refused := parseBatch([]byte(body)); (refused == nil) != want {
			t.Errorf("%s: got %v", body, refused)
		}
	}
}

// A lax reader folds the case of names and lets the last of several win, as much
// of what stands between a client and this server does.
type laxMessage struct {
	JSONRPC string
	ID      json.RawMessage
	Method  string
	Params  *struct {
		Name, URI, TaskID json.RawMessage
		Meta              map[string]json.RawMessage `json:"_meta"`
	}
	Result, Error json.RawMessage
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","uri":"u","taskId":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		`{"jsonrpc":"2.0","id":"a","METHOD":"m"}`, `{"id":1,"id":2}`, `[{"jsonrpc":"2.0"}]`, `{"jsonrpc":"2.0","id":1,"result":null}`,
		`{"jsonrpc":"2.0","method":"notifications/x","params":null}`, "\xff", `{"\ud800":1}`, strings.Repeat("[", 40),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		_, _ = parseBatch(body)
		m, refused := parse(body)
		if !bytes.Equal(before, body) {
			t.Fatal("parsing changed the body")
		}
		if refused != nil || m.response {
			return
		}
		var lax laxMessage
		if err := json.Unmarshal(body, &lax); err != nil { //nolint:musttag // names are matched as a lax reader matches them
			t.Fatalf("accepted what is not JSON of this shape: %v", err)
		}
		compare(t, m, lax)
	})
}

func compare(t *testing.T, m Message, lax laxMessage) {
	t.Helper()
	if lax.JSONRPC != "2.0" || lax.Method != m.Method {
		t.Errorf("read %q, a lax reader %q", m.Method, lax.Method)
	}
	same := func(what string, ours jsontext.Value, theirs json.RawMessage) {
		t.Helper()
		if !bytes.Equal(ours, theirs) {
			t.Errorf("%s: read %s, a lax reader %s", what, ours, theirs)
		}
	}
	same("id", m.ID, lax.ID)
	if (m.Params == nil) != (lax.Params == nil) {
		t.Fatalf("read params %s, a lax reader %v", m.Params, lax.Params)
	}
	if lax.Params == nil {
		return
	}
	same("name", m.name, lax.Params.Name)
	same("uri", m.uri, lax.Params.URI)
	same("taskId", m.taskID, lax.Params.TaskID)
	same("version", m.Meta.ProtocolVersion, lax.Params.Meta[metaProtocolVersion])
	same("capabilities", m.Meta.ClientCapabilities, lax.Params.Meta[metaClientCapabilities])
	same("progressToken", m.Meta.ProgressToken, lax.Params.Meta["progressToken"])
}
