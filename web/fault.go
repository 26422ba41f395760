package web

import (
	"errors"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"sidequest/domain"
	"sidequest/oauth/signin"
)

// A fault is what the error page says.
type fault struct {
	Title   string
	Message string // a sentence that says what is wrong and what to do
	Code    string // of the line in the log, for what nobody meant to show
	Action  *link  // where to go on, if anywhere
}

// fail answers with the error page. A refusal is shown as it is; anything else is
// logged under a code, which is all the reader sees.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, who *signin.Session, err error) {
	if refusal := refusalOf(err); refusal != nil {
		status, title := headline(refusal.Class)
		p.showFault(w, r, who, status, fault{Title: title, Message: sentence(refusal.Message)})
		return
	}
	code := ulid.Make().String()
	p.log.ErrorContext(r.Context(), "answer a page", "path", r.URL.Path, "errorId", code, "error", err)
	p.showFault(w, r, who, http.StatusInternalServerError, fault{
		Title: "Something went wrong here", Message: "It may not have been done. Try again in a moment; nothing is done twice.", Code: code,
	})
}

func (p *Pages) showFault(w http.ResponseWriter, r *http.Request, who *signin.Session, status int, f fault) {
	p.show(w, r, page{Name: "error", Status: status, Title: f.Title, Who: who, Body: f})
}

// Endpoint tells a person who opens the endpoint of MCP in a browser what it is for.
func (s *Server) Endpoint(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", "POST, OPTIONS")
	w.Header().Set("Vary", "Accept")
	s.pages.showFault(w, r, s.who(r), http.StatusMethodNotAllowed, fault{
		Title:   "This address is for agents",
		Message: "Give it to a client that speaks the Model Context Protocol. There is nothing to see here in a browser.",
		Action:  &link{Name: "Read how to connect", Path: "/docs/connect"},
	})
}

// headline returns how a class of refusals is told to a person.
func headline(c domain.Class) (status int, title string) {
	switch c {
	case domain.Unauthenticated:
		return http.StatusUnauthorized, "Sign in first"
	case domain.Forbidden, domain.InsufficientScope, domain.RoleRequired:
		return http.StatusForbidden, "This is not allowed"
	case domain.NotFound:
		return http.StatusNotFound, "There is nothing here"
	case domain.Conflict, domain.KeyConflict:
		return http.StatusConflict, "This cannot be done as things are"
	case domain.RateLimited:
		return http.StatusTooManyRequests, "That was a little fast"
	case domain.Overloaded, domain.Unavailable:
		return http.StatusServiceUnavailable, "Try again in a moment"
	}
	return http.StatusBadRequest, "This request cannot be answered"
}

// refusalOf returns the refusal that an error is, or nil.
func refusalOf(err error) *domain.Error {
	refusal, _ := errors.AsType[*domain.Error](err)
	return refusal
}

// invalid returns the refusal of something that was typed, or nil.
func invalid(err error) *domain.Error {
	if refusal := refusalOf(err); refusal != nil && refusal.Class == domain.Invalid {
		return refusal
	}
	return nil
}

// sentence makes a message begin and end as sentences do. Refusals begin in lower
// case where they were written for programs.
func sentence(message string) string {
	if message == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(message)
	message = string(unicode.ToUpper(first)) + message[size:]
	if !strings.ContainsAny(message[len(message)-1:], ".!?") {
		message += "."
	}
	return message
}
