package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/projections"
)

// A Tool is one row of the tool table. Everything that is said about a tool comes
// from its row: schemas, hints, scopes, lists, routes and documents.
type Tool struct {
	Name        string // ^[a-z][a-z0-9_]{2,63}$
	Title       string
	Description string   // when to use it and what it does, for a model to choose by
	Scopes      []string // any one of them suffices
	Destructive bool     // it can end something that cannot be brought back
	Refusals    []string // codes finer than their class that it can give, see docs/errors.md
	Meta        map[string]any

	Write   bool // it has an operationKey and an effect
	Sends   bool // of a read: it has something sent, and may be repeated at will
	Asks    bool // of a write: its operator may have to decide first
	Setup   bool // it sets up an agent: its operation keys belong to the connection, and it stays callable when there is the agent
	In, Out Schema

	run func(ctx context.Context, m *Market, c Caller, in arguments) (any, error)
}

// arguments are the arguments of a call, checked and in canonical form.
type arguments struct {
	canonical []byte               // JSON, for decoding
	op        eventstore.Operation // of a write
}

// decode reads the arguments into a command or query. They fit its schema, so one
// that cannot be read is a fault of ours.
func (a arguments) decode(v any) error {
	if err := json.Unmarshal(a.canonical, v); err != nil {
		return fmt.Errorf("decode the arguments: %w", err)
	}
	return nil
}

// write makes the row of a tool that carries out the command C. Its arguments are
// C's fields and operationKey, its answer the command's.
func write[C domain.Command[R], R any](t Tool) Tool {
	t.Write = true
	t.In = compileArguments(t.Name+".in", withOperationKey(reflectSchema(reflect.TypeFor[C]())))
	t.Out = compileAnswer(t.Name+".out", writeAnswer(reflectSchema(reflect.TypeFor[R]())))
	t.run = func(ctx context.Context, m *Market, _ Caller, in arguments) (any, error) {
		var command C
		if err := in.decode(&command); err != nil {
			return nil, err
		}
		receipt, err := eventstore.Execute(ctx, m.Store, in.op, command)
		if err != nil {
			return nil, err
		}
		return m.written(ctx, t, receipt)
	}
	return t
}

// A query answers a Q from the views.
type query[Q, A any] func(ctx context.Context, m *Market, c Caller, q Q) (A, error)

// read makes the row of a tool that answers from views. It waits until these show
// what the caller itself wrote.
func read[Q, A any](t Tool, answer query[Q, A], views ...*projections.Projection) Tool {
	t.In = compileArguments(t.Name+".in", reflectSchema(reflect.TypeFor[Q]()))
	t.Out = compileAnswer(t.Name+".out", readAnswer(reflectSchema(reflect.TypeFor[A]())))
	t.run = func(ctx context.Context, m *Market, c Caller, in arguments) (any, error) {
		var q Q
		if err := in.decode(&q); err != nil {
			return nil, err
		}
		if err := m.awaitOwn(ctx, c, views); err != nil {
			return nil, err
		}
		a, err := answer(ctx, m, c, q)
		if err != nil {
			return nil, err
		}
		return readAnswered{OK: true, Result: a}, nil
	}
	return t
}

// NewRead makes the row of a read that needs neither market nor views: for a
// benchmark or a fixture, which have tools of their own.
func NewRead[Q, A any](t Tool, answer func(ctx context.Context, c Caller, q Q) (A, error)) Tool {
	return read(t, func(ctx context.Context, _ *Market, c Caller, q Q) (A, error) { return answer(ctx, c, q) })
}

// withFields lets a tool's answer carry fields beside the result, in one of several
// forms.
func (t Tool) withFields(run func(ctx context.Context, m *Market, c Caller, in arguments) (any, error), forms ...any) Tool {
	out := *t.Out.doc
	refusal := out.OneOf[len(out.OneOf)-1]
	success := *out.OneOf[0]
	out.OneOf = nil
	for _, form := range forms {
		shape := reflectSchema(reflect.TypeOf(form))
		one := success
		one.Properties, one.Required = shape.Properties, shape.Required
		setConst(&one, true)
		out.OneOf = append(out.OneOf, &one)
	}
	out.OneOf = append(out.OneOf, refusal)
	t.Out, t.run = compileAnswer(t.Name+".out", &out), run
	return t
}

