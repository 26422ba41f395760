package mcp

import (
	"context"
	"slices"
)

// maxSuggestions bounds what completion/complete answers with; the protocol does.
const maxSuggestions = 100

type completion struct {
	Values  []string `json:"values"`
	Total   int      `json:"total"`
	HasMore bool     `json:"hasMore"`
}

// complete suggests values for an argument of a prompt or of a template, of which
// there are none where any text will do.
func (l *Library) complete(_ context.Context, c *Call) (any, error) {
	var params struct {
		Ref struct {
			Type string `json:"type"`
			Name string `json:"name"`
			URI  string `json:"uri"`
		} `json:"ref"`
		Argument struct {
			Name  *string `json:"name"`
			Value *string `json:"value"`
		} `json:"argument"`
	}
	if err := c.Request.Decode(&params); err != nil {
		return nil, err
	}
	if params.Argument.Name == nil || params.Argument.Value == nil {
		return nil, InvalidParams("params.argument needs a name and a value, both strings.")
	}
	ref := params.Ref.Name
	switch params.Ref.Type {
	case "ref/prompt":
		if !slices.ContainsFunc(l.Prompts, func(p Prompt) bool { return p.Name == ref }) {
			return nil, InvalidParams("params.ref.name names no prompt; prompts/list has those there are.")
		}
	case "ref/resource":
		ref = params.Ref.URI
		if !slices.ContainsFunc(l.Templates, func(t Template) bool { return t.URI == ref }) {
			return nil, InvalidParams("params.ref.uri names no template; resources/templates/list has those there are.")
		}
	default:
		return nil, InvalidParams(`params.ref.type must be "ref/prompt" or "ref/resource".`)
	}
	values := l.Completions(params.Ref.Type, ref, *params.Argument.Name, *params.Argument.Value)
	shown := append([]string{}, values[:min(len(values), maxSuggestions)]...)
	return struct {
		Completion completion `json:"completion"`
	}{completion{shown, len(values), len(values) > len(shown)}}, nil
}
