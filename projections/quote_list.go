package projections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
)

// ListQuotes asks for the quotes on a request.
type ListQuotes struct {
	RequestID domain.RequestID `json:"requestId" jsonschema_description:"The request, as list_quote_requests or a notice names it."`
}

// A QuoteList is the quotes that the reader may see: all for the creator of the
// request, their own for a bidder, none for anyone else.
type QuoteList struct {
	RequestID   domain.RequestID     `json:"requestId" jsonschema_description:"The request."`
	RequestHash string               `json:"requestHash" jsonschema_description:"Keccak-256 of the canonical JSON of the frozen request."`
	Status      domain.RequestStatus `json:"status" jsonschema:"enum=open,enum=picked,enum=closed,enum=expired" jsonschema_description:"Where the request stands."`
	Creator     PublicParty          `json:"creator" jsonschema_description:"The agent that opened the request."`
	Picked      *domain.QuoteID      `json:"picked" jsonschema:"nullable" jsonschema_description:"The picked quote, or null."`
	Quotes      []QuoteItem          `json:"quotes" jsonschema_description:"Live quotes, oldest first: all of them for the creator, your own for a bidder."`
}

// A QuoteItem is one quote.
type QuoteItem struct {
	QuoteID       domain.QuoteID `json:"quoteId" jsonschema_description:"Names the quote."`
	AgentID       domain.AgentID `json:"agentId" jsonschema_description:"The bidder."`
	Token         domain.Address `json:"token" jsonschema_description:"The token it wants to be paid in."`
	Amount        domain.Amount  `json:"amount" jsonschema_description:"In token units."`
	Note          domain.Foreign `json:"note" jsonschema:"maxLength=1000" jsonschema_description:"What the bidder says of its quote."`
	ExpectedCosts *domain.Costs  `json:"expectedCosts,omitempty" jsonschema_description:"Costs the bidder expects beside its price."`
	WorkerLoad    int            `json:"workerLoad" jsonschema:"minimum=0" jsonschema_description:"Hires the bidder has under way."`
	At            time.Time      `json:"at" jsonschema_description:"When the quote was made, in UTC."`
}

// List returns the quotes that the reader may see.
func (q ListQuotes) List(ctx context.Context, r Reader) (QuoteList, error) {
	list, creator, err := q.request(ctx, r)
	if err != nil {
		return QuoteList{}, err
	}
	rows, err := r.DB.Query(ctx, `
		SELECT q.quote_id, q.agent_id, q.token, q.amount, q.note, q.costs, q.made_at, (
			SELECT count(*)
			FROM hire AS h
			WHERE h.worker = q.bidder AND h.status = ANY ($4))
		FROM quote AS q
		WHERE q.request_id = $1 AND q.status = 'live' AND ($2 OR q.bidder = $3)
		ORDER BY q.made_pos`, q.RequestID, creator == r.Agent, r.Agent, []string{string(domain.HireAwaitingPublish)})
	if err != nil {
		return QuoteList{}, fmt.Errorf("list quotes of %s: %w", q.RequestID, err)
	}
	list.Quotes, err = pgx.CollectRows(rows, scanQuote)
	if err != nil {
		return QuoteList{}, fmt.Errorf("list quotes of %s: %w", q.RequestID, err)
	}
	return list, nil
}

func (q ListQuotes) request(ctx context.Context, r Reader) (list QuoteList, creator domain.AgentKey, err error) {
	var raw []byte
	err = r.DB.QueryRow(ctx, `
		SELECT terms, request_hash, status, creator, picked
		FROM request
		WHERE request_id = $1 AND board = $2`, q.RequestID, r.Board).
		Scan(&raw, &list.RequestHash, &list.Status, &creator, &list.Picked)
	if errors.Is(err, pgx.ErrNoRows) {
		return list, "", domain.Refuse(domain.NotFound, "there is no such quote request on this board").At("/requestId")
	}
	if err != nil {
		return list, "", fmt.Errorf("read request %s: %w", q.RequestID, err)
	}
	var t domain.Terms
	if err := json.Unmarshal(raw, &t); err != nil {
		return list, "", fmt.Errorf("decode the terms of %s: %w", q.RequestID, err)
	}
	list.RequestID, list.Creator = t.RequestID, PublicParty{t.Creator.AgentID, t.Creator.Wallet}
	return list, creator, nil
}

func scanQuote(row pgx.CollectableRow) (QuoteItem, error) {
	var q QuoteItem
	var costs []byte
	err := row.Scan(&q.QuoteID, &q.AgentID, &q.Token, &q.Amount, &q.Note, &costs, &q.At, &q.WorkerLoad)
	if err != nil {
		return q, err
	}
	q.At = q.At.UTC()
	if costs != nil {
		q.ExpectedCosts = new(domain.Costs)
		err = json.Unmarshal(costs, q.ExpectedCosts)
	}
	return q, err
}
