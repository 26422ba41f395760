package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"sidequest/domain"
	"sidequest/projections"
)

// Methods are the protocol methods of the tools.
func (m *Market) Methods() map[string]Method {
	return map[string]Method{
		"tools/list": {Handle: m.listTools, AllowedInSetup: true, Cacheable: true, TTL: 5 * time.Minute},
		"tools/call": {Handle: m.callTool, AllowedInSetup: true, NameParam: "name", Permit: m.permit, Asks: true},
	}
}

// permit refuses a call of a tool outside the caller's scopes, before the call is
// looked at any further.
func (m *Market) permit(ctx context.Context, c *Call) error {
	began := time.Now()
	name, ok := text(c.Request.name)
	if !ok {
		return nil // callTool says what is wrong
	}
	_, err := m.find(ctx, c.Caller, name)
	if e, ok := errors.AsType[*domain.Error](err); !ok || e.Class != domain.InsufficientScope {
		return nil // callTool answers
	}
	m.logCall(ctx, c.Caller, name, arguments{}, began, err)
	return err
}

// listTools shows the caller's tools, all on one page. What it shows depends on
// the caller, so only the caller may cache it.
func (m *Market) listTools(ctx context.Context, c *Call) (any, error) {
	var params struct {
		Cursor *string `json:"cursor"`
	}
	if err := c.Request.Decode(&params); err != nil {
		return nil, err
	}
	if params.Cursor != nil {
		return nil, InvalidParams("cursor: this list has one page and gives no cursors")
	}
	shows, err := m.shows(ctx, c)
	if err != nil {
		return nil, err
	}
	roles, err := c.Caller.roles(ctx)
	if err != nil {
		return nil, err
	}
	tools := []map[string]any{}
	for _, t := range m.Tools {
		if shows(t, c.Caller, roles) {
			tools = append(tools, t.definition())
		}
	}
	return map[string]any{"tools": tools}, nil
}

// shows returns the rule for the list. A client that hears of changes gets exactly
// what it can call now; any other gets all that its scopes cover, or its list would
// be wrong from the first change on. Who just heard of a change must find it here,
// so the view of roles is waited for.
func (m *Market) shows(ctx context.Context, c *Call) (func(Tool, Caller, []string) bool, error) {
	if m.Listens == nil || !c.Lane.Modern() {
		return Tool.listed, nil
	}
	held, err := m.Listens(ctx, c.Caller.GrantID)
	if err != nil || !held {
		return Tool.listed, err
	}
	return Tool.callable, m.Store.AwaitHead(ctx, []string{projections.Agents.Checkpoint()})
}

// A toolResult is the result of tools/call. The text is the same JSON, for
// clients that read no structured content.
type toolResult struct {
	Content    []textContent  `json:"content"`
	Structured jsontext.Value `json:"structuredContent"`
	IsError    bool           `json:"isError,omitzero"`
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func newToolResult(answer []byte, isError bool) toolResult {
	return toolResult{[]textContent{{"text", string(answer)}}, answer, isError}
}

// callTool runs a tool. What the tool refuses is a result that a model can read
// and act on; only a request that reaches no tool is a protocol error.
func (m *Market) callTool(ctx context.Context, c *Call) (any, error) {
	var params struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if err := c.Request.Decode(&params); err != nil {
		return nil, err
	}
	if params.Name == "" {
		return nil, InvalidParams("name: is required, the name of a tool")
	}
	if k := params.Arguments.Kind(); k != '{' && k != jsontext.KindInvalid && k != 'n' {
		return nil, InvalidParams("arguments: must be an object")
	}
	if params.Arguments.Kind() == 'n' {
		params.Arguments = nil
	}
	asked, _, err := c.Inputs.Elicited(approvalKey)
	if err != nil {
		return nil, err
	}
	answer, err := m.Call(ctx, c.Caller, params.Name, params.Arguments)
	if err == nil {
		return c.approvalOr(answer, asked)
	}
	if errors.Is(err, errNoTool) {
		return nil, InvalidParams("name: %s", errNoTool.Message)
	}
	if e, ok := errors.AsType[*domain.Error](err); ok && e.Class == domain.InsufficientScope {
		return nil, e
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil, err
	}
	failed, err := encodeAnswer(m.failure(ctx, params.Name, err))
	if err != nil {
		return nil, err
	}
	return newToolResult(failed, true), nil
}
