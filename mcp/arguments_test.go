package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/unicode/norm"

	"sidequest/domain"
	"sidequest/projections"
)

// table is the tool table, made once: its schemas are costly.
var table = sync.OnceValue(Tools)

// readArguments reads arguments of a tool as the pipeline does.
func readArguments(tool Tool, raw string) (arguments, error) {
	m := &Market{Now: time.Now}
	return m.arguments(tool, Caller{AgentKey: "ag_test", Board: "main"}, []byte(raw))
}

func toolNamed(t *testing.T, name string) Tool {
	t.Helper()
	i := slices.IndexFunc(table(), func(t Tool) bool { return t.Name == name })
	if i < 0 {
		t.Fatalf("no tool %s", name)
	}
	return table()[i]
}

func TestAnOperationIsKnownByItsArgumentsAndNotByItsKey(t *testing.T) {
	t.Parallel()
	tool := toolNamed(t, "withdraw_quote")
	hash := func(raw string) [32]byte {
		in, err := readArguments(tool, raw)
		if err != nil {
			t.Fatal(err)
		}
		return in.op.ArgsHash
	}
	want := hash(`{"quoteId":"qt_1","operationKey":"a"}`)
	for _, same := range []string{
		`{"quoteId":"qt_1","operationKey":"b"}`,
		`{"operationKey":"a","quoteId":"qt_1"}`,
		" {\n\"quoteId\" : \"qt\\u005f1\", \"operationKey\":\"a\"}",
	} {
		if hash(same) != want {
			t.Errorf("%s is another operation", same)
		}
	}
	if hash(`{"quoteId":"qt_2","operationKey":"a"}`) == want {
		t.Error("another quote is the same operation")
	}
}

func TestNumbersAreWrittenInOneWay(t *testing.T) {
	t.Parallel()
	tool := toolNamed(t, "inbox")
	for raw, want := range map[string]string{
		`{"limit":50}`:      `{"limit":50}`,
		`{"limit":50.0}`:    `{"limit":50}`,
		`{"limit":5e1}`:     `{"limit":50}`,
		`{"limit":0.5E+02}`: `{"limit":50}`,
	} {
		in, err := readArguments(tool, raw)
		if err != nil || string(in.canonical) != want {
			t.Errorf("%s is read as %s (%v)", raw, in.canonical, err)
		}
	}
	for _, raw := range []string{`{"limit":0.5}`, `{"limit":-1}`, `{"limit":1e400}`, `{"limit":1e99999999999}`, `{"limit":9007199254740993}`, `{"limit":"5"}`} {
		in, err := readArguments(tool, raw)
		if domain.CodeOf(err) != "invalid" {
			t.Errorf("%s is read as %s (%v)", raw, in.canonical, err)
		}
	}
}

func TestTheFirstFaultIsAlwaysTheSame(t *testing.T) {
	t.Parallel()
	tool := toolNamed(t, "request_quotes")
	const raw = `{"title":"","brief":5,"z":1,"y":2,"x":3,"acceptanceCriteria":[],"tags":["a","b"],"operationKey":" ","deliveryDeadline":"","quoteDeadline":[]}`
	_, first := readArguments(tool, raw)
	for range 50 {
		if _, err := readArguments(tool, raw); err.Error() != first.Error() {
			t.Fatalf("%v, then %v", first, err)
		}
	}
}

func TestAVastBodyIsRefusedByItsSize(t *testing.T) {
	t.Parallel()
	tool := toolNamed(t, "request_quotes")
	for name, c := range map[string]struct{ raw, rule string }{
		"items":   {`{"tags":[` + strings.Repeat(`1,`, MaxBody/2-100) + `1]}`, "tags must have at most 1000 items"},
		"members": {`{` + strings.Join(distinct(100_000), ",") + `}`, "the arguments must have at most 1000 members"},
		"digits":  {`{"quoteDeadline":` + strings.Repeat("9", MaxBody-100) + `}`, "quoteDeadline must be a number from"},
	} {
		_, err := readArguments(tool, c.raw)
		e, ok := errors.AsType[*domain.Error](err)
		if !ok || e.Class != domain.Invalid || !strings.HasPrefix(e.Message, c.rule) || len(e.Message) > 200 {
			t.Errorf("%s: got %.300v", name, err)
		}
	}
}