// The forms of an answer. Each stands in a closed schema; ok tells them apart.
type (
	readAnswered struct {
		OK     bool `json:"ok" jsonschema_description:"true: here is the result."`
		Result any  `json:"result"`
	}
	writeAnswered struct {
		OK          bool            `json:"ok" jsonschema_description:"true: the call was granted."`
		Status      string          `json:"status" jsonschema:"enum=confirmed,enum=pending,enum=approval,enum=rejected,enum=reverted,enum=dropped" jsonschema_description:"confirmed: done and recorded. pending: not known yet, use check_operation. approval: a human decides at approveUrl. rejected: the operator said no."`
		OperationID string          `json:"operationId" jsonschema_description:"Names this operation for check_operation."`
		ApproveURL  string          `json:"approveUrl,omitempty" jsonschema_description:"Where the operator decides."`
		Result      json.RawMessage `json:"result,omitempty"`
	}
	// A Failure is a refusal as every transport shows it.
	Failure struct {
		OK         bool         `json:"ok" jsonschema_description:"false: refused or failed; retry tells what a repeat does."`
		Code       string       `json:"code" jsonschema_description:"What is wrong, for programs."`
		Message    string       `json:"message" jsonschema_description:"What is wrong and what to do, for people and models."`
		Reason     string       `json:"reason,omitempty" jsonschema_description:"The kind of refusal, where the code is finer."`
		Retry      domain.Retry `json:"retry,omitempty" jsonschema:"enum=same-key,enum=after-operator,enum=new-key,enum=none" jsonschema_description:"What repeating the call would do."`
		RetryAfter int          `json:"retryAfter,omitempty" jsonschema:"minimum=1" jsonschema_description:"Whole seconds to wait before a repeat."`
		ErrorID    string       `json:"errorId,omitempty" jsonschema:"pattern=^[0-9a-f]{12}$" jsonschema_description:"Names an internal error to the people who run this server."`
		Field      string       `json:"field,omitempty" jsonschema_description:"The argument at fault, as a JSON pointer."`
		Scope      string       `json:"scope,omitempty" jsonschema_description:"The scopes to ask for when connecting again, space-separated."`
		Role       string       `json:"role,omitempty" jsonschema_description:"The role that is missing."`
		Next       *domain.Step `json:"next,omitempty" jsonschema_description:"A call that helps; add an operationKey if it is a write."`
	}
)

func withOperationKey(s *jsonschema.Schema) *jsonschema.Schema {
	s.Properties.Set("operationKey", &jsonschema.Schema{
		Type:        "string",
		Pattern:     `^[A-Za-z0-9_-]{1,128}$`,
		Description: "A new key per intended action, the same key for every retry of it. Keep it with the arguments before you call.",
	})
	s.Required = append(s.Required, "operationKey")
	return s
}

// readAnswer is the schema of what a read tool answers.
func readAnswer(result *jsonschema.Schema) *jsonschema.Schema {
	s := reflectSchema(reflect.TypeFor[readAnswered]())
	s.Properties.Set("result", describedAs("What was asked for.", result))
	return eitherWay(s)
}

// writeAnswer is the schema of what a write tool answers.
func writeAnswer(result *jsonschema.Schema) *jsonschema.Schema {
	s := reflectSchema(reflect.TypeFor[writeAnswered]())
	s.Properties.Set("result", describedAs("What came of it, once confirmed.", result))
	return eitherWay(s)
}

func describedAs(what string, s *jsonschema.Schema) *jsonschema.Schema {
	s.Description = what
	return s
}

