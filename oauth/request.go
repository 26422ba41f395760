package oauth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
)

// requestLife is how long an operator has to answer a request.
const requestLife = 10 * time.Minute

// ConsentPath is the path of the consent page, to which the id of a request is
// added.
const ConsentPath = "/consent/"

// requestCookie begins the name of the cookie that binds a request to the browser
// that asked. Each request has its own, so that two tabs do not disturb each other.
const requestCookie = "__Host-request-"

// keepRequest keeps a request for its browser and returns where to send that.
func (s *Server) keepRequest(w http.ResponseWriter, r *http.Request, a asking) (location string, err error) {
	id, browser := "ar_"+newSecret()[:22], newSecret()
	_, err = s.DB.Exec(r.Context(), `
		INSERT INTO oauth.requests (request_id, browser, client_id, client_name, client_host, client_kind,
		                            redirect_uri, registered_uri, resource, asked, state, challenge, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, now() + $13)`,
		id, hashOf(browser), a.client.ID, a.client.Name, a.client.Host, a.client.Kind,
		a.redirect, a.registered, a.resource.URL, a.asked, a.state, a.challenge, requestLife)
	if err != nil {
		return "", fmt.Errorf("keep an authorization request: %w", err)
	}
	http.SetCookie(w, &http.Cookie{
		Name: requestCookie + id, Value: browser, Path: "/", MaxAge: int(requestLife.Seconds()),
		Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	s.Log.InfoContext(r.Context(), "authorization asked for", "request", id, "client", a.client.ID, "resource", a.resource.URL, "scopes", a.asked)
	return ConsentPath + id, nil
}

// A Pending is an authorization request that waits for an operator.
type Pending struct {
	ID          string
	Client      Client
	RedirectURI string // as asked for: where the browser goes with the answer
	Resource    string // canonical URL
	Asked       []string
	ExpiresAt   time.Time

	registered string
	state      *string
	challenge  string
	session    []byte
	answered   bool
}

// Pending returns a request for the browser that made it, and ties it to the
// session that is signed in there: only from that one can it be answered. It
// refuses with not-found what is unknown or too old, with conflict what has been
// answered, and with forbidden another browser and one where nobody is signed in.
func (s *Server) Pending(ctx context.Context, r *http.Request, id string) (Pending, error) {
	p, err := s.open(ctx, r, id)
	if err != nil {
		return Pending{}, err
	}
	session, _, err := s.signedIn(r)
	if err != nil {
		return Pending{}, err
	}
	_, err = s.DB.Exec(ctx, `
		UPDATE oauth.requests
		SET session = $2
		WHERE request_id = $1 AND session IS DISTINCT FROM $2`, id, session)
	if err != nil {
		return Pending{}, fmt.Errorf("tie an authorization request to a session: %w", err)
	}
	return p, nil
}

// signedIn returns the hash of the session's id, and the operator.
func (s *Server) signedIn(r *http.Request) (session []byte, operator string, err error) {
	id, operator, err := s.Session(r)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("look for a session: %w", err)
	case id == "" || operator == "":
		return nil, "", domain.Refuse(domain.Forbidden, "sign in first")
	}
	return hashOf(id), operator, nil
}

// open returns a request that can still be answered, to the browser that made it.
func (s *Server) open(ctx context.Context, r *http.Request, id string) (Pending, error) {
	p, browser, err := s.request(ctx, id)
	if err != nil {
		return Pending{}, err
	}
	cookie, err := r.Cookie(requestCookie + id)
	if err != nil || subtle.ConstantTimeCompare(hashOf(cookie.Value), browser) != 1 {
		return Pending{}, domain.Refuse(domain.Forbidden, "this request was made in another browser; connect from the application again, in this one")
	}
	if p.answered {
		return Pending{}, errAnswered()
	}
	return p, nil
}

func (s *Server) request(ctx context.Context, id string) (p Pending, browser []byte, err error) {
	p.ID = id
	err = s.DB.QueryRow(ctx, `
		SELECT browser, session, client_id, client_name, client_host, client_kind,
		       redirect_uri, registered_uri, resource, asked, state, challenge, expires_at, ended_at IS NOT NULL
		FROM oauth.requests
		WHERE request_id = $1 AND expires_at > now()`, id).Scan(
		&browser, &p.session, &p.Client.ID, &p.Client.Name, &p.Client.Host, &p.Client.Kind,
		&p.RedirectURI, &p.registered, &p.Resource, &p.Asked, &p.state, &p.challenge, &p.ExpiresAt, &p.answered)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, nil, domain.Refuse(domain.NotFound, "this request is over; connect from the application again")
	}
	if err != nil {
		return p, nil, fmt.Errorf("find an authorization request: %w", err)
	}
	return p, browser, nil
}

func errAnswered() error {
	return domain.RefuseAs(domain.Conflict, "request-answered", "this request has been answered; if the application is not connected, connect from it again")
}
