package mcp

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	"sidequest/domain"
	"sidequest/eventstore"
)

// The JSON-RPC codes this server answers with.
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeForbidden          = -32003 // outside the scopes or rights of the caller
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022

	// CodeResourceNotFound exists in the legacy era only. A modern client that
	// is refused with it hears [CodeInvalidParams].
	CodeResourceNotFound = -32002
)

// A ProtocolError is a refusal of the request itself rather than of what a tool
// was asked to do. Handlers return one when a [domain.Error] cannot say it.
type ProtocolError struct {
	Code    int
	Message string
	Data    any // encoded as JSON; nil for none

	// Status is the HTTP status. Zero leaves it to the lane: legacy clients get
	// 200, modern ones the status the specification gives the code.
	Status     int
	Challenge  string // the WWW-Authenticate header; empty for none
	RetryAfter int    // the Retry-After header in whole seconds; 0 for none
}

// Error implements error.
func (e *ProtocolError) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

// InvalidParams refuses the parameters of a method.
func InvalidParams(format string, args ...any) *ProtocolError {
	return &ProtocolError{Code: CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// badRequest refuses what is wrong in either era.
func badRequest(code int, format string, args ...any) *ProtocolError {
	return refuse(http.StatusBadRequest, code, format, args...)
}

func refuse(status, code int, format string, args ...any) *ProtocolError {
	return &ProtocolError{Code: code, Status: status, Message: fmt.Sprintf(format, args...)}
}

func methodNotFound() *ProtocolError {
	return &ProtocolError{Code: CodeMethodNotFound, Message: "There is no such method in this revision of the protocol."}
}

func unsupportedVersion(requested string) *ProtocolError {
	e := badRequest(CodeUnsupportedVersion, "This revision of the protocol is not served in this form; the legacy ones begin with initialize.")
	e.Data = struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{supportedVersions(), requested}
	return e
}

// A meaning is what a class of refusal is called on this wire.
type meaning struct{ code, status int }

// meanings says how refusals of the domain are answered when they concern the
// request as a whole; those of a tool call are results, with isError set. Codes
// of our own stay out of the range that JSON-RPC reserves: they are the HTTP
// status. Only a scope that is too small is a 403, because clients answer a 403
// by asking their user for more rights.
var meanings = map[domain.Class]meaning{
	domain.Unauthenticated:   {http.StatusUnauthorized, http.StatusUnauthorized},
	domain.InsufficientScope: {CodeForbidden, http.StatusForbidden},
	domain.Forbidden:         {CodeForbidden, http.StatusOK},
	domain.RoleRequired:      {CodeForbidden, http.StatusOK},
	domain.SetupPending:      {CodeForbidden, http.StatusOK},
	domain.Invalid:           {CodeInvalidParams, 0},
	domain.NotFound:          {CodeInvalidParams, 0},
	domain.Conflict:          {http.StatusConflict, http.StatusOK},
	domain.KeyConflict:       {http.StatusConflict, http.StatusOK},
	domain.RateLimited:       {http.StatusTooManyRequests, http.StatusTooManyRequests},
	domain.Overloaded:        {http.StatusServiceUnavailable, http.StatusServiceUnavailable},
	domain.Unavailable:       {http.StatusServiceUnavailable, http.StatusServiceUnavailable},
}

// refusalData is the data of a refusal that came from the domain.
type refusalData struct {
	Code       string       `json:"code"`
	Reason     string       `json:"reason,omitzero"` // the class, when the code is finer
	Retry      domain.Retry `json:"retry"`
	RetryAfter int          `json:"retryAfter,omitzero"` // whole seconds
	Field      string       `json:"field,omitzero"`      // a JSON pointer
	Scope      string       `json:"scope,omitzero"`
	ErrorID    string       `json:"errorId,omitzero"`
	Meta       *refusalMeta `json:"_meta,omitzero"`
}

// refusalMeta repeats the challenges of the response's header.
type refusalMeta struct {
	Challenges []string `json:"mcp/www_authenticate"`
}

// refusal puts a refusal of the domain on this wire. A scope that is too small
// is answered with all scopes the connection should ask for: held and needed.
func refusal(e *domain.Error, c Caller) *ProtocolError {
	data := refusalData{Code: e.Code, Retry: e.Class.Retry(), RetryAfter: e.After, Field: e.Field}
	if e.Code != string(e.Class) {
		data.Reason = string(e.Class)
	}
	if e.Class == domain.InsufficientScope {
		data.Scope = c.scopesWith(e.Scope)
	}
	m := meanings[e.Class]
	return &ProtocolError{Code: m.code, Status: m.status, Message: e.Message, Data: data, RetryAfter: e.After}
}

// protocolError turns whatever a handler returned into the one form that is
// written. Errors nobody meant to show go to the log under an id; the caller
// gets the id.
func (s *Server) protocolError(ctx context.Context, c *Call, err error) *ProtocolError {
	if e, ok := errors.AsType[*ProtocolError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*domain.Error](err); ok {
		if e.Class == domain.InsufficientScope {
			return s.stepUp(c, e)
		}
		return refusal(e, c.Caller)
	}
	if eventstore.Passing(err) {
		s.Log.WarnContext(ctx, "the database does not answer", "method", c.Request.Method, "error", err)
		return refusal(databaseAway(), c.Caller)
	}
	id := NewErrorID()
	s.Log.ErrorContext(ctx, "request failed", "errorId", id, "method", c.Request.Method, "agent", c.Caller.AgentKey, "error", err)
	return &ProtocolError{
		Code:    CodeInternal,
		Message: "Something went wrong on our side. It may be repeated as it was.",
		Data:    refusalData{Code: string(domain.Unavailable), Reason: "internal", Retry: domain.RetrySameKey, ErrorID: id},
	}
}

// stepUp refuses what is outside the caller's scopes in the two forms clients
// read: the header, by which they ask for more, and the same header within the
// body, where some hosts look for it alone.
func (s *Server) stepUp(c *Call, e *domain.Error) *ProtocolError {
	told := *e
	told.Message = s.withConsent(e.Message)
	p := refusal(&told, c.Caller)
	data := p.Data.(refusalData)
	p.Challenge = s.challenge(c.path, "insufficient_scope", data.Scope, told.Message)
	data.Meta = &refusalMeta{[]string{p.Challenge}}
	p.Data = data
	return p
}

// withConsent adds to a refusal for want of a scope where people give more.
func (s *Server) withConsent(message string) string {
	return message + " The operator allows more when the client connects again with the scopes named here, or at " + s.BaseURL + "/connections."
}

// NewErrorID returns 12 random hex digits under which an internal error is
// logged and shown.
func NewErrorID() string {
	b := make([]byte, 6)
	rand.Read(b) // never fails: see crypto/rand
	return hex.EncodeToString(b)
}

// modernStatus is the HTTP status of the codes for which the modern era names
// one. Other codes are answers like any other: 200.
var modernStatus = map[int]int{
	CodeMethodNotFound:     http.StatusNotFound,
	CodeParse:              http.StatusBadRequest,
	CodeInvalidRequest:     http.StatusBadRequest,
	CodeInvalidParams:      http.StatusBadRequest,
	CodeHeaderMismatch:     http.StatusBadRequest,
	CodeMissingCapability:  http.StatusBadRequest,
	CodeUnsupportedVersion: http.StatusBadRequest,
}

// in returns the error as the lane has it.
func (e *ProtocolError) in(l Lane) *ProtocolError {
	out := *e
	if l.Modern() && out.Code == CodeResourceNotFound {
		out.Code = CodeInvalidParams
	}
	if out.Status == 0 && l.Modern() {
		out.Status = modernStatus[out.Code]
	}
	if out.Status == 0 {
		out.Status = http.StatusOK
	}
	return &out
}
