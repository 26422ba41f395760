package projections

import (
	"github.com/jackc/pgx/v5"

	"sidequest/domain"
	"sidequest/eventstore"
)

// Operators is the view of the people behind agents. It is the one view with
// personal data; an erased operator leaves it at once, and is not in it when it is
// built anew.
var Operators = Projection{
	Name:    "operators",
	Version: 1,
	Tables: `
		CREATE TABLE operator (
			operator_id text COLLATE "C" PRIMARY KEY,
			name        text NOT NULL,
			email       text NOT NULL
		);`,
	Apply: func(b *pgx.Batch, e eventstore.Recorded) {
		switch event := e.Event.(type) {
		case domain.OperatorRegistered:
			b.Queue(`
				INSERT INTO operator (operator_id, name, email)
				VALUES ($1, $2, $3)
				ON CONFLICT (operator_id) DO UPDATE
				SET name = excluded.name, email = excluded.email`, e.Stream.ID(), event.Name.Text, event.Email.Text)
		case domain.OperatorErased:
			b.Queue(`
				DELETE FROM operator
				WHERE operator_id = $1`, e.Stream.ID())
		}
	},
}
