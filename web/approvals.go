package web

import (
	"context"
	"net/http"

	"sidequest/domain"
	"sidequest/oauth/signin"
	"sidequest/projections"
)

// A question is an approval as its operator sees it.
type question struct {
	projections.Approval
	Agent projections.Agent // who asks, or who shall be
	Words wording           // of the role, where it is about one
	Roles []roleChoice      // of a new agent
	Board string
	CSRF  string

	Proposer string // the client that proposes an agent, as it names itself
}

// Open says whether it waits for an answer.
func (q question) Open() bool { return q.Status == projections.ApprovalOpen }

// OfRole says whether an agent asks for a role, rather than someone for an agent.
func (q question) OfRole() bool { return q.Kind == domain.ApprovalOfRole }

func (s *Server) approvalsPage(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	if err := s.caughtUp(r.Context()); err != nil {
		return err
	}
	approvals, err := projections.ApprovalsOf(r.Context(), s.cfg.DB, session.Operator.ID)
	if err != nil {
		return err
	}
	var open, decided []question
	for _, a := range approvals {
		q, err := s.question(r.Context(), session, a)
		if err != nil {
			return err
		}
		if q.Open() {
			open = append(open, q)
		} else {
			decided = append(decided, q)
		}
	}
	s.showOwn(w, r, session, page{Name: "approvals", Title: "Approvals", Body: map[string]any{"Open": open, "Decided": decided}})
	return nil
}

func (s *Server) question(ctx context.Context, session signin.Session, a projections.Approval) (question, error) {
	q := question{Approval: a, Words: roleWords(a.Role), Board: a.Board, CSRF: session.CSRF}
	agent, _, err := projections.AnyAgent(ctx, s.cfg.DB, a.AgentKey)
	if err != nil {
		return q, err
	}
	q.Agent, q.Roles = agent, roleChoices(agent.Roles)
	if a.GrantID != "" {
		proposer, _, err := projections.ConnectionOf(ctx, s.cfg.DB, session.Operator.ID, a.GrantID)
		if err != nil {
			return q, err
		}
		q.Proposer = proposer.ClientName
	}
	board, found, err := projections.BoardBySlug(ctx, s.cfg.DB, a.Board)
	if found {
		q.Board = board.Name
	}
	return q, err
}

// find returns the approval of a path. Those of others do not exist here.
func (s *Server) find(r *http.Request, session signin.Session) (question, error) {
	if err := s.caughtUp(r.Context()); err != nil {
		return question{}, err
	}
	a, found, err := projections.GetApproval(r.Context(), s.cfg.DB, domain.ApprovalID(r.PathValue("id")))
	if err == nil && (!found || a.Operator != session.Operator.ID) {
		err = domain.Refuse(domain.NotFound, "There is no such question for you. It may be for another operator: check who you are signed in as.")
	}
	if err != nil {
		return question{}, err
	}
	return s.question(r.Context(), session, a)
}

func (s *Server) approvePage(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	q, err := s.find(r, session)
	if err != nil {
		return err
	}
	s.showOwn(w, r, session, page{Name: "approve", Title: "Your approval", Body: q})
	return nil
}

// decide answers an approval. A new agent gets the roles that were ticked, and all
// connections of the operator that wait for an agent on its board.
func (s *Server) decide(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	q, err := s.find(r, session)
	if err != nil {
		return err
	}
	cmd := domain.DecideApproval{ApprovalID: q.ID}
	switch r.PostForm.Get("decision") {
	case "approve":
		cmd.Outcome = domain.Approved
	case "refuse":
		cmd.Outcome = domain.Refused
	default:
		return domain.Refuse(domain.Invalid, "Choose Approve or Refuse.")
	}
	if q.Kind == domain.ApprovalOfAgent && cmd.Outcome == domain.Approved {
		cmd.Roles = chosenRoles(r.PostForm["role"])
		if cmd.Grants, err = s.waiting(r.Context(), session); err != nil {
			return err
		}
	}
	if err := execute(r.Context(), s, session, q.Approval.Board, "decide_approval", cmd); err != nil {
		return err
	}
	see(w, r, "/approve/"+string(q.ID))
	return nil
}

// waiting lists the connections of an operator that have no agent yet.
func (s *Server) waiting(ctx context.Context, session signin.Session) ([]string, error) {
	const most = 100
	connections, err := projections.ConnectionsOf(ctx, s.cfg.DB, session.Operator.ID, s.cfg.Now())
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, c := range connections {
		if c.AgentKey == "" && len(ids) < most {
			ids = append(ids, c.GrantID)
		}
	}
	return ids, nil
}
