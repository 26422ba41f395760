package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shelf is a library with one of everything.
func shelf() *Library {
	meta := map[string]any{"ui": map[string]any{"csp": map[string]any{"connectDomains": []string{}}, "prefersBorder": true}}
	l := &Library{
		Resources: []Resource{
			{URI: "test://text", Name: "text", Title: "A text", Description: "Says hello.", MediaType: markdownType, Text: "hello"},
			{URI: "test://dot", Name: "dot", MediaType: "image/png", Blob: []byte{1, 2, 3}},
			{URI: "ui://test/board.html", Name: "board", MediaType: appMediaType, Text: "<!doctype html><title>Board</title>", Meta: meta, Unlisted: true},
		},
		Templates: []Template{{
			URI: "test://numbers/{n}/square", Name: "square", MediaType: "text/plain", Values: []string{"one", "two"},
			Read: func(n string) (Resource, bool) {
				return Resource{URI: "test://numbers/" + n + "/square", MediaType: "text/plain", Text: n + "²"}, n != "zero"
			},
		}},
		Prompts: []Prompt{{
			Name: "greet", Title: "Greet", Description: "Says hello to someone.",
			Arguments: []PromptArgument{{Name: "who", Required: true, Values: []string{"Ann", "Bob"}}, {Name: "how"}},
			Messages:  func(args map[string]string) []PromptMessage { return []PromptMessage{Say("Hello, " + args["who"])} },
		}},
	}
	for _, name := range []string{"cook", "bake", "wash"} {
		l.Skills = append(l.Skills, Skill{Name: name, Description: "How to " + name + ".", Files: []SkillFile{
			{manifest, fmt.Sprintf("---\nname: %s\ndescription: How to %s.\n---\n\n# Steps\n", name, name)},
			{"references/tools.md", "A spoon."},
			{"references/more/pans.md", "A pan."},
		}})
	}
	return l
}