// eitherWay is the schema of an answer that is a success or a refusal. Clients
// check answers against it, refusals too, so it must admit both.
func eitherWay(success *jsonschema.Schema) *jsonschema.Schema {
	failure := reflectSchema(reflect.TypeFor[Failure]())
	yes, no := *success, *failure
	setConst(&yes, true)
	setConst(&no, false)
	both := &jsonschema.Schema{Type: "object", Required: []string{"ok"}, OneOf: []*jsonschema.Schema{&yes, &no}}
	return both
}

func setConst(s *jsonschema.Schema, ok bool) {
	property, _ := s.Properties.Get("ok")
	property.Const = ok
}

// definition is how tools/list shows the tool.
func (t Tool) definition() map[string]any {
	d := map[string]any{
		"name":            t.Name,
		"title":           t.Title,
		"description":     t.Description,
		"inputSchema":     t.In.JSON,
		"outputSchema":    t.Out.JSON,
		"annotations":     t.hints(),
		"securitySchemes": t.securitySchemes(),
	}
	if t.Meta != nil {
		d["_meta"] = t.Meta
	}
	return d
}

// hints are all explicit: hosts assume the worst of what is left out. A repeated
// call with the same arguments has no further effect, since the operation key is
// one of them.
func (t Tool) hints() map[string]any {
	return map[string]any{
		"title":           t.Title,
		"readOnlyHint":    !t.Write && !t.Sends,
		"destructiveHint": t.Destructive,
		"idempotentHint":  true,
		"openWorldHint":   t.Sends,
	}
}

// securitySchemes has one alternative for each scope that suffices.
func (t Tool) securitySchemes() []map[string]any {
	var all []map[string]any
	for _, scope := range t.Scopes {
		all = append(all, map[string]any{"type": "oauth2", "scopes": []string{scope}})
	}
	return all
}

// allows says whether the caller's scopes cover the tool.
func (t Tool) allows(c Caller) bool {
	return slices.ContainsFunc(t.Scopes, c.Has) || t.Setup && c.AgentKey != "" && c.Has(domain.ScopeRead)
}

// promised says whether a connection without an agent may use the tool once it has
// one: its client asked for it.
func (t Tool) promised(c Caller) bool {
	return c.AgentKey == "" && slices.ContainsFunc(t.Scopes, func(scope string) bool { return domain.ScopesAllow(c.Asked, scope) })
}

// needs returns the scopes to ask for: the one of a role that is held, or else all
// that would do.
func (t Tool) needs(roles []string) string {
	for _, scope := range t.Scopes {
		if slices.Contains(roles, strings.TrimPrefix(scope, "sidequest:")) {
			return scope
		}
	}
	return strings.Join(t.Scopes, " ")
}

// listed says whether tools/list shows the tool to the caller: what its scopes
// cover, and what roles it holds beyond them, since a call can step up. A
// connection that is being set up sees what it will be able to do, and one that
// was goes on to see how it was set up.
func (t Tool) listed(c Caller, roles []string) bool {
	if t.Setup && c.AgentKey != "" {
		return c.Proposed != ""
	}
	return t.allows(c) || t.promised(c) || slices.ContainsFunc(t.Scopes, func(scope string) bool {
		return slices.Contains(roles, strings.TrimPrefix(scope, "sidequest:"))
	})
}

// callable says whether a call would get past scopes and roles now: what tools/list
// shows to a client that hears of every change.
func (t Tool) callable(c Caller, roles []string) bool {
	if t.Setup && c.AgentKey != "" {
		return c.Proposed != ""
	}
	return slices.ContainsFunc(t.Scopes, func(scope string) bool {
		isRole := scope == domain.ScopeHire || scope == domain.ScopeWork
		return c.Has(scope) && (!isRole || slices.Contains(roles, strings.TrimPrefix(scope, "sidequest:")))
	})
}

// String names the tool.
func (t Tool) String() string { return fmt.Sprintf("tool %s", t.Name) }
