package mcp

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

const annotated = `{"type":"object","properties":{` +
	`"s":{"type":"string","x-mcp-header":"Text"},"n":{"type":"integer","x-mcp-header":"Number"},` +
	`"o":{"type":"object","properties":{"b":{"type":"boolean","x-mcp-header":"Flag"}}},"free":{"type":"number"}}}`

func paramHeadersOf(t *testing.T, schema string) ([]ParamHeader, error) {
	t.Helper()
	var decoded map[string]any
	if err := json.Unmarshal([]byte(schema), &decoded); err != nil {
		t.Fatal(err)
	}
	return ParamHeaders(decoded)
}

func TestAHeaderThatRepeatsAnArgumentMustAgreeWithIt(t *testing.T) {
	t.Parallel()
	all, err := paramHeadersOf(t, annotated)
	if err != nil || len(all) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, c := range []struct {
		arguments, name, value string
		agrees                 bool
	}{
		{`{}`, "", "", true},
		{`{"s":null,"free":1.5}`, "", "", true},
		{`{"s":"Hello"}`, "Text", "Hello", true},
		{`{"s":"Hello"}`, "TEXT", "  Hello\t", true},
		{`{"s":"Hello"}`, "Text", "=?base64?SGVsbG8=?=", true},
		{`{"s":"Grüße"}`, "Text", "=?base64?R3LDvMOfZQ==?=", true},
		{`{"s":"Hello"}`, "Text", "hello", false},
		{`{"s":"Hello"}`, "Text", "=?base64?SGVsbG8?=", false},
		{`{"s":"Hello"}`, "Text", "=?base64?SGVs!!!bG8=?=", false},
		{`{"s":"Hello"}`, "", "", false},
		{`{}`, "Text", "Hello", false},
		{`{"s":null}`, "Text", "null", false},
		{`{"n":42}`, "Number", "42.0", true},
		{`{"n":4.2e1}`, "Number", "42", true},
		{`{"n":42}`, "Number", "43", false},
		{`{"n":42}`, "Number", "4x", false},
		{`{"o":{"b":true}}`, "Flag", "true", true},
		{`{"o":{"b":true}}`, "Flag", "True", false},
		{`{"o":{}}`, "Flag", "true", false},
	} {
		call := &Call{Lane: Lane{Era: Modern, Version: V20260728}, header: http.Header{}}
		if c.name != "" {
			call.header.Set(paramHeaderPrefix+c.name, c.value)
		}
		if err := call.CheckParamHeaders(all, jsontext.Value(c.arguments)); (err == nil) != c.agrees {
			t.Errorf("%s with %q: %q is answered with %v", c.arguments, c.name, c.value, err)
		}
	}
}

func TestAnnotationsThatClientsWouldDropAToolForAreErrors(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"two words"}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":7}}}`,
		`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`,
		`{"properties":{"a":{"x-mcp-header":"A"}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`,
	} {
		if _, err := paramHeadersOf(t, schema); err == nil {
			t.Errorf("%s is accepted", schema)
		}
	}
}

func TestNoToolOfOursHasAnArgumentInAHeader(t *testing.T) {
	t.Parallel()
	for _, tool := range Tools() {
		var schema map[string]any
		if err := json.Unmarshal(tool.In.JSON, &schema); err != nil {
			t.Fatal(err)
		}
		if headers, err := ParamHeaders(schema); err != nil || headers != nil {
			t.Errorf("%s: %v, %v", tool.Name, headers, err)
		}
	}
}