// reads answers a modern request from a library.
func reads(t *testing.T, l *Library, method, name, params string) node {
	t.Helper()
	s := newServer(t)
	s.Methods, s.Extensions = l.Methods(), l.Extensions()
	var answer node
	if err := json.Unmarshal([]byte(record(t, s, modern(method, name, params))), &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestALibraryIsReadInTheFormOfTheProtocol(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	l := shelf()
	s.Methods, s.Extensions = l.Methods(), l.Extensions()
	for _, c := range []struct {
		request    *http.Request
		definition string
	}{
		{modern("server/discover", "", ""), "DiscoverResultResponse"},
		{modern("resources/list", "", ""), "ListResourcesResultResponse"},
		{modern("resources/templates/list", "", ""), "ListResourceTemplatesResultResponse"},
		{modern("resources/read", "test://text", `"uri":"test://text"`), "ReadResourceResultResponse"},
		{modern("resources/read", "test://dot", `"uri":"test://dot"`), "ReadResourceResultResponse"},
		{modern("resources/read", "test://numbers/7/square", `"uri":"test://numbers/7/square"`), "ReadResourceResultResponse"},
		{modern("prompts/list", "", ""), "ListPromptsResultResponse"},
		{modern("prompts/get", "greet", `"name":"greet","arguments":{"who":"Ann"}`), "GetPromptResultResponse"},
		{modern("skills/list", "", ""), "JSONRPCResultResponse"},
		{modern("skills/get", "", `"uri":"skill://cook/SKILL.md"`), "JSONRPCResultResponse"},
		{modern("resources/directory/read", "", `"uri":"skill://cook"`), "JSONRPCResultResponse"},
	} {
		body := record(t, s, c.request)
		if err := published(t, c.definition).Validate(unmarshal(t, body)); err != nil {
			t.Errorf("not a %s: %v\n%s", c.definition, err, body)
		}
	}
}

func TestWhatALibraryLacksIsNotClaimed(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	l := &Library{Resources: shelf().Resources[:1]}
	s.Methods, s.Extensions = l.Methods(), l.Extensions()
	got := s.capabilities(Lane{Era: Modern})
	if got.Resources == nil || got.Prompts != nil || len(got.Extensions) != 0 {
		t.Errorf("a library of one text claims %+v", got)
	}
	s.Methods, s.Extensions = shelf().Methods(), shelf().Extensions()
	want := map[string]any{
		"io.modelcontextprotocol/skills": map[string]bool{"directoryRead": true},
		"io.modelcontextprotocol/ui":     map[string][]string{"mimeTypes": {"text/html;profile=mcp-app"}},
	}
	if diff := cmp.Diff(want, s.capabilities(Lane{Era: Modern}).Extensions); diff != "" {
		t.Errorf("extensions (-want +got):\n%s", diff)
	}
	if got := s.capabilities(Lane{Era: Legacy}); got.Extensions != nil || got.Prompts == nil {
		t.Errorf("the legacy era knows no extensions, but prompts: %+v", got)
	}
}

func TestAnAppIsReadByThoseWhoKnowOfItAndCarriesItsPolicy(t *testing.T) {
	t.Parallel()
	l := shelf()
	list, err := json.Marshal(reads(t, l, "resources/list", "", ""))
	if err != nil || strings.Contains(string(list), "ui://") {
		t.Errorf("an unlisted app is in %s, %v", list, err)
	}
	contents := reads(t, l, "resources/read", "ui://test/board.html", `"uri":"ui://test/board.html"`)["result"].(node)["contents"].([]any)[0].(node)
	want := node{
		"uri": "ui://test/board.html", "mimeType": "text/html;profile=mcp-app", "text": "<!doctype html><title>Board</title>",
		"_meta": node{"ui": node{"csp": node{"connectDomains": []any{}}, "prefersBorder": true}},
	}
	if diff := cmp.Diff(want, contents); diff != "" {
		t.Errorf("the app (-want +got):\n%s", diff)
	}
	tool := read(Tool{Name: "board", Meta: AppOf("ui://test/board.html")}, whoami)
	meta := tool.published(t)["_meta"]
	if diff := cmp.Diff(any(node{"ui": node{"resourceUri": "ui://test/board.html"}, "ui/resourceUri": "ui://test/board.html"}), meta); diff != "" {
		t.Errorf("a tool with an app (-want +got):\n%s", diff)
	}
}

func TestAnUnknownResourceIsNamedInTheRefusalOfEitherEra(t *testing.T) {
	t.Parallel()
	l := shelf()
	refused := reads(t, l, "resources/read", "test://zero", `"uri":"test://zero"`)["error"].(node)
	if refused["code"] != float64(CodeInvalidParams) || refused["data"].(node)["uri"] != "test://zero" {
		t.Errorf("a modern client hears %v", refused)
	}
	s := newServer(t)
	s.Methods = l.Methods()
	body := record(t, s, newRequest(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://numbers/zero/square"}}`))
	if !strings.Contains(body, `"code":-32002`) || !strings.Contains(body, `"uri":"test://numbers/zero/square"`) {
		t.Errorf("a legacy client hears %s", body)
	}
	long := "test://" + strings.Repeat("é", 600)
	uri := noResource(long).Data.(struct {
		URI string `json:"uri"`
	}).URI
	if len(uri) > longestURI || !strings.HasPrefix(long, uri) {
		t.Errorf("%d bytes of a long URI are repeated", len(uri))
	}
}

func TestSkillsAreListedTwoAPageAndTheirDigestsAreOfWhatIsRead(t *testing.T) {
	t.Parallel()
	l := shelf()
	first := reads(t, l, "skills/list", "", "")["result"].(node)
	second := reads(t, l, "skills/list", "", `"cursor":"skills:2"`)["result"].(node)
	if first["nextCursor"] != "skills:2" || second["nextCursor"] != nil || first["cacheScope"] == nil {
		t.Errorf("cursors %v and %v", first["nextCursor"], second["nextCursor"])
	}
	skills := append(first["skills"].([]any), second["skills"].([]any)...)
	if len(skills) != 3 {
		t.Fatalf("%d skills are listed", len(skills))
	}
	for _, skill := range skills {
		for _, file := range skill.(node)["resources"].([]any) {
			uri := file.(node)["uri"].(string)
			r, found := l.find(uri)
			want := SkillDigest(r.Text)
			if !found || file.(node)["digest"] != want || file.(node)["size"] != float64(len(r.Text)) {
				t.Errorf("%s is said to be %v, and is %s", uri, file, want)
			}
		}
	}
	for _, cursor := range []string{"", "skills:0", "skills:3", "skills:02", "skills:-1", "prompts:2", "x"} {
		if reads(t, l, "skills/list", "", fmt.Sprintf(`"cursor":%q`, cursor))["error"] == nil {
			t.Errorf("the cursor %q is taken", cursor)
		}
	}
}

func TestAFolderOfASkillListsWhatIsDirectlyInIt(t *testing.T) {
	t.Parallel()
	for folder, want := range map[string][]string{
		"skill://cook":                 {"skill://cook/SKILL.md", "skill://cook/references inode/directory"},
		"skill://cook/references":      {"skill://cook/references/tools.md", "skill://cook/references/more inode/directory"},
		"skill://cook/references/more": {"skill://cook/references/more/pans.md"},
	} {
		var got []string
		for _, d := range shelf().children(folder) {
			if d.MediaType == directoryType {
				d.URI += " " + directoryType
			}
			got = append(got, d.URI)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", folder, diff)
		}
	}
	for _, uri := range []string{"skill://cook/SKILL.md", "skill://coo", "skill:/", "test://text", "skill://cook/"} {
		refused, _ := reads(t, shelf(), "resources/directory/read", "", fmt.Sprintf(`"uri":%q`, uri))["error"].(node)
		if refused["code"] != float64(CodeInvalidParams) {
			t.Errorf("%s is read as a folder", uri)
		}
	}
}

func TestAPromptTakesItsOwnArgumentsAlone(t *testing.T) {
	t.Parallel()
	for params, want := range map[string]string{
		`"name":"greet"`: "who is required",
		`"name":"greet","arguments":{"who":"Ann","why":"because"}`:              "one that the prompt does not take",
		`"name":"greet","arguments":{"who":"` + strings.Repeat("a", 501) + `"}`: "at most 500 characters",
		`"name":"greet","arguments":{"who":7}`:                                  "wrong type",
		`"name":"leave"`:                                                        "names no prompt",
	} {
		name := "greet"
		if strings.Contains(params, "leave") {
			name = "leave"
		}
		refused, _ := reads(t, shelf(), "prompts/get", name, params)["error"].(node)
		if message, _ := refused["message"].(string); !strings.Contains(message, want) {
			t.Errorf("%s: %v, want one that says %q", params, refused, want)
		}
	}
}

func TestValuesThatBeginWithWhatWasTypedAreOffered(t *testing.T) {
	t.Parallel()
	l := shelf()
	for _, c := range []struct {
		refType, ref, argument, typed string
		want                          []string
	}{
		{"ref/prompt", "greet", "who", "b", []string{"Bob"}},
		{"ref/prompt", "greet", "who", "", []string{"Ann", "Bob"}},
		{"ref/prompt", "greet", "how", "", nil},
		{"ref/prompt", "leave", "who", "", nil},
		{"ref/resource", "test://numbers/{n}/square", "n", "tw", []string{"two"}},
		{"ref/resource", "test://numbers/{n}/square", "m", "", nil},
		{"ref/tool", "greet", "who", "", nil},
	} {
		if got := l.Completions(c.refType, c.ref, c.argument, c.typed); !slices.Equal(got, c.want) {
			t.Errorf("%s %s %s %q completes to %q, want %q", c.refType, c.ref, c.argument, c.typed, got, c.want)
		}
	}
}

func TestASetupConnectionReadsTheLibraryToo(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Methods = shelf().Methods()
	req := modern("resources/read", "test://text", `"uri":"test://text"`)
	req.Header.Set("Authorization", "Bearer setup")
	if body := record(t, s, req); !strings.Contains(body, `"text":"hello"`) {
		t.Errorf("it is answered %s", body)
	}
}
