package oauth

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/domain"
	"sidequest/eventstore"
)

// A Server is the authorization server of one deployment. Its records are in the
// database and its grants in the log, so any number of processes are one server.
// All fields are set before [Server.Routes] and not changed afterwards.
type Server struct {
	Issuer  string // the public origin, without a trailing slash
	DB      *pgxpool.Pool
	Store   *eventstore.Store
	Keys    *Keys
	Grants  *Grants
	Refresh RefreshKey
	Log     *slog.Logger

	// Exists says whether a path such as "/mcp", in lower case and without a
	// trailing slash, is a protected resource, and names it for people.
	Exists func(ctx context.Context, path string) (name string, found bool, err error)

	// Session says who is signed in at the browser that sends a request: the id of
	// the session and that of its operator. Both are empty for nobody.
	Session func(r *http.Request) (id, operator string, err error)

	// Page shows what must not be redirected: a fault of a request whose client or
	// redirect URI cannot be trusted.
	Page func(w http.ResponseWriter, r *http.Request, status int, e *domain.Error)

	// Describe returns what access tokens say about an agent, for people who look
	// into them.
	Describe func(ctx context.Context, agent domain.AgentKey) (domain.AgentID, []domain.Role, error)

	// ClientIP returns the address that attempts are counted by.
	ClientIP func(r *http.Request) string

	// Outside is for tests alone.
	Outside Outside
}
