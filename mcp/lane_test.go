package mcp

import (
	"net/http"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestAHeaderValueIsDecodedBeforeItIsCompared(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]struct {
		text string
		ok   bool
	}{
		"plain":                    {"plain", true},
		" \tplain\t ":              {"plain", true},
		"":                         {"", true},
		"=?base64?Z3LDvMOfZQ==?=":  {"grüße", true},
		" =?base64?Z3LDvMOfZQ==?=": {"grüße", true},
		"=?base64??=":              {"", true},
		"=?base64?Z3LDvMOfZQ?=":    {"", false}, // padding is missing
		"=?base64?Z3L DvMOfZQ==?=": {"", false},
		"=?base64?_-__?=":          {"", false}, // another alphabet
		"=?base64?/w==?=":          {"", false}, // not UTF-8
		"=?base64?ZWNobw==":        {"=?base64?ZWNobw==", true},
		"=?Base64?ZWNobw==?=":      {"=?Base64?ZWNobw==?=", true},
		"grüße":                    {"", false},
		"a\x01b":                   {"", false},
	} {
		got, ok := decodeHeader(value)
		if ok != want.ok || ok && got != want.text {
			t.Errorf("%q: got %q, %v; want %q, %v", value, got, ok, want.text, want.ok)
		}
	}
}

func TestTheBodyDecidesTheEraBeforeTheHeader(t *testing.T) {
	t.Parallel()
	const meta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for _, c := range []struct {
		name, method, meta, header string
		era                        Era
		version                    string
		code                       int
	}{
		{"nothing says anything", "tools/list", "{}", "", Legacy, V20250326, 0},
		{"a legacy header", "tools/list", "{}", V20250618, Legacy, V20250618, 0},
		{"a modern body and header", "tools/list", meta, V20260728, Modern, V20260728, 0},
		{"a modern body, no header", "tools/list", meta, "", "", "", CodeHeaderMismatch},
		{"a modern body, legacy header", "tools/list", meta, V20251125, "", "", CodeHeaderMismatch},
		{"a modern header, legacy body", "tools/list", "{}", V20260728, "", "", CodeInvalidParams},
		{"an unknown newer header", "tools/list", "{}", "2030-01-01", "", "", CodeInvalidParams},
		{"an unknown older header", "tools/list", "{}", "2024-10-07", "", "", CodeUnsupportedVersion},
		{"a header that is no date", "tools/list", "{}", "DRAFT", "", "", CodeInvalidParams},
		{"a handshake", "initialize", "{}", "", Legacy, V20251125, 0},
		{"a handshake with a modern header", "initialize", "{}", V20260728, Legacy, V20251125, 0},
		{"a handshake with a modern body", "initialize", meta, V20260728, Modern, V20260728, 0},
	} {
		m, refused := parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + c.method + `","params":{"_meta":` + c.meta + `}}`))
		if refused != nil {
			t.Fatal(refused)
		}
		h := http.Header{"Mcp-Method": {c.method}}
		if c.header != "" {
			h.Set("Mcp-Protocol-Version", c.header)
		}
		lane, refused := laneOf(h, m)
		code := 0
		if refused != nil {
			code = refused.Code
		}
		if lane.Era != c.era || lane.Version != c.version || code != c.code {
			t.Errorf("%s: got %s %s %d, want %s %s %d", c.name, lane.Era, lane.Version, code, c.era, c.version, c.code)
		}
	}
}

func TestACapabilityIsDeclaredOnlyIfEveryPartOfItsPathIs(t *testing.T) {
	t.Parallel()
	l := Lane{Capabilities: jsontext.Value(`{"elicitation":{"url":{},"form":null},"extensions":{"a/b":{}}}`)}
	for _, c := range []struct {
		path []string
		want bool
	}{
		{[]string{"elicitation"}, true},
		{[]string{"elicitation", "url"}, true},
		{[]string{"elicitation", "form"}, false},
		{[]string{"elicitation", "url", "x"}, false},
		{[]string{"sampling"}, false},
		{[]string{"extensions", "a/b"}, true},
	} {
		if got := l.Declares(c.path...); got != c.want {
			t.Errorf("%v: got %v", c.path, got)
		}
	}
	if (Lane{}).Declares("elicitation") {
		t.Error("a legacy client declares nothing")
	}
}
