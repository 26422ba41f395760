package mcp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"

	"sidequest/domain"
)

// published compiles a definition of the protocol's own schema.
func published(t *testing.T, definition string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile("testdata/mcp-2026-07-28.schema.json#/$defs/" + definition)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestModernAnswersSatisfyThePublishedSchema(t *testing.T) {
	t.Parallel()
	mismatch := modern("tools/list", "", "")
	mismatch.Header.Set("Mcp-Method", "tools/call")
	for _, c := range []struct {
		request    *http.Request
		definition string
		member     string // of the response that the definition is about; empty for all
	}{
		{modern("server/discover", "", ""), "DiscoverResultResponse", ""},
		{modern("events/list", "", ""), "JSONRPCResultResponse", ""},
		{modern("tools/call", "echo", `"name":"echo"`), "CallToolResultResponse", ""},
		{mismatch, "HeaderMismatchError", ""},
		{from("2027-01-01"), "UnsupportedProtocolVersionError", ""},
		{modern("ping", "", ""), "MethodNotFoundError", "error"},
		{modern("resources/read", "x", `"uri":"x"`), "InvalidParamsError", "error"},
		{modern("tools/call", "break", `"name":"break"`), "InternalError", "error"},
	} {
		body := record(t, newServer(t), c.request)
		value := unmarshal(t, body)
		if object, ok := value.(map[string]any); ok && c.member != "" {
			value = object[c.member]
		}
		if err := published(t, c.definition).Validate(value); err != nil {
			t.Errorf("not a %s: %v\n%s", c.definition, err, body)
		}
	}
}

// from returns a request of another revision, complete in the form of the modern
// era.
func from(version string) *http.Request {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{%q:%q,%q:{}}}}`,
		metaProtocolVersion, version, metaClientCapabilities)
	req := modern("tools/list", "", "")
	req.Body = io.NopCloser(strings.NewReader(body))
	req.Header.Set("Mcp-Protocol-Version", version)
	return req
}

func TestEveryRefusalInEveryTranscriptIsAJSONRPCError(t *testing.T) {
	t.Parallel()
	schema := published(t, "JSONRPCErrorResponse")
	files, err := filepath.Glob("testdata/transcripts/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range archive.Files {
			if section.Name != "<- response" || !bytes.HasPrefix(section.Data, []byte("4")) {
				continue
			}
			_, body, _ := strings.Cut(string(section.Data), "\n\n")
			if err := schema.Validate(unmarshal(t, body)); err != nil {
				t.Errorf("%s: %v\n%s", file, err, section.Data)
			}
			for _, code := range []string{"-32042", "-32002"} {
				if strings.Contains(file, "modern_") && strings.Contains(body, code) {
					t.Errorf("%s: the modern era has no %s", file, code)
				}
			}
		}
	}
}

func unmarshal(t *testing.T, body string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return v
}

func TestAToolOfEitherScopeAsksForTheScopeOfAHeldRoleElseForBoth(t *testing.T) {
	t.Parallel()
	either := Tool{Scopes: []string{domain.ScopeWork, domain.ScopeHire}}
	for _, c := range []struct {
		roles []string
		want  string
	}{
		{nil, "sidequest:work sidequest:hire"},
		{[]string{"hire"}, "sidequest:hire"},
		{[]string{"work"}, "sidequest:work"},
		{[]string{"work", "hire"}, "sidequest:work"},
	} {
		if got := either.needs(c.roles); got != c.want {
			t.Errorf("with the roles %v it asks for %q, want %q", c.roles, got, c.want)
		}
	}
}
