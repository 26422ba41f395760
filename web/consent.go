package web

import (
	"context"
	"net/http"
	"slices"

	"sidequest/domain"
	"sidequest/oauth"
	"sidequest/oauth/signin"
	"sidequest/projections"
)

// A consent is what the consent page shows, in the order of the page.
type consent struct {
	Session  signin.Session
	ID       string
	Client   oauth.Client
	Known    bool // to this operator: the client has a connection of the same kind
	Place    place
	Board    string // what its operator calls it: data of a stranger
	Path     string
	Agents   []agentChoice
	NewAgent bool // whether that is chosen
	Scopes   []scopeChoice
}

// An agentChoice is an agent that the connection can act as.
type agentChoice struct {
	projections.Agent
	Chosen bool
	Roles  []roleChoice
	Has    []wording // what the application has been allowed here as this agent
	Beyond []wording // of that, what is not asked for now and not given by this consent
}

type roleChoice struct {
	wording
	Role domain.Role
	Held bool
}

type scopeChoice struct {
	wording
	Scope   string
	Allowed bool // already, by an earlier consent
	New     bool // asked for beside what is allowed already
	Locked  bool // cannot be left out
}

// newAgent is the choice of an agent that is still to be set up.
const newAgent = "new"

func (s *Server) consentPage(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	pending, err := s.cfg.OAuth.Pending(r.Context(), r, r.PathValue("id"))
	if err != nil {
		return err
	}
	if err := s.cfg.OAuth.Grants.Admitted(r.Context(), pending.Resource, session.Operator.ID); err != nil {
		return err
	}
	c, err := s.consent(r.Context(), session, pending)
	if err != nil {
		return err
	}
	title := "Connect an application"
	if c.Known {
		title = "Let an application do more"
	}
	s.showOwn(w, r, session, page{Name: "consent", Title: title, Alone: true, Body: c})
	return nil
}

// consent collects what there is to decide. Where this application has been
// connected before, that connection's agent is proposed.
func (s *Server) consent(ctx context.Context, session signin.Session, p oauth.Pending) (consent, error) {
	agents, connections, err := s.belongings(ctx, session)
	if err != nil {
		return consent{}, err
	}
	c := consent{Session: session, ID: p.ID, Client: p.Client, Place: placeOf(p.RedirectURI)}
	if c.Board, c.Path, err = s.board(ctx, p.Resource); err != nil {
		return consent{}, err
	}
	connections = slices.DeleteFunc(connections, func(k projections.Connection) bool {
		return k.ClientID != p.Client.ID || k.Resource != p.Resource || !samePlace(k.RedirectURI, p.RedirectURI) || k.ExpiresAt != nil
	})
	ready := slices.DeleteFunc(agents, func(a projections.Agent) bool { return a.State != projections.AgentReady })
	var chosen domain.AgentKey
	var allowed []string
	switch {
	case len(connections) > 0 && connections[0].AgentKey != "":
		c.Known, chosen, allowed = true, connections[0].AgentKey, connections[0].Scopes
	case len(connections) == 0 && len(ready) == 1:
		chosen = ready[0].AgentKey
	}
	c.NewAgent = len(ready) == 0 || len(connections) > 0 && !c.Known
	for _, a := range ready {
		choice := agentChoice{Agent: a, Chosen: a.AgentKey == chosen, Roles: roleChoices(a.Roles)}
		choice.Has, choice.Beyond = hasAlready(connections, a.AgentKey, p.Asked)
		c.Agents = append(c.Agents, choice)
	}
	c.Scopes = scopeChoices(p.Asked, allowed)
	if len(ready) > 1 {
		// Locked, what one agent's connection has would go to the agent that is chosen.
		for i := range c.Scopes {
			c.Scopes[i].Locked = c.Scopes[i].Locked && alwaysGiven(c.Scopes[i].Scope)
		}
	}
	return c, nil
}

// alwaysGiven says whether a scope comes with every consent that includes it.
func alwaysGiven(scope string) bool { return scope == domain.ScopeRead || scope == domain.ScopeSetup }

// hasAlready tells what the application was allowed as an agent, and what of that
// is not asked for now.
func hasAlready(connections []projections.Connection, agent domain.AgentKey, asked []string) (has, beyond []wording) {
	i := slices.IndexFunc(connections, func(k projections.Connection) bool { return k.AgentKey == agent })
	if i < 0 {
		return nil, nil
	}
	for _, scope := range domain.Scopes() {
		if !domain.ScopesAllow(connections[i].Scopes, scope) {
			continue
		}
		has = append(has, scopeWords(scope))
		if !domain.ScopesAllow(asked, scope) {
			beyond = append(beyond, scopeWords(scope))
		}
	}
	return has, beyond
}

