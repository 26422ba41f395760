package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/docs"
	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/projections"
	"sidequest/webhook"
)

// A Market is the tools and what they work on: one pipeline for every transport.
type Market struct {
	Tools   []Tool
	Store   *eventstore.Store
	DB      *pgxpool.Pool // the views
	Cursors projections.Cursors
	Network Network
	Limits  Limits
	Docs    *docs.Index
	Hooks   *webhook.Hooks
	Origin  string // of addresses in answers, such as "https://market.example"
	Log     *slog.Logger
	Now     func() time.Time

	// Listens says whether a grant holds subscriptions/listen open, in any process.
	// Nil is never.
	Listens func(ctx context.Context, grantID string) (bool, error)

	// Wallet returns the address of an agent's wallet, which its first call makes.
	Wallet func(context.Context, domain.AgentKey) (domain.Address, error)
}

// A Network is where a deployment settles. It is the same for its whole life.
type Network struct {
	Name    string // domain.NetworkTest or domain.NetworkMain
	ChainID int64
}

// Call runs a tool and returns its answer as JSON. Every check that a tool needs
// is here, in this order: the tool, the scope, the arguments, the receipt of a
// repeat, the write limits; then the row does its part. Errors are
// [*domain.Error] where they may be shown.
func (m *Market) Call(ctx context.Context, c Caller, name string, raw []byte) (answer []byte, err error) {
	began := time.Now()
	var in arguments
	defer func() { m.logCall(ctx, c, name, in, began, err) }()

	t, err := m.find(ctx, c, name)
	if err != nil {
		return nil, err
	}
	if in, err = m.arguments(t, c, raw); err != nil {
		return nil, err
	}
	result, err := m.run(ctx, t, c, in)
	if err != nil {
		return nil, err
	}
	if answer, err = encodeAnswer(result); err != nil {
		return nil, err
	}
	return t.Out.marked(answer), nil
}

// encodeAnswer writes what a tool answers, for every transport in the same way. It
// leaves < and > as they are and lets nothing stay unseen: models read the text of
// an answer as it stands.
func encodeAnswer(answer any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(answer); err != nil {
		return nil, fmt.Errorf("encode an answer: %w", err)
	}
	return visible(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

func (m *Market) run(ctx context.Context, t Tool, c Caller, in arguments) (any, error) {
	if t.Write {
		receipt, ended, err := m.Store.Repeated(ctx, in.op)
		if err != nil {
			return nil, err
		}
		if ended {
			return m.written(ctx, t, receipt)
		}
		if err := m.Limits.take(ctx, m.DB, c, in.op.ID()); err != nil {
			return nil, err
		}
	}
	return t.run(ctx, m, c, in)
}

// find returns the tool if the caller's scopes cover it.
func (m *Market) find(ctx context.Context, c Caller, name string) (Tool, error) {
	for _, t := range m.Tools {
		if t.Name != name {
			continue
		}
		if !t.allows(c) && t.promised(c) {
			return Tool{}, refuseSetup(c)
		}
		if !t.allows(c) {
			e := domain.Refuse(domain.InsufficientScope, "This connection may not use %s.", name)
			roles, err := c.roles(ctx)
			if err != nil {
				return Tool{}, err
			}
			e.Scope = t.needs(roles)
			return Tool{}, e
		}
		return t, nil
	}
	return Tool{}, errNoTool
}

var errNoTool = domain.Refuse(domain.NotFound, "there is no such tool; /docs/tools on this server describes them all, and tools/list over MCP those that this connection may call")

// reader is the caller as views see it.
func (m *Market) reader(c Caller) projections.Reader {
	return projections.Reader{
		DB: m.DB, Cursors: m.Cursors, Agent: c.AgentKey, Board: c.Board, ChainID: m.Network.ChainID, Now: m.Now(),
	}
}

// awaitOwn waits until the views show what the caller wrote.
func (m *Market) awaitOwn(ctx context.Context, c Caller, views []*projections.Projection) error {
	names := make([]string, len(views))
	for i, v := range views {
		names[i] = v.Checkpoint()
	}
	return m.Store.AwaitOwn(ctx, c.Actor(), names)
}

// logCall writes the one wide line of an operation: never its arguments.
func (m *Market) logCall(ctx context.Context, c Caller, tool string, in arguments, began time.Time, err error) {
	if errors.Is(err, errNoTool) {
		tool = "" // no word of ours
	}
	attrs := []slog.Attr{
		slog.String("tool", tool),
		slog.String("agent", string(c.AgentKey)),
		slog.String("grant", c.GrantID),
		slog.String("board", c.Board),
		slog.String("code", domain.CodeOf(err)),
		slog.Int64("us", time.Since(began).Microseconds()),
	}
	if in.op.Key != "" {
		attrs = append(attrs, slog.String("operation", in.op.ID()))
	}
	m.Log.LogAttrs(ctx, slog.LevelInfo, "call", attrs...)
}

// failure puts an error into the form that every transport shows. What was not
// meant to be shown is logged under an id.
func (m *Market) failure(ctx context.Context, tool string, err error) Failure {
	e, ok := errors.AsType[*domain.Error](err)
	if !ok && eventstore.Passing(err) {
		m.Log.WarnContext(ctx, "the database does not answer", "tool", tool, "error", err)
		e, ok = databaseAway(), true
	}
	if !ok {
		id, level := NewErrorID(), slog.LevelError
		if errors.Is(err, context.Canceled) {
			level = slog.LevelDebug // the caller left, which is no fault of ours
		}
		m.Log.Log(ctx, level, "call failed", "errorId", id, "tool", tool, "error", err)
		return Failure{
			Code: string(domain.Unavailable), Reason: "internal", Retry: domain.RetrySameKey, ErrorID: id,
			Message: "Something went wrong on our side. Repeat the call with the same operationKey and arguments.",
		}
	}
	f := Failure{
		Code: e.Code, Message: e.Message, Retry: e.Class.Retry(), RetryAfter: e.After,
		Field: e.Field, Role: e.Role, Next: m.reachable(e.Next),
	}
	if e.Code != string(e.Class) {
		f.Reason = string(e.Class)
	}
	return f
}

// databaseAway refuses while the database does not answer. A write may have been
// recorded all the same; its key finds out.
func databaseAway() *domain.Error {
	e := domain.Refuse(domain.Unavailable, "the database does not answer at the moment; repeat the call with the same operationKey and arguments")
	e.After = 1
	return e
}

// reachable leaves out a next step whose tool this program does not have.
func (m *Market) reachable(next *domain.Step) *domain.Step {
	if next == nil {
		return nil
	}
	for _, t := range m.Tools {
		if t.Name == next.Tool {
			return next
		}
	}
	return nil
}
