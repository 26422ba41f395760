package web

import (
	"net/http"
	"net/url"

	"sidequest/domain"
	"sidequest/oauth/signin"
	"sidequest/projections"
	"sidequest/webhook"
)

// deliveriesShown bounds the attempts and the dead letters on a page.
const deliveriesShown = 50

// A laneCard is a webhook as its operator sees it.
type laneCard struct {
	webhook.Lane
	AgentName   domain.Foreign
	Host        string // of the endpoint, which its agent chose
	Attempts    []webhook.Attempt
	DeadLetters []webhook.DeadLetter
	CSRF        string
}

// Words says how the webhook stands, for people.
func (c laneCard) Words() string {
	switch c.Standing() {
	case webhook.Active:
		if c.FailedSince != nil {
			return "retrying"
		}
		return "working"
	case webhook.Suspended:
		return "failing"
	case webhook.Disabled:
		return "switched off"
	case "lapsed":
		return "not renewed"
	}
	return c.Standing()
}

// Well says whether nothing is to be done.
func (c laneCard) Well() bool { return c.Standing() == webhook.Active && c.FailedSince == nil }

// Sends says whether something can be sent again now.
func (c laneCard) Sends() bool {
	return c.Standing() == webhook.Active || c.Standing() == webhook.Suspended
}

func (s *Server) deliveriesPage(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	lanes, err := s.cfg.Hooks.Lanes(r.Context(), webhook.Owner{Operator: session.Operator.ID}, "")
	if err != nil {
		return err
	}
	cards := make([]laneCard, len(lanes))
	for i, l := range lanes {
		if cards[i], err = s.laneCard(r, l, session); err != nil {
			return err
		}
	}
	s.showOwn(w, r, session, page{Name: "deliveries", Title: "Deliveries", Body: cards})
	return nil
}

func (s *Server) laneCard(r *http.Request, l webhook.Lane, session signin.Session) (laneCard, error) {
	c := laneCard{Lane: l, CSRF: session.CSRF}
	if u, err := url.Parse(l.URL); err == nil {
		c.Host = u.Host
	}
	agent, _, err := projections.AnyAgent(r.Context(), s.cfg.DB, l.Agent)
	c.AgentName = domain.Foreign(agent.Name)
	return c, err
}

func (s *Server) deliveryPage(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	owner, id := webhook.Owner{Operator: session.Operator.ID}, r.PathValue("id")
	lanes, err := s.cfg.Hooks.Lanes(r.Context(), owner, id)
	if err != nil {
		return err
	}
	if len(lanes) != 1 {
		return domain.Refuse(domain.NotFound, "There is no such webhook of your agents. It may have ended, or belong to another operator.")
	}
	card, err := s.laneCard(r, lanes[0], session)
	if err != nil {
		return err
	}
	if card.Attempts, err = s.cfg.Hooks.Attempts(r.Context(), owner, id, deliveriesShown); err != nil {
		return err
	}
	if card.DeadLetters, err = s.cfg.Hooks.DeadLetters(r.Context(), owner, id, deliveriesShown); err != nil {
		return err
	}
	s.showOwn(w, r, session, page{Name: "delivery", Title: "Deliveries to " + foreign(card.Host), Body: card})
	return nil
}

// pauseDelivery holds a webhook or lets it go on.
func (s *Server) pauseDelivery(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	id := r.PathValue("id")
	paused := r.PostForm.Get("paused") == "yes"
	if err := s.cfg.Hooks.Pause(r.Context(), webhook.Owner{Operator: session.Operator.ID}, id, paused); err != nil {
		return err
	}
	see(w, r, "/deliveries/"+url.PathEscape(id))
	return nil
}

// redeliver has one event sent again.
func (s *Server) redeliver(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	id := r.PathValue("id")
	err := s.cfg.Hooks.Redeliver(r.Context(), webhook.Owner{Operator: session.Operator.ID}, id, r.PostForm.Get("event"))
	if err != nil {
		return err
	}
	see(w, r, "/deliveries/"+url.PathEscape(id))
	return nil
}
