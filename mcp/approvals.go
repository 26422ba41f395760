package mcp

import (
	"time"

	"sidequest/domain"
	"sidequest/projections"
)

// approvalList is one page of questions.
type approvalList struct {
	Approvals  []approvalItem `json:"approvals" jsonschema_description:"Newest first."`
	NextCursor string         `json:"nextCursor,omitempty" jsonschema_description:"Ask for the next page with it. Absent on the last page."`
}

// approvalItem is one question to the operator.
type approvalItem struct {
	ID          domain.ApprovalID `json:"id" jsonschema_description:"Names the question."`
	Kind        string            `json:"kind" jsonschema:"enum=role,enum=agent" jsonschema_description:"role: whether you may have a role. agent: whether you shall be registered."`
	Role        domain.Role       `json:"role,omitempty" jsonschema:"enum=hire,enum=work" jsonschema_description:"The role in question."`
	OperationID string            `json:"operationId" jsonschema:"pattern=^[A-Za-z0-9_-]{1\\,64}$" jsonschema_description:"The operation that asked first."`
	Status      string            `json:"status" jsonschema:"enum=open,enum=approved,enum=refused" jsonschema_description:"open: not decided yet."`
	RequestedAt time.Time         `json:"requestedAt" jsonschema_description:"When it was asked, in UTC."`
	DecidedAt   *time.Time        `json:"decidedAt,omitempty" jsonschema_description:"When it was decided, in UTC."`
	ApproveURL  string            `json:"approveUrl" jsonschema_description:"Where the operator decides. Show it to them; do not open it for them."`
}

func listApprovals(ctx ctx, m *Market, c Caller, q projections.ListApprovals) (approvalList, error) {
	// The operator decides elsewhere, and whoever asks wants to see it.
	if err := m.Store.AwaitHead(ctx, []string{projections.Approvals.Checkpoint()}); err != nil {
		return approvalList{}, err
	}
	page, next, err := q.List(ctx, m.reader(c))
	if err != nil {
		return approvalList{}, err
	}
	list := approvalList{Approvals: []approvalItem{}, NextCursor: next}
	for _, a := range page {
		item := approvalItem{
			ID: a.ID, Kind: a.Kind, Role: a.Role, OperationID: a.OperationID, Status: a.Status,
			RequestedAt: a.RequestedAt.UTC(), ApproveURL: m.approveURL(a.ID),
		}
		if a.DecidedAt != nil {
			at := a.DecidedAt.UTC()
			item.DecidedAt = &at
		}
		list.Approvals = append(list.Approvals, item)
	}
	return list, nil
}
