package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/domain"
	"sidequest/eventstore"
)

// Approvals is the view of what operators were asked, and what they answered.
var Approvals = Projection{
	Name:    "approvals",
	Version: 1,
	Tables: `
		CREATE TABLE approval (
			approval_id  text COLLATE "C" PRIMARY KEY,
			pos          bigint NOT NULL,
			kind         text NOT NULL,
			agent_key    text COLLATE "C" NOT NULL,
			operator     text COLLATE "C" NOT NULL,
			board        text NOT NULL,
			operation_id text NOT NULL,
			role         text NOT NULL, -- '' for a question that is about none
			grant_id     text NOT NULL, -- '' for a question that no connection proposed
			status       text NOT NULL,
			requested_at timestamptz NOT NULL,
			decided_at   timestamptz
		);
		CREATE INDEX approval_agent ON approval (agent_key, pos);
		CREATE INDEX approval_operator ON approval (operator, pos);`,
	Apply: func(b *pgx.Batch, e eventstore.Recorded) {
		switch event := e.Event.(type) {
		case domain.ApprovalRequested:
			b.Queue(`
				INSERT INTO approval (approval_id, pos, kind, agent_key, operator, board, operation_id, role, grant_id, status, requested_at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
				e.Stream.ID(), e.Position, event.Kind, event.AgentKey, event.Operator, event.Board, event.OperationID,
				event.Role, event.GrantID, ApprovalOpen, e.At)
		case domain.ApprovalDecided:
			b.Queue(`
				UPDATE approval
				SET status = $2, decided_at = $3
				WHERE approval_id = $1`, e.Stream.ID(), event.Outcome, e.At)
		}
	},
}

// ApprovalOpen is the status of an approval that waits. The others are
// [domain.Approved] and [domain.Refused].
const ApprovalOpen = "open"

// An Approval is one row of the approvals view.
type Approval struct {
	ID          domain.ApprovalID
	Pos         int64 // in the log; it never leaves the server as it is
	Kind        string
	AgentKey    domain.AgentKey
	Operator    string
	Board       string
	OperationID string
	Role        domain.Role // "" where it is about none
	GrantID     string      // of the connection that proposed an agent, else ""
	Status      string
	RequestedAt time.Time
	DecidedAt   *time.Time
}

const selectApprovals = `
	SELECT approval_id, pos, kind, agent_key, operator, board, operation_id, role, grant_id, status, requested_at, decided_at
	FROM approval`

func collectApprovals(rows pgx.Rows, err error) ([]Approval, error) {
	if err != nil {
		return nil, fmt.Errorf("read approvals: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Approval])
	if err != nil {
		return nil, fmt.Errorf("read approvals: %w", err)
	}
	return all, nil
}

// GetApproval returns the approval with an id, or false. Whoever shows it has to
// look who it is for.
func GetApproval(ctx context.Context, db *pgxpool.Pool, id domain.ApprovalID) (Approval, bool, error) {
	rows, err := db.Query(ctx, selectApprovals+`
		WHERE approval_id = $1`, id)
	if err != nil {
		return Approval{}, false, fmt.Errorf("read approval %s: %w", id, err)
	}
	a, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Approval])
	if errors.Is(err, pgx.ErrNoRows) {
		return Approval{}, false, nil
	}
	if err != nil {
		return Approval{}, false, fmt.Errorf("read approval %s: %w", id, err)
	}
	return a, true, nil
}

// ApprovalsOf returns what an operator was asked: what is open, then what was
// decided, each newest first, at most 200.
func ApprovalsOf(ctx context.Context, db *pgxpool.Pool, operator string) ([]Approval, error) {
	return collectApprovals(db.Query(ctx, selectApprovals+`
		WHERE operator = $1
		ORDER BY status <> $2, pos DESC
		LIMIT 200`, operator, ApprovalOpen))
}

// OpenApprovals returns how many questions wait for an operator.
func OpenApprovals(ctx context.Context, db *pgxpool.Pool, operator string) (n int, err error) {
	err = db.QueryRow(ctx, `
		SELECT count(*)
		FROM approval
		WHERE operator = $1 AND status = $2`, operator, ApprovalOpen).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the open approvals of %s: %w", operator, err)
	}
	return n, nil
}

// ListApprovals asks for the questions an agent has put to its operator.
type ListApprovals struct {
	State  string `json:"state,omitempty" jsonschema:"enum=open,enum=approved,enum=refused" jsonschema_description:"Only those; all if left out."`
	Cursor string `json:"cursor,omitempty" jsonschema:"minLength=1,maxLength=200" jsonschema_description:"The nextCursor of the page before."`
}

const approvalPage = 50

// List returns a page, newest first, and the cursor of the next one, "" at the end.
func (q ListApprovals) List(ctx context.Context, r Reader) (page []Approval, next string, err error) {
	list := fmt.Sprintf("approvals %q %q", r.Agent, q.State)
	before := int64(1<<63 - 1)
	if q.Cursor != "" {
		if before, err = r.Cursors.DecodePage(list, q.Cursor); err != nil {
			return nil, "", err
		}
	}
	page, err = collectApprovals(r.DB.Query(ctx, selectApprovals+`
		WHERE agent_key = $1 AND pos < $2 AND $3 IN ('', status)
		ORDER BY pos DESC
		LIMIT $4`, r.Agent, before, q.State, approvalPage+1))
	if err != nil || len(page) <= approvalPage {
		return page, "", err
	}
	return page[:approvalPage], r.Cursors.EncodePage(list, page[approvalPage-1].Pos), nil
}
