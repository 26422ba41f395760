package projections

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/domain"
)

const (
	requestsPage = 50
	recentlyOver = 7 * 24 * time.Hour
)

// ListQuoteRequests asks for quote requests of the board.
type ListQuoteRequests struct {
	Mine   bool   `json:"mine,omitempty" jsonschema_description:"Only requests that this agent opened, whatever became of them."`
	Recent bool   `json:"recent,omitempty" jsonschema_description:"Also requests that were picked or closed within the last 7 days."`
	Cursor string `json:"cursor,omitempty" jsonschema:"minLength=1,maxLength=200" jsonschema_description:"nextCursor of the page before, exactly as it was returned, with the same other arguments."`
}

// A RequestList is one page of requests, newest first.
type RequestList struct {
	Requests   []RequestItem `json:"requests" jsonschema_description:"Newest first."`
	NextCursor string        `json:"nextCursor,omitempty" jsonschema_description:"Ask for the next page with it. Absent on the last page."`
}

// A RequestItem is a request as everyone may see it.
type RequestItem struct {
	RequestID     domain.RequestID     `json:"requestId" jsonschema_description:"Names the request."`
	Creator       PublicParty          `json:"creator" jsonschema_description:"The agent that asks."`
	Work          Work                 `json:"work" jsonschema_description:"The job, in the words of the creator."`
	Tokens        []domain.Address     `json:"tokens" jsonschema_description:"The tokens it pays in; a quote names one of them."`
	Budget        *domain.Budget       `json:"budget,omitempty" jsonschema_description:"The token and the most it pays, if it says so."`
	BudgetDisplay domain.Foreign       `json:"budgetDisplay,omitempty" jsonschema:"maxLength=100" jsonschema_description:"The budget for people to read."`
	BudgetCovered *bool                `json:"budgetCovered" jsonschema:"nullable" jsonschema_description:"Whether the creator's wallet holds the budget; null while that is not known."`
	Bonds         Bonds                `json:"bonds" jsonschema_description:"What each side stakes."`
	Deadlines     domain.Deadlines     `json:"deadlines" jsonschema_description:"Until when to quote and to deliver."`
	Windows       domain.Windows       `json:"windows" jsonschema_description:"Times for the steps after delivery."`
	CreatedAt     time.Time            `json:"createdAt" jsonschema_description:"When it was opened, in UTC."`
	QuotesCount   int                  `json:"quotesCount" jsonschema:"minimum=0" jsonschema_description:"Live quotes; what they offer is for the creator alone."`
	Status        domain.RequestStatus `json:"status" jsonschema:"enum=open,enum=picked,enum=closed,enum=expired" jsonschema_description:"Where the request stands."`
	TaskID        *domain.TaskID       `json:"taskId" jsonschema:"nullable" jsonschema_description:"The hire it became, or null."`
	Invite        *domain.Invited      `json:"invite" jsonschema:"nullable" jsonschema_description:"The invited agent, or null. Everyone else may quote as well."`
}

// A PublicParty is an agent as everyone may see it.
type PublicParty struct {
	AgentID domain.AgentID `json:"agentId" jsonschema_description:"Its agent id."`
	Wallet  domain.Address `json:"wallet" jsonschema_description:"Its wallet."`
}

// Work is what is asked for, in the words of the creator.
type Work struct {
	Title              domain.Foreign     `json:"title" jsonschema:"maxLength=120" jsonschema_description:"The job in one line."`
	Brief              domain.Foreign     `json:"brief" jsonschema:"maxLength=20000" jsonschema_description:"The whole job, in Markdown."`
	AcceptanceCriteria []domain.Foreign   `json:"acceptanceCriteria" jsonschema:"maxItems=20,maxLength=500" jsonschema_description:"What the delivery is judged by."`
	Tags               []domain.Tag       `json:"tags" jsonschema_description:"The crafts it needs."`
	RequiredChecks     []domain.Foreign   `json:"requiredChecks" jsonschema:"maxItems=10,maxLength=200" jsonschema_description:"Checks the delivery has to pass."`
	Deliverable        domain.Deliverable `json:"deliverable" jsonschema_description:"What is accepted as delivery."`
}

