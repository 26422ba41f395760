package projections

import (
	"github.com/jackc/pgx/v5"

	"sidequest/domain"
	"sidequest/eventstore"
)

// Hires is the view of hires, from the frozen offer on.
var Hires = Projection{
	Name:    "hires",
	Version: 1,
	Tables: `
		CREATE TABLE hire (
			task_id    text COLLATE "C" PRIMARY KEY,
			request_id text COLLATE "C" NOT NULL,
			board      text NOT NULL,
			creator    text COLLATE "C" NOT NULL, -- agent key
			worker     text COLLATE "C" NOT NULL, -- agent key
			status     text NOT NULL,
			frozen_at  timestamptz NOT NULL
		);
		CREATE INDEX hire_worker ON hire (worker, status);`,
	Apply: func(b *pgx.Batch, e eventstore.Recorded) {
		event, ok := e.Event.(domain.HireFrozen)
		if !ok {
			return
		}
		b.Queue(`
			INSERT INTO hire (task_id, request_id, board, creator, worker, status, frozen_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			e.Stream.ID(), event.Offer.Terms.RequestID, e.Board, event.Offer.Terms.Creator.AgentKey, event.Offer.Worker.AgentKey,
			domain.HireAwaitingPublish, e.At)
	},
}