func distinct(n int) []string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`"m%d":1`, i)
	}
	return members
}

// FuzzArguments checks that whatever passes is what the schema allows, in
// canonical form, and can be read, and that all else is refused as invalid.
func FuzzArguments(f *testing.F) {
	for _, raw := range []string{
		``, `{}`, `null`, `[]`, `{"limit":1e400}`, `{"limit":5e1,"kinds":["quote.received"]}`, `{"requestId":"rq_1"}`,
		`{"quoteId":"qt_1","operationKey":"k"}`, `{"operationId":"op_1","operationId ":1}`, `{"cursor":"\u0000"}`,
		`{"requestId":"rq_1","agentId":"1","token":"0x52908400098527886e0f7030069857d2e4169ee7","amount":"1","note":"é","operationKey":"k"}`,
		`{"title":"t","brief":"b","acceptanceCriteria":["c"],"quoteDeadline":1786000000,"deliveryDeadline":"3d","operationKey":"k",` +
			`"tokens":["0xFB6916095CA1DF60BB79CE92CE3EA74C37C5D359"],"windows":{"reviewSeconds":7200.0},"deliverable":{"accepts":["git"]}}`,
		`{"requestId":"r","quoteId":"q","operationKey":"k","executionBudget":{"kind":"call","cap":"1","target":"0x52908400098527886E0F7030069857D2E4169Ee7","expiresAt":"1h"}}`,
	} {
		for tool := range uint8(len(table())) {
			f.Add(tool, []byte(raw))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		tool := table()[int(which)%len(table())]
		if len(bytes.TrimSpace(raw)) > 0 && checkObject(raw) != nil {
			return // refused before it gets here
		}
		in, err := readArguments(tool, string(raw))
		if err != nil {
			checkInvalid(t, err)
			return
		}
		checkCanonical(t, tool, in)
	})
}

func checkInvalid(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*domain.Error](err)
	if !ok || e.Class != domain.Invalid || e.Message == "" || len([]rune(e.Message)) > 500 || e.Field != "" && e.Field[0] != '/' {
		t.Fatalf("refused with %v", err)
	}
}

func checkCanonical(t *testing.T, tool Tool, in arguments) {
	t.Helper()
	if command, ok := commands()[tool.Name]; ok {
		if err := in.decode(command); err != nil {
			t.Fatal(err)
		}
	}
	value, err := validator.UnmarshalJSON(bytes.NewReader(in.canonical))
	if err != nil {
		t.Fatal(err)
	}
	object := value.(map[string]any)
	if tool.Write {
		object["operationKey"] = in.op.Key
	}
	if err := tool.In.Check(object); err != nil {
		t.Fatalf("passed against the schema: %v: %s", err, in.canonical)
	}
	inOneSpelling(t, tool.In.doc, object)

	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	again, err := readArguments(tool, string(raw))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(in.canonical), string(again.canonical)); diff != "" {
		t.Fatalf("canonical once and twice (-once +twice):\n%s", diff)
	}
}

// inOneSpelling fails on text and addresses that have another spelling.
func inOneSpelling(t *testing.T, s *jsonschema.Schema, value any) {
	t.Helper()
	switch v := value.(type) {
	case string:
		if !norm.NFC.IsNormalString(v) {
			t.Fatalf("%q is not in normal form C", v)
		}
		if s != nil && s.Pattern == addressPattern && v != common.HexToAddress(v).Hex() {
			t.Fatalf("%s has no checksum", v)
		}
	case []any:
		for _, item := range v {
			inOneSpelling(t, s.Items, item)
		}
	case map[string]any:
		for name, member := range v {
			property, _ := s.Properties.Get(name)
			inOneSpelling(t, property, member)
		}
	}
}

// commands are what arguments are decoded into, by tool.
func commands() map[string]any {
	return map[string]any{
		"request_quotes": &domain.RequestQuotes{}, "pick_quote": &domain.PickQuote{}, "close_request": &domain.CloseRequest{},
		"submit_quote": &domain.SubmitQuote{}, "withdraw_quote": &domain.WithdrawQuote{}, "inbox": &inboxQuery{},
		"check_operation": &operationQuery{}, "list_quotes": &projections.ListQuotes{}, "list_quote_requests": &projections.ListQuoteRequests{},
	}
}
