package mcp

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"sidequest/docs"
)

// discovery is that of the whole tool table.
func discovery(t *testing.T) *Discovery {
	t.Helper()
	book, err := docs.Load()
	if err != nil {
		t.Fatal(err)
	}
	return &Discovery{Origin: "https://market.test", Tools: table(), Book: book, Log: slog.New(slog.DiscardHandler)}
}

// openAPI is the description for programs, as they read it.
func openAPI(t *testing.T) node {
	t.Helper()
	raw, err := json.Marshal(discovery(t).openAPI())
	if err != nil {
		t.Fatal(err)
	}
	var doc node
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// under returns the object at a path of members.
func under(n node, path ...string) node {
	for _, name := range path {
		n, _ = n[name].(node)
	}
	return n
}

// has reports members that an object of OpenAPI 3.1 does not have, and those of
// its required ones that are missing.
func has(t *testing.T, what string, n node, required, optional []string) {
	t.Helper()
	for _, name := range required {
		if n[name] == nil {
			t.Errorf("%s has no %s", what, name)
		}
	}
	for name := range n {
		if !slices.Contains(required, name) && !slices.Contains(optional, name) {
			t.Errorf("%s has a %s, which OpenAPI does not know", what, name)
		}
	}
}

func TestTheDescriptionForProgramsHasTheFormOfOpenAPI(t *testing.T) {
	t.Parallel()
	doc := openAPI(t)
	has(t, "the document", doc, []string{"openapi", "info", "paths", "components", "servers"}, []string{"jsonSchemaDialect", "externalDocs"})
	has(t, "info", under(doc, "info"), []string{"title", "version"}, []string{"summary", "description"})
	has(t, "components", under(doc, "components"), nil, []string{"schemas", "responses", "securitySchemes"})
	if doc["openapi"] != "3.1.0" || under(doc, "info")["version"] != Version || under(doc, "info")["title"] != Title {
		t.Errorf("it is %v of %v", doc["openapi"], doc["info"])
	}
	for _, server := range doc["servers"].([]any) {
		s := server.(node)
		has(t, "a server", s, []string{"url"}, []string{"description", "variables"})
		for _, part := range strings.Split(s["url"].(string), "{")[1:] {
			name, _, _ := strings.Cut(part, "}")
			has(t, "the variable "+name, under(s, "variables", name), []string{"default"}, []string{"enum", "description"})
		}
	}
	for name, r := range under(doc, "components", "responses") {
		response := r.(node)
		has(t, name, response, []string{"description", "content"}, []string{"headers"})
		for header, h := range under(response, "headers") {
			has(t, header, h.(node), []string{"schema"}, []string{"description", "required"})
		}
		has(t, "the content of "+name, under(response, "content", jsonType), []string{"schema"}, []string{"examples"})
	}
	oauth := under(doc, "components", "securitySchemes", "oauth")
	has(t, "the security scheme", oauth, []string{"type", "flows"}, []string{"description"})
	has(t, "its flow", under(oauth, "flows", "authorizationCode"), []string{"authorizationUrl", "tokenUrl", "scopes"}, []string{"refreshUrl"})
}

func TestEveryToolIsAnOperationForProgramsThatNeedItsScopes(t *testing.T) {
	t.Parallel()
	doc := openAPI(t)
	known := under(doc, "components", "securitySchemes", "oauth", "flows", "authorizationCode", "scopes")
	paths := maps.Clone(under(doc, "paths"))
	for _, tool := range table() {
		path := "/api/" + tool.Name
		item, there := paths[path].(node)
		if !there || len(item) != 1 {
			t.Errorf("%s is not described as one operation", tool.Name)
			continue
		}
		delete(paths, path)
		op := under(item, "post")
		has(t, tool.Name, op, []string{"operationId", "requestBody", "responses", "security", "summary", "description"}, nil)
		has(t, "its body", under(op, "requestBody"), []string{"content"}, []string{"required"})
		if op["operationId"] != tool.Name {
			t.Errorf("the operation of %s is called %v", tool.Name, op["operationId"])
		}
		var scopes []string
		for _, alternative := range op["security"].([]any) {
			scope := alternative.(node)["oauth"].([]any)[0].(string)
			if known[scope] == nil {
				t.Errorf("%s needs %s, which is not explained", tool.Name, scope)
			}
			scopes = append(scopes, scope)
		}
		if diff := cmp.Diff(tool.Scopes, scopes); diff != "" {
			t.Errorf("scopes of %s (-want +got):\n%s", tool.Name, diff)
		}
		if diff := cmp.Diff(tool.published(t)["inputSchema"], under(op, "requestBody", "content", jsonType)["schema"]); diff != "" {
			t.Errorf("arguments of %s over MCP and HTTP (-mcp +http):\n%s", tool.Name, diff)
		}
		for status := range under(op, "responses") {
			if n, err := strconv.Atoi(status); err != nil || n < 200 || n > 599 {
				t.Errorf("%s answers with the status %s", tool.Name, status)
			}
		}
	}
	for path := range paths {
		t.Errorf("%s is described, and there is no such tool", path)
	}
}

func TestEveryGrantedAnswerOfAToolIsDescribedForPrograms(t *testing.T) {
	t.Parallel()
	doc := openAPI(t)
	everyTool(t, func(t *testing.T, tool Tool, d node) {
		all := under(d, "outputSchema")["oneOf"].([]any)
		want := all[0]
		if granted := all[:len(all)-1]; len(granted) > 1 {
			want = node{"oneOf": granted}
		}
		got := under(doc, "paths", "/api/"+tool.Name, "post", "responses", "200", "content", jsonType)["schema"]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("over MCP and HTTP (-mcp +http):\n%s", diff)
		}
	})
}

func TestReferencesOfTheDescriptionForProgramsResolveAndNoneIsLeftOver(t *testing.T) {
	t.Parallel()
	doc := openAPI(t)
	unused := map[string]bool{}
	for _, kind := range []string{"schemas", "responses"} {
		for name := range under(doc, "components", kind) {
			unused["#/components/"+kind+"/"+name] = true
		}
	}
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, element := range v {
				visit(element)
			}
		case node:
			if ref, is := v["$ref"].(string); is {
				delete(unused, ref)
				if under(doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...) == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, member := range v {
				visit(member)
			}
		}
	}
	visit(doc)
	if len(unused) > 0 {
		t.Errorf("nothing refers to %v", unused)
	}
}

func TestEveryRefusalIsAnExampleThatFitsUnderItsStatus(t *testing.T) {
	t.Parallel()
	doc := openAPI(t)
	raw, err := json.Marshal(under(doc, "components", "schemas", "Failure"))
	if err != nil {
		t.Fatal(err)
	}
	value, err := validator.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := validator.NewCompiler()
	if err := compiler.AddResource("failure.json", value); err != nil {
		t.Fatal(err)
	}
	failure, err := compiler.Compile("failure.json")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"internal": 500}
	for _, c := range classDocs() {
		want[string(c.class)] = restStatus[c.class]
	}
	for _, c := range codeDocs() {
		want[c.code] = restStatus[c.class]
	}
	got := map[string]int{}
	for name, r := range under(doc, "components", "responses") {
		status, _ := strconv.Atoi(strings.TrimPrefix(name, "Refused"))
		for code, example := range under(r.(node), "content", jsonType, "examples") {
			got[code] = status
			if err := failure.Validate(example.(node)["value"]); err != nil {
				t.Errorf("the example of %s does not fit: %v", code, err)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("codes and statuses (-want +got):\n%s", diff)
	}
}
