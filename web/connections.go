package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sidequest/domain"
	"sidequest/oauth/signin"
	"sidequest/projections"
)

// newFor is how long a connection is pointed out as new.
const newFor = 24 * time.Hour

// A connectionCard is a connection as its operator sees it.
type connectionCard struct {
	projections.Connection
	Host   string // of the client's own document, "" where nothing is verified
	Place  place
	Board  string
	Path   string
	New    bool
	Scopes []scopeChoice // what it may do
	Choice []scopeChoice // what it may be let do; fewer than two leave no choice
	Roles  []roleChoice  // of its agent
	CSRF   string
}

func (s *Server) connectionsPage(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	agents, connections, err := s.belongings(r.Context(), session)
	if err != nil {
		return err
	}
	cards := make([]connectionCard, len(connections))
	for i, c := range connections {
		if cards[i], err = s.card(r, session, c, agents); err != nil {
			return err
		}
	}
	body := map[string]any{"Cards": cards, "Endpoint": s.cfg.Origin + "/mcp"}
	if id := r.URL.Query().Get("ended"); id != "" && !slices.ContainsFunc(connections, func(c projections.Connection) bool { return c.GrantID == id }) {
		ended, found, err := projections.ConnectionOf(r.Context(), s.cfg.DB, session.Operator.ID, id)
		if err != nil {
			return err
		}
		if found {
			body["Ended"] = ended
		}
	}
	s.showOwn(w, r, session, page{Name: "connections", Title: "Connections", Body: body})
	return nil
}

func (s *Server) card(r *http.Request, session signin.Session, c projections.Connection, agents []projections.Agent) (connectionCard, error) {
	card := connectionCard{
		Connection: c, Place: placeOf(c.RedirectURI), New: s.cfg.Now().Sub(c.Since) < newFor, CSRF: session.CSRF,
		Scopes: scopeChoices(c.Scopes, nil),
	}
	if rest, verified := strings.CutPrefix(c.ClientID, "https://"); verified {
		card.Host, _, _ = strings.Cut(rest, "/")
	}
	if c.AgentKey != "" {
		card.Choice = slices.DeleteFunc(scopeChoices(c.Asked, c.Scopes), func(k scopeChoice) bool { return k.Scope == domain.ScopeSetup })
	}
	if i := slices.IndexFunc(agents, func(a projections.Agent) bool { return a.AgentKey == c.AgentKey }); i >= 0 {
		card.Roles = roleChoices(agents[i].Roles)
	}
	var err error
	card.Board, card.Path, err = s.board(r.Context(), c.Resource)
	return card, err
}

// changeConnection lets a connection do more or less, within what it asked for.
func (s *Server) changeConnection(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	_, connections, err := s.belongings(r.Context(), session)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	i := slices.IndexFunc(connections, func(c projections.Connection) bool { return c.GrantID == id })
	if i < 0 {
		return noConnection()
	}
	wish := slices.DeleteFunc(domain.Scopes(), func(scope string) bool {
		ticked := slices.Contains(r.PostForm["scope"], scope) || scope == domain.ScopeRead // which comes with everything
		return !ticked || !domain.ScopesAllow(connections[i].Asked, scope)
	})
	if len(wish) == 0 {
		return domain.Refuse(domain.Invalid, "A connection can see at least. To end it, choose End this connection.")
	}
	if err := execute(r.Context(), s, session, "", "widen_grant", domain.WidenGrant{GrantID: id, Scopes: wish}); err != nil {
		return err
	}
	if err := execute(r.Context(), s, session, "", "narrow_grant", domain.NarrowGrant{GrantID: id, Scopes: wish}); err != nil {
		return err
	}
	see(w, r, "/connections")
	return nil
}

func noConnection() error {
	return domain.Refuse(domain.NotFound, "There is no such connection of yours.")
}

// endConnection revokes a grant. It acts on the next call, on every replica.
func (s *Server) endConnection(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	cmd := domain.RevokeGrant{GrantID: r.PathValue("id"), Reason: "ended by its operator"}
	err := execute(r.Context(), s, session, "", "revoke_grant", cmd)
	if domain.CodeOf(err) == string(domain.NotFound) {
		return noConnection()
	}
	if err == nil {
		see(w, r, "/connections?"+url.Values{"ended": {cmd.GrantID}}.Encode())
	}
	return err
}
