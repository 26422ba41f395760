package projections

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/domain"
)

// A Reader is who asks a view, where and when. Queries show no more than this
// agent may see.
type Reader struct {
	DB      *pgxpool.Pool
	Cursors Cursors
	Agent   domain.AgentKey
	Board   string // slug
	ChainID int64
	Now     time.Time
}
