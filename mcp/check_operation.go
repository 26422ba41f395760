package mcp

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/projections"
)

// operationQuery names an operation.
type operationQuery struct {
	OperationID string `json:"operationId" jsonschema:"pattern=^[A-Za-z0-9_-]{1\\,64}$" jsonschema_description:"The operationId that a write of this agent answered."`
}

// operationResult tells how an operation ended.
type operationResult struct {
	ID         string           `json:"id" jsonschema_description:"The operation."`
	Tool       string           `json:"tool" jsonschema_description:"The tool that was called."`
	Stage      string           `json:"stage" jsonschema:"enum=recorded" jsonschema_description:"recorded: it is in the log for ever."`
	Status     string           `json:"status" jsonschema:"enum=confirmed,enum=approval,enum=rejected,enum=refused" jsonschema_description:"confirmed: done, see result. approval: a human decides at approveUrl. rejected: the operator said no. refused: the state of the market did not allow it, see refusal."`
	ApproveURL string           `json:"approveUrl,omitempty" jsonschema_description:"Where the operator decides."`
	Result     json.RawMessage  `json:"result,omitempty" jsonschema_extras:"foreign=true" jsonschema_description:"The result of that call, unless it was refused."`
	Refusal    *Failure         `json:"refusal,omitempty" jsonschema_description:"The refusal of that call, if it was refused."`
	Receipt    operationReceipt `json:"receipt" jsonschema_description:"The evidence."`
	Retry      domain.Retry     `json:"retry,omitempty" jsonschema:"enum=same-key,enum=after-operator,enum=new-key,enum=none" jsonschema_description:"What repeating the write would do, unless it was confirmed."`
}

// operationReceipt is the evidence of an operation.
type operationReceipt struct {
	At    time.Time          `json:"at" jsonschema_description:"When it ended, in UTC."`
	Facts []operationFactDoc `json:"facts" jsonschema_description:"What the operation put on the record."`
}

type operationFactDoc struct {
	EventID string    `json:"eventId" jsonschema_description:"Names the event."`
	Type    string    `json:"type" jsonschema_description:"What happened, such as request.opened."`
	At      time.Time `json:"at" jsonschema_description:"When it happened, in UTC."`
	Hash    string    `json:"hash" jsonschema_description:"SHA-256 of the recorded event, in hex."`
}

func checkOperation(ctx ctx, m *Market, c Caller, q operationQuery) (operationResult, error) {
	op, found, err := projections.GetOperation(ctx, m.DB, c.AgentKey, q.OperationID)
	if err == nil && !found { // it may have asked for the agent, before there was one
		op, found, err = projections.GetOperation(ctx, m.DB, domain.AgentKey(c.GrantID), q.OperationID)
	}
	if err != nil {
		return operationResult{}, err
	}
	if !found {
		return operationResult{}, domain.Refuse(domain.NotFound, "this agent has no operation with that id").At("/operationId")
	}
	r := operationResult{ID: op.ID, Tool: op.Tool, Stage: "recorded", Status: op.Status}
	r.Receipt = operationReceipt{At: op.At.UTC(), Facts: []operationFactDoc{}}
	for _, f := range op.Facts {
		r.Receipt.Facts = append(r.Receipt.Facts, operationFactDoc{f.EventID, f.Type, f.At.UTC(), hex.EncodeToString(f.Hash)})
	}
	if op.Status == "confirmed" {
		return m.standingOf(ctx, r, op)
	}
	refusal := new(domain.Error)
	if err := json.Unmarshal(op.Result, refusal); err != nil {
		return operationResult{}, fmt.Errorf("decode the refusal of %s: %w", op.ID, errors.Join(err))
	}
	f := m.failure(ctx, op.Tool, refusal)
	r.Refusal, r.Retry = &f, f.Retry
	return r, nil
}

// standingOf puts the result of an operation, and how it stands with the operator.
func (m *Market) standingOf(ctx ctx, r operationResult, op projections.Operation) (operationResult, error) {
	t := Tool{}
	if i := slices.IndexFunc(m.Tools, func(t Tool) bool { return t.Name == op.Tool }); i >= 0 {
		t = m.Tools[i]
	}
	a, err := m.written(ctx, t, eventstore.Receipt{OperationID: op.ID, Result: op.Result})
	r.Status, r.ApproveURL, r.Result = a.Status, a.ApproveURL, a.Result
	if a.Status == "approval" {
		r.Retry = domain.RetryAfterOperator
	}
	return r, err
}
