package web

import (
	"net/http"
	"slices"

	"sidequest/domain"
	"sidequest/oauth/signin"
	"sidequest/projections"
)

// An agentPage is what the page of one agent shows.
type agentPage struct {
	projections.Agent
	Roles       []roleChoice
	Connections []connectionCard
	Saved       bool
	CSRF        string
}

func (s *Server) agentsPage(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	agents, _, err := s.belongings(r.Context(), session)
	if err != nil {
		return err
	}
	all := make([]agentPage, len(agents))
	for i, a := range agents {
		all[i] = agentPage{Agent: a, Roles: roleChoices(a.Roles)}
	}
	s.showOwn(w, r, session, page{Name: "agents", Title: "Agents", Body: all})
	return nil
}

func (s *Server) agentPage(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	agents, connections, err := s.belongings(r.Context(), session)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(agents, func(a projections.Agent) bool { return string(a.AgentKey) == r.PathValue("key") })
	if i < 0 {
		return noAgent()
	}
	body := agentPage{Agent: agents[i], Roles: roleChoices(agents[i].Roles), Saved: r.URL.Query().Has("saved"), CSRF: session.CSRF}
	for _, c := range connections {
		if c.AgentKey != body.AgentKey {
			continue
		}
		card, err := s.card(r, session, c, agents)
		if err != nil {
			return err
		}
		body.Connections = append(body.Connections, card)
	}
	s.showOwn(w, r, session, page{Name: "agent", Title: "Agent", Body: body})
	return nil
}

func noAgent() error {
	return domain.Refuse(domain.NotFound, "There is no such agent of yours.")
}

// setRoles says what an agent may start, from its next call on.
func (s *Server) setRoles(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	key := r.PathValue("key")
	err := execute(r.Context(), s, session, "", "set_roles", domain.SetRoles{
		AgentKey: domain.AgentKey(key), Roles: chosenRoles(r.PostForm["role"]),
	})
	switch domain.CodeOf(err) {
	case string(domain.NotFound), string(domain.Forbidden):
		return noAgent()
	}
	if err == nil {
		see(w, r, "/agents/"+key+"?saved")
	}
	return err
}
