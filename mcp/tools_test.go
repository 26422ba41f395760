package mcp

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"sidequest/domain"
)

// A node is a JSON value that is an object, as clients read it.
type node = map[string]any

// published returns a tool's definition as clients read it.
func (t Tool) published(tb testing.TB) node {
	tb.Helper()
	raw, err := json.Marshal(t.definition())
	if err != nil {
		tb.Fatal(err)
	}
	var d node
	if err := json.Unmarshal(raw, &d); err != nil {
		tb.Fatal(err)
	}
	return d
}

// everyTool runs a check on each row of the table.
func everyTool(t *testing.T, check func(t *testing.T, tool Tool, d node)) {
	t.Helper()
	for _, tool := range table() {
		t.Run(tool.Name, func(t *testing.T) {
			t.Parallel()
			check(t, tool, tool.published(t))
		})
	}
}

// TestADefinitionChangesOnlyOnPurpose compares what tools/list shows of each tool
// with testdata/tools. UPDATE=1 rewrites the files.
func TestADefinitionChangesOnlyOnPurpose(t *testing.T) {
	t.Parallel()
	everyTool(t, func(t *testing.T, tool Tool, d node) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(d); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata/tools", tool.Name+".json"), b.Bytes())
	})
	files, err := filepath.Glob("testdata/tools/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if !slices.ContainsFunc(table(), func(t Tool) bool { return t.Name == name }) {
			t.Errorf("%s is of no tool; remove it", file)
		}
	}
}

func TestTheListSatisfiesTheSchemaOfTheProtocol(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Methods = (&Market{Tools: table()}).Methods()
	body := record(t, s, modern("tools/list", "", ""))
	if err := published(t, "ListToolsResultResponse").Validate(unmarshal(t, body)); err != nil {
		t.Error(err)
	}
	want := slices.DeleteFunc(slices.Clone(table()), func(t Tool) bool { return t.Setup })
	if n := strings.Count(body, `"inputSchema"`); n != len(want) {
		t.Errorf("%d tools are listed, want %d", n, len(want))
	}
}

// golden compares with a file, which UPDATE=1 writes.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (UPDATE=1 writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (UPDATE=1 rewrites it):\n%s", file, diff)
	}
}

func TestToolsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	shape, seen := regexp.MustCompile(`^[a-z][a-z0-9_]{2,63}$`), map[string]bool{}
	for _, tool := range table() {
		if !shape.MatchString(tool.Name) || seen[tool.Name] {
			t.Errorf("the name %q is taken or has the wrong form", tool.Name)
		}
		seen[tool.Name] = true
	}
}

func TestADefinitionSaysWhatHostsAskFor(t *testing.T) {
	t.Parallel()
	everyTool(t, func(t *testing.T, tool Tool, d node) {
		if n := len(tool.Title); n == 0 || n > 40 {
			t.Errorf("the title %q has no fit length", tool.Title)
		}
		if n := len(tool.Description); n < 60 || n > 500 {
			t.Errorf("the description has %d characters", n)
		}
		if !regexp.MustCompile(`(Use|Call|Read) it|so use it`).MatchString(tool.Description) {
			t.Error("the description does not say when to use the tool")
		}
		hints := d["annotations"].(node)
		want := node{
			"title": tool.Title, "readOnlyHint": !tool.Write && !tool.Sends, "destructiveHint": tool.Destructive,
			"idempotentHint": true, "openWorldHint": tool.Sends,
		}
		if diff := cmp.Diff(want, hints); diff != "" {
			t.Errorf("hints (-want +got):\n%s", diff)
		}
		if tool.Destructive && !tool.Write {
			t.Error("a tool that reads destroys nothing")
		}
	})
}

func TestEveryToolNamesTheScopesThatSuffice(t *testing.T) {
	t.Parallel()
	everyTool(t, func(t *testing.T, tool Tool, d node) {
		for i, scope := range tool.Scopes {
			want := node{"type": "oauth2", "scopes": []any{scope}}
			if diff := cmp.Diff(any(want), d["securitySchemes"].([]any)[i]); diff != "" {
				t.Errorf("security scheme (-want +got):\n%s", diff)
			}
			if !slices.Contains(domain.Scopes(), scope) {
				t.Errorf("there is no scope %s", scope)
			}
		}
		reads := slices.Contains(tool.Scopes, domain.ScopeRead) || tool.Setup
		if len(tool.Scopes) == 0 || !tool.Write && !reads || tool.Write && reads && !tool.Asks {
			t.Errorf("the scopes %q do not go with what it does", tool.Scopes)
		}
	})
}

func TestEveryWriteAndNoReadHasAnOperationKey(t *testing.T) {
	t.Parallel()
	everyTool(t, func(t *testing.T, tool Tool, d node) {
		in := d["inputSchema"].(node)
		key, has := in["properties"].(node)["operationKey"].(node)
		required, _ := in["required"].([]any)
		if has != tool.Write || slices.Contains(required, any("operationKey")) != tool.Write {
			t.Fatalf("operationKey: there %v, required among %v", has, required)
		}
		if !tool.Write {
			return
		}
		text := key["description"].(string)
		if !strings.Contains(text, "A new key per intended action, the same key for every retry of it") {
			t.Errorf("operationKey does not say how to retry: %s", text)
		}
		if strings.Contains(strings.ToLower(text), "unique for every call") {
			t.Errorf("operationKey tells clients to break retries: %s", text)
		}
	})
}

