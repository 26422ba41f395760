package mcp

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"sidequest/domain"
	"sidequest/eventstore"
)

// An API serves every tool as POST /api/{tool}, with the arguments as the body
// and the bearer token of the board's MCP endpoint. It is the same pipeline on
// another transport.
type API struct {
	Server *Server
	Market *Market
}

// restStatus says how REST answers each class of refusal.
var restStatus = map[domain.Class]int{
	domain.Unauthenticated:   http.StatusUnauthorized,
	domain.InsufficientScope: http.StatusForbidden,
	domain.RoleRequired:      http.StatusForbidden,
	domain.SetupPending:      http.StatusConflict,
	domain.Forbidden:         http.StatusForbidden,
	domain.Invalid:           http.StatusBadRequest,
	domain.KeyConflict:       http.StatusConflict,
	domain.Conflict:          http.StatusConflict,
	domain.NotFound:          http.StatusNotFound,
	domain.RateLimited:       http.StatusTooManyRequests,
	domain.Overloaded:        http.StatusServiceUnavailable,
	domain.Unavailable:       http.StatusServiceUnavailable,
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	caller, answer, err := a.answer(w, r)
	if edge, ok := errors.AsType[*ProtocolError](err); ok {
		a.writeEdge(w, edge)
		return
	}
	if err != nil {
		a.writeFailure(w, r, caller, err)
		return
	}
	if r.Method == http.MethodOptions {
		preflight(w)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

func (a *API) answer(w http.ResponseWriter, r *http.Request) (caller Caller, answer []byte, err error) {
	if refused := a.Server.admit(w.Header(), r); refused != nil {
		return caller, nil, refused
	}
	if r.Method == http.MethodOptions {
		return caller, nil, nil
	}
	if caller, err = a.Server.Authenticate(r); err != nil {
		return caller, nil, err
	}
	body, refused := readBody(w, r)
	if refused != nil {
		return caller, nil, refused
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	if refused := checkObject(body); refused != nil {
		return caller, nil, refused
	}
	answer, err = a.Market.Call(r.Context(), caller, r.PathValue("tool"), body)
	return caller, answer, err
}

// Fail answers a request for which no endpoint could be found because of an error.
func (a *API) Fail(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("Cache-Control", "no-store")
	a.writeFailure(w, r, Caller{}, err)
}

// writeEdge answers a request that was refused before it reached a tool.
func (a *API) writeEdge(w http.ResponseWriter, e *ProtocolError) {
	code := string(domain.Invalid)
	if e.Status == http.StatusForbidden {
		code = string(domain.Forbidden)
	}
	a.write(w, e.Status, Failure{Code: code, Message: e.Message, Retry: domain.Class(code).Retry()})
}

// writeFailure answers a refusal or an internal error.
func (a *API) writeFailure(w http.ResponseWriter, r *http.Request, c Caller, err error) {
	f := a.Market.failure(r.Context(), r.PathValue("tool"), err)
	status := http.StatusInternalServerError
	if eventstore.Passing(err) {
		status = restStatus[domain.Unavailable]
	}
	if e, ok := errors.AsType[*domain.Error](err); ok {
		if e.Class == domain.InsufficientScope {
			f.Scope, f.Message = c.scopesWith(e.Scope), a.Server.withConsent(e.Message)
		}
		status = restStatus[e.Class]
		a.challenge(w.Header(), r, c, e)
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	a.write(w, status, f)
}

// challenge tells a client which token would do. The resource is the MCP endpoint
// of the same board: there is one audience for both transports.
func (a *API) challenge(h http.Header, r *http.Request, c Caller, e *domain.Error) {
	before, _, _ := strings.Cut(pathOf(r), "/api/")
	resource := before + "/mcp"
	switch {
	case e.Class == domain.InsufficientScope:
		h.Set("WWW-Authenticate", a.Server.challenge(resource, "insufficient_scope", c.scopesWith(e.Scope), a.Server.withConsent(e.Message)))
	case e.Class != domain.Unauthenticated:
	case r.Header.Get("Authorization") == "":
		h.Set("WWW-Authenticate", a.Server.challenge(resource, "", domain.ScopeRead, ""))
	default:
		h.Set("WWW-Authenticate", a.Server.challenge(resource, "invalid_token", domain.ScopeRead, e.Message))
	}
}

func (a *API) write(w http.ResponseWriter, status int, f Failure) {
	body, err := encodeAnswer(f)
	if err != nil {
		a.Market.Log.Error("encode a failure", "error", err)
	}
	writeJSON(w, status, body)
}
