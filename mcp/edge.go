package mcp

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sidequest/domain"
)

const allowedMethods = "POST, OPTIONS"

// admit makes the checks that come before everything else, and allows the page
// that sent the request to read the answer.
func (s *Server) admit(h http.Header, r *http.Request) *ProtocolError {
	if !ServesHost(s.BaseURL, r) {
		return refuse(http.StatusForbidden, CodeInvalidRequest, "This host is not served here.")
	}
	if r.ContentLength != 0 {
		// An answer that comes before the body has been read would wait for it,
		// however slowly it is sent, if the connection were to be used again.
		h.Set("Connection", "close")
	}
	h.Add("Vary", "Origin")
	if origins := r.Header.Values("Origin"); len(origins) > 0 {
		if len(origins) > 1 || !s.allowsOrigin(origins[0]) {
			return refuse(http.StatusForbidden, CodeInvalidRequest, "This origin is not allowed.")
		}
		h.Set("Access-Control-Allow-Origin", origins[0])
		h.Set("Access-Control-Expose-Headers", "WWW-Authenticate, Mcp-Session-Id, Retry-After")
	}
	switch r.Method {
	case http.MethodOptions:
		return nil
	case http.MethodPost:
		return checkHeaders(r)
	}
	h.Set("Allow", allowedMethods)
	return refuse(http.StatusMethodNotAllowed, CodeInvalidRequest, "This endpoint takes POST only; /docs/connect says how clients connect.")
}

// ServesHost says whether a request names a host that is served. A deployment on
// loopback serves loopback hosts alone, so that a name which was rebound to this
// machine reads nothing here.
func ServesHost(origin string, r *http.Request) bool {
	return !originOnLoopback(origin) || isLoopback(hostname(r.Host))
}

// checkHeaders checks what the headers say about the body and the answer.
func checkHeaders(r *http.Request) *ProtocolError {
	if !isJSON(r.Header) {
		return refuse(http.StatusUnsupportedMediaType, CodeInvalidRequest, "The body must be application/json in UTF-8, not compressed.")
	}
	if !acceptsAny(r.Header.Values("Accept")) {
		return refuse(http.StatusNotAcceptable, CodeInvalidRequest, "The answer is application/json or text/event-stream; accept one of them.")
	}
	if len(r.Header.Values("Authorization")) > 1 {
		return badRequest(CodeInvalidRequest, "Send one Authorization header: which of several counts cannot be told.")
	}
	if r.ContentLength > MaxBody {
		return tooLarge()
	}
	return nil
}

// pathOf is the path of a request in its one canonical spelling, so that what is
// said about a resource does not depend on how the caller wrote its address.
func pathOf(r *http.Request) string {
	u := url.URL{Path: r.URL.Path}
	return u.EscapedPath()
}

func tooLarge() *ProtocolError {
	return refuse(http.StatusRequestEntityTooLarge, CodeInvalidRequest, "The body is larger than %d bytes.", MaxBody)
}

func isJSON(h http.Header) bool {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset, encoding := params["charset"], h.Get("Content-Encoding")
	return err == nil && kind == "application/json" &&
		(charset == "" || strings.EqualFold(charset, "utf-8")) &&
		(encoding == "" || strings.EqualFold(encoding, "identity"))
}

// acceptsAny is lenient: clients that call by hand name no type or any, and a
// client that names one of ours gets what the method answers.
func acceptsAny(accept []string) bool {
	return len(accept) == 0 || accepts(accept, "*/*", "application/*", "application/json", "text/*", "text/event-stream")
}

// accepts says whether an Accept header names one of the types.
func accepts(accept []string, types ...string) bool {
	for entry := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		kind, _, _ := strings.Cut(entry, ";")
		if slices.Contains(types, strings.ToLower(strings.TrimSpace(kind))) {
			return true
		}
	}
	return false
}

// preflight answers a browser that asks before it sends.
func preflight(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Allow", allowedMethods)
	h.Set("Access-Control-Allow-Methods", allowedMethods)
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID")
	h.Set("Access-Control-Max-Age", "7200")
	w.WriteHeader(http.StatusNoContent)
}

// allowsOrigin lets any secure page in: a request counts by its bearer token,
// which a foreign page does not have, and never by a cookie. Pages without
// encryption are trusted only from the machine a development server runs on.
func (s *Server) allowsOrigin(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && s.onLoopback() && isLoopback(u.Hostname())
}

func (s *Server) onLoopback() bool { return originOnLoopback(s.BaseURL) }

func originOnLoopback(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && isLoopback(u.Hostname())
}

// isLoopback keeps a name that was rebound to this machine from being served.
func isLoopback(host string) bool {
	host = strings.TrimSuffix(host, ".")
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// hostname returns a Host header without its port.
func hostname(host string) string {
	u := url.URL{Host: host}
	return u.Hostname()
}

// authenticate says who calls. A refusal tells the client where to get a token,
// which is how clients find the authorization server (RFC 9728 §5.1).
func (s *Server) authenticate(r *http.Request) (Caller, *ProtocolError) {
	caller, err := s.Authenticate(r)
	if err == nil {
		return caller, nil
	}
	c := &Call{path: pathOf(r)}
	refused := s.protocolError(r.Context(), c, err)
	if refused.Status == 0 {
		refused.Status = http.StatusInternalServerError
	}
	e, ok := errors.AsType[*domain.Error](err)
	switch {
	case !ok:
	case e.Class == domain.Forbidden:
		// Nothing but the status can tell: the request has no id yet. Without a
		// challenge nobody is asked for more rights.
		refused.Status = http.StatusForbidden
	case e.Class == domain.Unauthenticated:
		code := ""
		if r.Header.Get("Authorization") != "" {
			code = "invalid_token"
		}
		refused.Challenge = s.challenge(c.path, code, cmp.Or(e.Scope, domain.ScopeRead), e.Message)
	}
	return Caller{}, refused
}

// Fail answers a request for which no endpoint could be found because of an error.
// Its body has not been read, so the answer has no id.
func (s *Server) Fail(w http.ResponseWriter, r *http.Request, err error) {
	refused := s.protocolError(r.Context(), &Call{path: pathOf(r)}, err)
	if refused.Status == 0 {
		refused.Status = http.StatusInternalServerError
	}
	w.Header().Set("Cache-Control", "no-store")
	s.writeError(w, nil, refused)
}

// challenge returns a WWW-Authenticate header (RFC 6750 §3, RFC 9728 §5.1). A
// request without a token made no mistake, so its challenge names no error.
func (s *Server) challenge(path, code, scope, description string) string {
	metadata := s.BaseURL + "/.well-known/oauth-protected-resource" + path
	if code == "" {
		return fmt.Sprintf("Bearer resource_metadata=%q, scope=%q", metadata, scope)
	}
	return fmt.Sprintf("Bearer error=%q, error_description=%q, scope=%q, resource_metadata=%q",
		code, quotable(description), scope, metadata)
}

// quotable leaves the characters that RFC 6750 §3 allows in a description.
func quotable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, s)
}

// readBody reads the body under a deadline, so that a client cannot hold the
// connection by sending it byte by byte. The deadline stays where the body did not
// arrive: the rest of it is not waited for.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *ProtocolError) {
	rc := http.NewResponseController(w)
	setDeadline(rc.SetReadDeadline, time.Now().Add(readTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err == nil {
		setDeadline(rc.SetReadDeadline, time.Time{})
		w.Header().Del("Connection")
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge()
	}
	if err != nil {
		return nil, badRequest(CodeParse, "The body did not arrive whole.")
	}
	return body, nil
}
