package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"sidequest/domain"
	"sidequest/mcp"
)

// A fixture is a server with what the suite calls.
type fixture struct {
	library *mcp.Library
	tools   []tool
	changes map[string]*bell // by the list that can change
}

// newFixture returns the handler of the endpoint.
func newFixture(origin string, log *slog.Logger) http.Handler {
	f := &fixture{library: library(), tools: tools(), changes: map[string]*bell{"tools": newBell(), "prompts": newBell()}}
	key := make([]byte, 32)
	rand.Read(key) // never fails: see crypto/rand
	server := &mcp.Server{
		Methods:      f.methods(),
		Extensions:   f.library.Extensions(),
		Authenticate: everyone,
		BaseURL:      origin,
		States:       mcp.States{Keys: map[byte][]byte{1: key}, Current: 1},
		Listening: &mcp.Listening{
			Tools:     func(mcp.Caller) <-chan struct{} { return f.changes["tools"].next() },
			Prompts:   func(mcp.Caller) <-chan struct{} { return f.changes["prompts"].next() },
			Enter:     func(context.Context, mcp.Caller) (mcp.Listener, error) { return mcp.Listener{Leave: func() {}}, nil },
			Life:      time.Hour,
			KeepAlive: 15 * time.Second,
		},
		Log: log,
	}
	return &sessions{next: server, all: map[string]*session{}}
}

// everyone lets all requests in: the suite sends no token.
func everyone(*http.Request) (mcp.Caller, error) {
	return mcp.Caller{AgentKey: "ag_suite", GrantID: "gr_suite", Scopes: []string{domain.ScopeRead, domain.ScopeHire, domain.ScopeWork}}, nil
}

func (f *fixture) methods() map[string]mcp.Method {
	all := f.library.Methods()
	getPrompt := all["prompts/get"].Handle
	maps.Copy(all, map[string]mcp.Method{
		"tools/list":            {Handle: f.listTools, Cacheable: true, TTL: time.Minute},
		"tools/call":            {Handle: f.callTool, NameParam: "name", Asks: true},
		"prompts/get":           {Handle: askingPrompt(getPrompt), NameParam: "name", Asks: true},
		"logging/setLevel":      {Handle: setLevel, LegacyOnly: true},
		"resources/subscribe":   {Handle: subscribe, LegacyOnly: true},
		"resources/unsubscribe": {Handle: subscribe, LegacyOnly: true},
	})
	return all
}

// A bell tells all who wait of a change.
type bell struct {
	mu      sync.Mutex
	changed chan struct{}
}

func newBell() *bell { return &bell{changed: make(chan struct{})} }

// next returns a channel that is closed at the next change.
func (s *bell) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *bell) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// The smallest picture and sound.
const (
	dot  = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
	hush = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="
)

// library is what the suite reads and is prompted with.
func library() *mcp.Library {
	picture, err := base64.StdEncoding.DecodeString(dot)
	if err != nil {
		panic(err) // it stands above
	}
	return &mcp.Library{
		Resources: []mcp.Resource{
			{URI: "test://static-text", Name: "static-text", Description: "A text.", MediaType: "text/plain", Text: "This is the content of the static text resource."},
			{URI: "test://static-binary", Name: "static-binary", Description: "A picture.", MediaType: "image/png", Blob: picture},
			{URI: "test://watched-resource", Name: "watched-resource", Description: "A text that clients may watch.", MediaType: "text/plain", Text: "watched"},
		},
		Templates: []mcp.Template{{
			URI: "test://template/{id}/data", Name: "template", Description: "Data by its id.", MediaType: "application/json",
			Read: func(id string) (mcp.Resource, bool) {
				return mcp.Resource{
					URI: "test://template/" + id + "/data", Name: "template", MediaType: "application/json",
					Text: fmt.Sprintf(`{"id":%q,"templateTest":true,"data":"Data for ID: %s"}`, id, id),
				}, true
			},
		}},
		Prompts: prompts(),
		Skills: []mcp.Skill{{
			Name: "test-skill", Description: "A skill for the suite.", Files: []mcp.SkillFile{
				{Path: "SKILL.md", Text: "---\nname: test-skill\ndescription: A skill for the suite.\n---\n\n# Steps\n\nRead references/more.md.\n"},
				{Path: "references/more.md", Text: "There is no more.\n"},
			},
		}},
	}
}

type object = map[string]any

func prompts() []mcp.Prompt {
	asked := mcp.PromptArgument{Name: "arg1", Description: "First.", Required: true, Values: []string{"test", "testing"}}
	return []mcp.Prompt{
		{
			Name: "test_simple_prompt", Description: "A prompt without arguments.",
			Messages: func(map[string]string) []mcp.PromptMessage {
				return []mcp.PromptMessage{mcp.Say("This is a simple prompt for testing.")}
			},
		},
		{
			Name: "test_prompt_with_arguments", Description: "A prompt with arguments.",
			Arguments: []mcp.PromptArgument{asked, {Name: "arg2", Description: "Second.", Required: true}},
			Messages: func(args map[string]string) []mcp.PromptMessage {
				return []mcp.PromptMessage{mcp.Say(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"]))}
			},
		},
		{
			Name: "test_prompt_with_embedded_resource", Description: "A prompt with a resource in it.",
			Arguments: []mcp.PromptArgument{{Name: "resourceUri", Description: "What to embed.", Required: true}},
			Messages: func(args map[string]string) []mcp.PromptMessage {
				return []mcp.PromptMessage{
					{Role: "user", Content: embedded(args["resourceUri"], "text/plain", "Embedded resource content for testing.")},
					mcp.Say("Please process the embedded resource above."),
				}
			},
		},
		{
			Name: "test_prompt_with_image", Description: "A prompt with a picture.",
			Messages: func(map[string]string) []mcp.PromptMessage {
				return []mcp.PromptMessage{{Role: "user", Content: image()}, mcp.Say("Please analyze the image above.")}
			},
		},
		{Name: askingPromptName, Description: "A prompt that asks for what it is about."},
	}
}

const askingPromptName = "test_input_required_result_prompt"

// askingPrompt answers prompts/get: one prompt asks a question first.
func askingPrompt(others mcp.Handler) mcp.Handler {
	return func(ctx context.Context, c *mcp.Call) (any, error) {
		var params struct {
			Name string `json:"name"`
		}
		if err := c.Request.Decode(&params); err != nil {
			return nil, err
		}
		if params.Name != askingPromptName {
			return others(ctx, c)
		}
		var answer struct {
			Context string `json:"context"`
		}
		given, err := form(c, "user_context", &answer)
		if err != nil {
			return nil, err
		}
		if !given {
			return question("user_context", "What context should the prompt use?", "context", "string"), nil
		}
		return object{"messages": []any{mcp.Say("The context is: " + answer.Context)}}, nil
	}
}

func image() object { return object{"type": "image", "data": dot, "mimeType": "image/png"} }

func embedded(uri, mediaType, text string) object {
	return object{"type": "resource", "resource": object{"uri": uri, "mimeType": mediaType, "text": text}}
}
