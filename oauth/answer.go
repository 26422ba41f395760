package oauth

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"sidequest/domain"
)

// A fault is an error of the protocol, with a code of RFC 6749 §5.2 and its
// extensions. It never repeats what was sent.
type fault struct {
	status      int
	code        string
	description string // of the characters that RFC 6749 allows
	challenge   string // for WWW-Authenticate
	after       int    // seconds, for Retry-After
}

// Error implements error.
func (f *fault) Error() string { return f.code + ": " + f.description }

// The codes of errors.
const (
	invalidRequest        = "invalid_request"
	invalidClient         = "invalid_client"
	invalidGrant          = "invalid_grant"
	invalidScope          = "invalid_scope"
	invalidTarget         = "invalid_target"
	invalidRedirect       = "invalid_redirect_uri"
	invalidClientMetadata = "invalid_client_metadata"
)

// bad is a fault of the status 400.
func bad(code, description string) *fault {
	return &fault{status: http.StatusBadRequest, code: code, description: description}
}

// deadGrant is the one answer to a code or refresh token that gives nothing. With
// this code clients begin anew instead of giving up.
func deadGrant() *fault {
	return bad(invalidGrant, "this code or refresh token is not valid, or its access has ended; connect again")
}

// asFault returns what a client is told about an error. Only a fault, and a
// refusal for passing reasons, are; the rest is logged by the caller.
func asFault(err error) (*fault, bool) {
	if f, ok := errors.AsType[*fault](err); ok {
		return f, true
	}
	if e, ok := errors.AsType[*domain.Error](err); ok {
		switch e.Class {
		case domain.RateLimited:
			return &fault{status: http.StatusTooManyRequests, code: "temporarily_unavailable", description: e.Message, after: e.After}, true
		case domain.Overloaded, domain.Unavailable:
			return &fault{status: http.StatusServiceUnavailable, code: "temporarily_unavailable", description: e.Message, after: max(1, e.After)}, true
		case domain.Unauthenticated:
			return deadGrant(), true
		}
	}
	return &fault{status: http.StatusInternalServerError, code: "server_error", description: "the server met a fault of its own; try again"}, false
}

// writeFault answers with an error, and logs one that is not the client's.
func (s *Server) writeFault(w http.ResponseWriter, r *http.Request, err error) {
	f, told := asFault(err)
	if !told && r.Context().Err() == nil {
		s.Log.ErrorContext(r.Context(), "an OAuth request failed", "path", r.URL.Path, "error", err)
	}
	if f.challenge != "" {
		w.Header().Set("WWW-Authenticate", f.challenge)
	}
	if f.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.after))
	}
	s.writeJSON(w, r, f.status, map[string]string{"error": f.code, "error_description": f.description})
}

// writeJSON answers with what no cache may keep (RFC 6749 §5.1), unless the
// caller has said otherwise.
func (s *Server) writeJSON(w http.ResponseWriter, r *http.Request, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		s.Log.ErrorContext(r.Context(), "encode an OAuth answer", "path", r.URL.Path, "error", err)
	}
	h := w.Header()
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n'))
}