// belongings returns the agents and connections of an operator, as of now.
func (s *Server) belongings(ctx context.Context, session signin.Session) ([]projections.Agent, []projections.Connection, error) {
	if err := s.caughtUp(ctx); err != nil {
		return nil, nil, err
	}
	agents, err := projections.AgentsOf(ctx, s.cfg.DB, session.Operator.ID)
	if err != nil {
		return nil, nil, err
	}
	connections, err := projections.ConnectionsOf(ctx, s.cfg.DB, session.Operator.ID, s.cfg.Now())
	return agents, connections, err
}

// board returns what the board of a resource is called, and its path.
func (s *Server) board(ctx context.Context, resource string) (name, path string, err error) {
	slug, path := boardOf(resource)
	b, found, err := projections.BoardBySlug(ctx, s.cfg.DB, slug)
	if err != nil || !found {
		return slug, path, err
	}
	return b.Name, path, nil
}

func roleChoices(held []string) []roleChoice {
	var choices []roleChoice
	for _, role := range domain.Roles() {
		choices = append(choices, roleChoice{roleWords(role), role, slices.Contains(held, string(role))})
	}
	return choices
}

// scopeChoices lists what is asked for. What was allowed before stays; to see comes
// with everything.
func scopeChoices(asked, allowed []string) []scopeChoice {
	var choices []scopeChoice
	for _, scope := range domain.Scopes() {
		if !domain.ScopesAllow(asked, scope) {
			continue
		}
		already := domain.ScopesAllow(allowed, scope)
		choices = append(choices, scopeChoice{
			wording: scopeWords(scope), Scope: scope, Allowed: already, New: len(allowed) > 0 && !already,
			Locked: already || alwaysGiven(scope),
		})
	}
	return choices
}

// decideConsent takes the answer. What may be granted is read from the request that
// the server kept, whatever the form says.
func (s *Server) decideConsent(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	id := r.PathValue("id")
	switch r.PostForm.Get("decision") {
	case "deny":
		location, err := s.cfg.OAuth.Deny(r.Context(), r, id)
		if err == nil {
			see(w, r, location)
		}
		return err
	case "allow":
		return s.allow(w, r, session, id)
	}
	return domain.Refuse(domain.Invalid, "Choose Allow or Deny.")
}

func (s *Server) allow(w http.ResponseWriter, r *http.Request, session signin.Session, id string) error {
	key, err := s.chosenAgent(r.Context(), session, r.PostForm.Get("agent"))
	if err != nil {
		return err
	}
	decision := oauth.Decision{Operator: session.Operator.ID, AgentKey: key, Scopes: r.PostForm["scope"]}
	if key != "" {
		roles := chosenRoles(r.PostForm["role:"+string(key)])
		if slices.ContainsFunc(roles, func(role domain.Role) bool { return !slices.Contains(domain.Roles(), role) }) {
			return domain.Refuse(domain.Invalid, "There is no such role, so nothing was allowed.")
		}
		decision.Settle = func(ctx context.Context, grantID string) error {
			return s.settle(ctx, session, key, grantID, roles)
		}
	}
	location, _, err := s.cfg.OAuth.Allow(r.Context(), r, id, decision)
	if err != nil {
		return err
	}
	see(w, r, location)
	return nil
}

// chosenAgent returns the agent of a form, "" for one still to be set up. Agents of
// others do not exist here.
func (s *Server) chosenAgent(ctx context.Context, session signin.Session, choice string) (domain.AgentKey, error) {
	switch choice {
	case newAgent:
		return "", nil
	case "":
		return "", domain.Refuse(domain.Invalid, "Choose which agent the application is to act as. Go back to do so.")
	}
	agents, err := projections.AgentsOf(ctx, s.cfg.DB, session.Operator.ID)
	if err != nil {
		return "", err
	}
	for _, a := range agents {
		if string(a.AgentKey) == choice && a.State == projections.AgentReady {
			return a.AgentKey, nil
		}
	}
	return "", domain.Refuse(domain.Forbidden, "This is not an agent of yours, so nothing was allowed.")
}

// settle gives the agent the roles that were ticked, and to the agent those
// connections to the same board that waited for one. Done twice it is as done once.
func (s *Server) settle(ctx context.Context, session signin.Session, key domain.AgentKey, grantID string, roles []domain.Role) error {
	if err := execute(ctx, s, session, "", "set_roles", domain.SetRoles{AgentKey: key, Roles: roles}); err != nil {
		return err
	}
	_, connections, err := s.belongings(ctx, session)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(connections, func(c projections.Connection) bool { return c.GrantID == grantID })
	if at < 0 {
		return nil // ended again already
	}
	bind := domain.BindWaiting{AgentKey: key, Resource: connections[at].Resource}
	for _, c := range connections {
		if c.AgentKey == "" && c.Resource == bind.Resource && len(bind.Grants) < 100 {
			bind.Grants = append(bind.Grants, c.GrantID)
		}
	}
	if len(bind.Grants) == 0 {
		return nil
	}
	return execute(ctx, s, session, "", "bind_waiting", bind)
}

func chosenRoles(values []string) []domain.Role {
	roles := make([]domain.Role, len(values))
	for i, v := range values {
		roles[i] = domain.Role(v)
	}
	return roles
}