func TestArgumentsAreClosedAndSimpleEnoughForEveryModelProvider(t *testing.T) {
	t.Parallel()
	everyTool(t, func(t *testing.T, _ Tool, d node) {
		in := d["inputSchema"].(node)
		if in["type"] != "object" || in["properties"] == nil {
			t.Error("the arguments are not an object with properties")
		}
		for _, keyword := range []string{"anyOf", "oneOf", "allOf", "not", "if"} {
			if in[keyword] != nil {
				t.Errorf("%s at the top is refused by some providers", keyword)
			}
		}
		walk(in, "", func(path string, s node) {
			if s["type"] == "object" && s["additionalProperties"] != false {
				t.Errorf("%s is open", path)
			}
			if most, _ := s["maxItems"].(float64); s["type"] == "array" && (most == 0 || most > mostItems) {
				t.Errorf("%s is a list of any length", path)
			}
			if s["format"] != nil {
				t.Errorf("%s has the format %v, which some validators do not know", path, s["format"])
			}
		})
	})
}

// These are open because their members are named by others: arguments by tools,
// stacks and steps by a deployment, results by the tool that was called.
var openObjects = []string{
	"/next/args", "/result/refusal/next/args", "/result/contracts/stacks", "/result/howTo",
	"/result/events/data", "/result/result",
}

func TestAnAnswerIsOneOfFewClosedForms(t *testing.T) {
	t.Parallel()
	everyTool(t, func(t *testing.T, tool Tool, d node) {
		out := d["outputSchema"].(node)
		forms, _ := out["oneOf"].([]any)
		if diff := cmp.Diff([]any{"ok"}, out["required"]); diff != "" || len(forms) < 2 || out["type"] != "object" {
			t.Fatalf("the answer is not one of some forms with ok:\n%s", diff)
		}
		for i := range forms {
			form, ok := forms[i].(node), i < len(forms)-1 // the last is the refusal
			if diff := cmp.Diff(any(ok), form["properties"].(node)["ok"].(node)["const"]); diff != "" {
				t.Errorf("form %d is not told by ok:\n%s", i, diff)
			}
			walk(form, "", func(path string, s node) {
				if s["type"] == "object" && s["additionalProperties"] != false && !slices.Contains(openObjects, path) {
					t.Errorf("%s of the form ok:%v is open", path, ok)
				}
			})
		}
		status := forms[0].(node)["properties"].(node)["status"]
		if (status != nil) != tool.Write {
			t.Errorf("the answer of a write has a status and that of a read has none; here it is %v", status)
		}
	})
}

func TestEveryPropertyIsDescribed(t *testing.T) {
	t.Parallel()
	everyTool(t, func(t *testing.T, _ Tool, d node) {
		for _, schema := range []string{"inputSchema", "outputSchema"} {
			walk(d[schema].(node), "", func(path string, s node) {
				for name, property := range properties(s) {
					if described(property) == "" {
						t.Errorf("%s: %s/%s has no description", schema, path, name)
					}
				}
			})
		}
	})
}

// described returns the description of a property, or of what it is when it is
// not null.
func described(s node) string {
	if text, ok := s["description"].(string); ok {
		return text
	}
	if alternatives, ok := s["oneOf"].([]any); ok {
		return described(alternatives[0].(node))
	}
	return ""
}

func TestSchemasAreValidAndSelfContained(t *testing.T) {
	t.Parallel()
	everyTool(t, func(t *testing.T, _ Tool, d node) {
		for _, schema := range []string{"inputSchema", "outputSchema"} {
			walk(d[schema].(node), "", func(path string, s node) {
				for keyword := range s {
					if !slices.Contains(keywords, keyword) {
						t.Errorf("%s: %s has the keyword %s, which strict validators refuse or cannot resolve", schema, path, keyword)
					}
				}
				if s["format"] != nil && s["format"] != "date-time" {
					t.Errorf("%s: %s has the unknown format %v", schema, path, s["format"])
				}
				if s["enum"] == nil && s["oneOf"] == nil && s["anyOf"] == nil && s["type"] == nil {
					t.Errorf("%s: %s has no type", schema, path)
				}
			})
			raw, err := json.Marshal(d[schema])
			if err != nil {
				t.Fatal(err)
			}
			value, err := validator.UnmarshalJSON(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			meta, err := validator.NewCompiler().Compile("https://json-schema.org/draft/2020-12/schema")
			if err != nil {
				t.Fatal(err)
			}
			if err := meta.Validate(value); err != nil {
				t.Errorf("%s: %v", schema, err)
			}
		}
	})
}

// keywords are those of draft 2020-12 that the schemas use. There is no $ref:
// clients that resolve none are common.
var keywords = []string{
	"type", "properties", "required", "additionalProperties", "items", "description", "enum", "const", "pattern",
	"format", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minimum", "maximum", "anyOf", "oneOf",
}

// walk visits a schema and all within it. The path names properties alone: items
// and alternatives stand where what they are of stands.
func walk(s node, path string, visit func(path string, s node)) {
	visit(path, s)
	for name, property := range properties(s) {
		walk(property, path+"/"+name, visit)
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if inner, ok := s[keyword].(node); ok {
			walk(inner, path, visit)
		}
	}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		alternatives, _ := s[keyword].([]any)
		for _, inner := range alternatives {
			walk(inner.(node), path, visit)
		}
	}
}

func properties(s node) map[string]node {
	all := map[string]node{}
	object, _ := s["properties"].(node)
	for name, property := range object {
		all[name] = property.(node)
	}
	return all
}
