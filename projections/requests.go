package projections

import (
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
	"sidequest/eventstore"
)

// Requests is the view of quote requests and the quotes on them. Counts are for
// everyone; a quote is for its bidder and the creator of the request, and the
// queries of this view see to that.
var Requests = Projection{
	Name:    "requests",
	Version: 1,
	Tables: `
		CREATE TABLE request (
			request_id   text COLLATE "C" PRIMARY KEY,
			board        text NOT NULL,
			opened_pos   bigint NOT NULL, -- orders lists, newest first
			creator      text COLLATE "C" NOT NULL, -- agent key
			status       text NOT NULL,
			terms        bytea NOT NULL, -- JSON
			request_hash text NOT NULL,
			picked       text, -- quote id
			task_id      text,
			quotes       int NOT NULL DEFAULT 0, -- live ones
			delivery_deadline timestamptz NOT NULL,
			ended_at     timestamptz
		);
		CREATE INDEX request_board ON request (board, opened_pos);
		CREATE INDEX request_creator ON request (creator, opened_pos);
		CREATE INDEX request_due ON request (delivery_deadline) WHERE status = 'open';

		CREATE TABLE quote (
			quote_id   text COLLATE "C" PRIMARY KEY,
			request_id text COLLATE "C" NOT NULL,
			bidder     text COLLATE "C" NOT NULL, -- agent key
			agent_id   text NOT NULL,
			token      text NOT NULL,
			amount     text NOT NULL,
			note       text NOT NULL,
			costs      bytea, -- JSON
			status     text NOT NULL, -- live, replaced or withdrawn
			made_pos   bigint NOT NULL,
			made_at    timestamptz NOT NULL
		);
		CREATE INDEX quote_request ON quote (request_id, made_pos);`,
	Apply: applyRequests,
}

func applyRequests(b *pgx.Batch, e eventstore.Recorded) {
	id := e.Stream.ID()
	switch event := e.Event.(type) {
	case domain.RequestOpened:
		b.Queue(`
			INSERT INTO request (request_id, board, opened_pos, creator, status, terms, request_hash, delivery_deadline)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			id, event.Terms.Board, e.Position, event.Terms.Creator.AgentKey, domain.StatusOpen,
			encode(event.Terms), event.RequestHash, event.Terms.DeliveryDeadline)
	case domain.QuoteSubmitted:
		applyQuote(b, e, event)
	case domain.QuoteWithdrawn:
		endQuote(b, event.QuoteID, "withdrawn")
		countQuotes(b, id, -1)
	case domain.RequestPicked:
		endRequest(b, e, domain.StatusPicked)
		b.Queue(`
			UPDATE request
			SET picked = $2, task_id = $3
			WHERE request_id = $1`, id, event.QuoteID, event.TaskID)
	case domain.RequestClosed:
		endRequest(b, e, domain.StatusClosed)
	case domain.RequestExpired:
		endRequest(b, e, domain.StatusExpired)
	}
}

func applyQuote(b *pgx.Batch, e eventstore.Recorded, event domain.QuoteSubmitted) {
	var costs []byte
	if event.ExpectedCosts != nil {
		costs = encode(event.ExpectedCosts)
	}
	b.Queue(`
		INSERT INTO quote (quote_id, request_id, bidder, agent_id, token, amount, note, costs, status, made_pos, made_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'live', $9, $10)`,
		event.QuoteID, e.Stream.ID(), event.Bidder.AgentKey, event.Bidder.AgentID, event.Token, event.Amount,
		event.Note, costs, e.Position, e.At)
	if event.Replaces != "" {
		endQuote(b, event.Replaces, "replaced")
		return
	}
	countQuotes(b, e.Stream.ID(), 1)
}

func endQuote(b *pgx.Batch, id domain.QuoteID, status string) {
	b.Queue(`
		UPDATE quote
		SET status = $2
		WHERE quote_id = $1`, id, status)
}

func countQuotes(b *pgx.Batch, requestID string, more int) {
	b.Queue(`
		UPDATE request
		SET quotes = quotes + $2
		WHERE request_id = $1`, requestID, more)
}

func endRequest(b *pgx.Batch, e eventstore.Recorded, status domain.RequestStatus) {
	b.Queue(`
		UPDATE request
		SET status = $2, ended_at = $3
		WHERE request_id = $1`, e.Stream.ID(), status, e.At)
}

// encode turns a part of an event, which came from JSON, back into JSON.
func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was decoded from JSON a moment ago
	}
	return raw
}