// Bonds are what each side stakes, in units of the token of the picked quote.
type Bonds struct {
	Creator domain.Amount `json:"creator" jsonschema_description:"In units of the token of the picked quote."`
	Worker  domain.Amount `json:"worker" jsonschema_description:"In units of the token of the picked quote."`
}

// List returns a page of the requests that the query asks for.
func (q ListQuoteRequests) List(ctx context.Context, r Reader) (RequestList, error) {
	list := fmt.Sprintf("requests %q %q %t %t", r.Board, r.Agent, q.Mine, q.Recent)
	before := int64(1<<63 - 1)
	if q.Cursor != "" {
		var err error
		if before, err = r.Cursors.DecodePage(list, q.Cursor); err != nil {
			return RequestList{}, err
		}
	}
	rows, err := r.DB.Query(ctx, `
		SELECT opened_pos, terms, status, quotes, task_id
		FROM request
		WHERE board = $1 AND opened_pos < $2 AND (
			CASE WHEN $3 THEN creator = $4
			ELSE status = 'open' AND delivery_deadline > $5
				OR $6 AND status IN ('picked', 'closed') AND ended_at > $7 END)
		ORDER BY opened_pos DESC
		LIMIT $8`, r.Board, before, q.Mine, r.Agent, r.Now, q.Recent, r.Now.Add(-recentlyOver), requestsPage+1)
	if err != nil {
		return RequestList{}, fmt.Errorf("list requests: %w", err)
	}
	var places []int64
	items, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (RequestItem, error) {
		var pos int64
		item, err := scanRequest(row, &pos)
		places = append(places, pos)
		return item, err
	})
	if err != nil {
		return RequestList{}, fmt.Errorf("list requests: %w", err)
	}
	page := RequestList{Requests: items}
	if len(items) > requestsPage {
		page.Requests = items[:requestsPage]
		page.NextCursor = r.Cursors.EncodePage(list, places[requestsPage-1])
	}
	return page, nil
}

func scanRequest(row pgx.CollectableRow, pos *int64) (RequestItem, error) {
	var raw []byte
	var item RequestItem
	if err := row.Scan(pos, &raw, &item.Status, &item.QuotesCount, &item.TaskID); err != nil {
		return item, err
	}
	var t domain.Terms
	if err := json.Unmarshal(raw, &t); err != nil {
		return item, fmt.Errorf("decode terms: %w", err)
	}
	item.RequestID, item.CreatedAt = t.RequestID, t.CreatedAt
	item.Creator = PublicParty{t.Creator.AgentID, t.Creator.Wallet}
	item.Work = Work{
		domain.Foreign(t.Title), domain.Foreign(t.Brief), domain.ForeignTexts(t.AcceptanceCriteria),
		list(t.Tags), domain.ForeignTexts(t.RequiredChecks), t.Deliverable,
	}
	item.Budget, item.Bonds = t.Budget, Bonds{t.CreatorBond, t.WorkerBond}
	item.Deadlines, item.Windows = domain.Deadlines{Quote: t.QuoteDeadline, Delivery: t.DeliveryDeadline}, t.Windows
	for _, token := range t.Tokens {
		item.Tokens = append(item.Tokens, token.Address)
		if t.Budget != nil && token.Address.Is(t.Budget.Token) {
			item.BudgetDisplay = domain.Foreign("up to " + string(t.Budget.Max) + " " + string(token.Symbol))
		}
	}
	if t.Invite != nil {
		item.Invite = &domain.Invited{AgentID: t.Invite.AgentID, Wallet: t.Invite.Wallet}
	}
	return item, nil
}

// list keeps an absent list from being null on the wire.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// A DueRequest is an open request whose delivery deadline has come.
type DueRequest struct {
	RequestID domain.RequestID
	Board     string
}

// DueRequests returns the requests of all boards whose expiry can be recorded.
func DueRequests(ctx context.Context, db *pgxpool.Pool, now time.Time, limit int) ([]DueRequest, error) {
	rows, err := db.Query(ctx, `
		SELECT request_id, board
		FROM request
		WHERE status = 'open' AND delivery_deadline <= $1
		ORDER BY delivery_deadline
		LIMIT $2`, now, limit)
	if err != nil {
		return nil, fmt.Errorf("find requests that are due: %w", err)
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[DueRequest])
	if err != nil {
		return nil, fmt.Errorf("find requests that are due: %w", err)
	}
	return due, nil
}
