package mcp

import (
	"encoding/json"
	"fmt"
	"slices"

	"sidequest/domain"
	"sidequest/eventstore"
)

// written returns the answer to a write from its receipt. What waits for an
// operator is recorded as a question, once; how it stands is looked up each time,
// so that a repeat of the call hears of the decision and does nothing else.
func (m *Market) written(ctx ctx, t Tool, r eventstore.Receipt) (writeAnswered, error) {
	a := writeAnswered{OK: true, Status: "confirmed", OperationID: r.OperationID, Result: r.Result}
	if !t.Asks {
		return a, nil
	}
	var question struct {
		ApprovalID domain.ApprovalID `json:"approvalId"`
	}
	if err := json.Unmarshal(r.Result, &question); err != nil {
		return a, fmt.Errorf("decode the result of %s: %w", r.OperationID, err)
	}
	if question.ApprovalID == "" {
		return a, nil
	}
	var err error
	a.Status, err = m.standing(ctx, question.ApprovalID)
	if a.Status == "approval" {
		a.ApproveURL = m.approveURL(question.ApprovalID)
	}
	return a, err
}

// standing says how an operation stands that waits for an approval. A role that
// the operator gave elsewhere needs no answer any more.
func (m *Market) standing(ctx ctx, id domain.ApprovalID) (status string, err error) {
	approval, err := eventstore.State(ctx, m.Store, domain.Approvals, string(id))
	switch {
	case err != nil:
		return "", err
	case approval.Outcome == domain.Approved:
		return "confirmed", nil
	case approval.Outcome == domain.Refused:
		return "rejected", nil
	case approval.Kind != domain.ApprovalOfRole:
		return "approval", nil
	}
	agent, err := eventstore.State(ctx, m.Store, domain.Agents, string(approval.AgentKey))
	if err == nil && slices.Contains(agent.Roles, approval.Role) {
		return "confirmed", nil
	}
	return "approval", err
}

// approveURL is where the operator answers the question.
func (m *Market) approveURL(id domain.ApprovalID) string {
	return m.Origin + "/approve/" + string(id)
}
