package mcp

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"
)

// longestPromptArgument bounds an argument of a prompt, in characters.
const longestPromptArgument = 500

// A Prompt is a text that a person lets its client put in front of a model.
type Prompt struct {
	Name        string
	Title       string
	Description string
	Arguments   []PromptArgument

	// Messages writes the prompt. It gets the arguments that were given, each one of
	// the prompt's own and no longer than 500 characters.
	Messages func(args map[string]string) []PromptMessage
}

// A PromptArgument is a text that goes into a prompt.
type PromptArgument struct {
	Name        string   `json:"name"`
	Title       string   `json:"title,omitzero"`
	Description string   `json:"description,omitzero"`
	Required    bool     `json:"required"`
	Values      []string `json:"-"` // what completes it; nil for none
}

// A PromptMessage is one message of a prompt. Its content is a content block of
// the protocol.
type PromptMessage struct {
	Role    string `json:"role"` // user or assistant
	Content any    `json:"content"`
}

// Say returns a message of the user that is a text.
func Say(text string) PromptMessage { return PromptMessage{"user", textContent{"text", text}} }

func (l *Library) listPrompts(_ context.Context, c *Call) (any, error) {
	cursor, err := cursorOf(c)
	if err != nil {
		return nil, err
	}
	p, err := page(l.Prompts, "prompts", cursor, resourcePage)
	if err != nil {
		return nil, err
	}
	type listed struct {
		Name        string           `json:"name"`
		Title       string           `json:"title,omitzero"`
		Description string           `json:"description"`
		Arguments   []PromptArgument `json:"arguments"`
	}
	all := []listed{}
	for _, prompt := range p.entries {
		all = append(all, listed{prompt.Name, prompt.Title, prompt.Description, prompt.Arguments})
	}
	return struct {
		Prompts []listed `json:"prompts"`
		Next    string   `json:"nextCursor,omitzero"`
	}{all, p.next}, nil
}

func (l *Library) getPrompt(_ context.Context, c *Call) (any, error) {
	var params struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	if err := c.Request.Decode(&params); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(l.Prompts, func(p Prompt) bool { return p.Name == params.Name })
	if i < 0 {
		return nil, InvalidParams("params.name names no prompt; prompts/list has those there are.")
	}
	if err := l.Prompts[i].check(params.Arguments); err != nil {
		return nil, err
	}
	return struct {
		Description string          `json:"description"`
		Messages    []PromptMessage `json:"messages"`
	}{l.Prompts[i].Description, l.Prompts[i].Messages(params.Arguments)}, nil
}

// check refuses arguments that are not the prompt's, missing or too long.
func (p Prompt) check(args map[string]string) error {
	known := 0
	for _, a := range p.Arguments {
		value, given := args[a.Name]
		switch {
		case given:
			known++
		case a.Required:
			return InvalidParams("params.arguments.%s is required.", a.Name)
		}
		if utf8.RuneCountInString(value) > longestPromptArgument {
			return InvalidParams("params.arguments.%s has at most %d characters.", a.Name, longestPromptArgument)
		}
	}
	if known < len(args) {
		return InvalidParams("params.arguments has one that the prompt does not take; prompts/list names those it takes.")
	}
	return nil
}

// Completions returns the values that begin with what was typed, for an argument of
// a prompt (ref/prompt) or the variable of a template (ref/resource). What takes any
// text has none.
func (l *Library) Completions(refType, ref, argument, typed string) []string {
	var values []string
	switch refType {
	case "ref/prompt":
		for _, p := range l.Prompts {
			for _, a := range p.Arguments {
				if p.Name == ref && a.Name == argument {
					values = a.Values
				}
			}
		}
	case "ref/resource":
		for _, t := range l.Templates {
			if t.URI == ref && strings.Contains(t.URI, "{"+argument+"}") {
				values = t.Values
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool {
		return !strings.HasPrefix(strings.ToLower(v), strings.ToLower(typed))
	})
}
