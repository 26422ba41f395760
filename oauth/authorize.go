package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"sidequest/domain"
)

const (
	maxAuthorize = 16 << 10 // bytes of parameters
	maxState     = 4 << 10  // bytes
)

// pkceChallenge is the form of an S256 challenge: 256 bits (RFC 7636 §4.2).
var pkceChallenge = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// An asking is an authorization request that was checked.
type asking struct {
	client     registration
	redirect   string // as asked for
	registered string // the URI of the client that it matches
	state      *string
	resource   Resource
	asked      []string
	challenge  string
}

// serveAuthorize takes an authorization request (RFC 6749 §4.1.1) and sends the
// browser on to the consent page. What is wrong with the client or the redirect
// URI is shown to the person, for there is nobody to be trusted with it; anything
// else is told to the client.
func (s *Server) serveAuthorize(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	params, err := authorizeParams(w, r)
	var a asking
	if err == nil {
		err = s.limit(r.Context(), "authorize", requestsPerMinute, neighbourhood(s.ClientIP(r)))
	}
	if err == nil {
		a, err = s.askingBy(r.Context(), params)
	}
	if err != nil {
		s.showFault(w, r, err)
		return
	}
	location, err := s.begin(w, r, a, params)
	if f, told := errors.AsType[*fault](err); told {
		location, err = s.errorAt(a, f)
	}
	if err != nil {
		s.showFault(w, r, err)
		return
	}
	h.Set("Location", location)
	w.WriteHeader(http.StatusSeeOther)
}

// showFault shows a person what was wrong, and logs what is none of their business.
func (s *Server) showFault(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadRequest
	e, told := errors.AsType[*domain.Error](err)
	switch {
	case !told:
		s.Log.ErrorContext(r.Context(), "an authorization request failed", "error", err)
		e, status = domain.Refuse(domain.Unavailable, "the request cannot be answered at the moment; go back to your application and try again"), http.StatusServiceUnavailable
	case e.Class == domain.RateLimited:
		status = http.StatusTooManyRequests
	case e.Class == domain.Unavailable || e.Class == domain.Overloaded:
		status = http.StatusServiceUnavailable
	}
	s.Page(w, r, status, e)
}

func authorizeParams(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	raw := r.URL.RawQuery
	if r.Method == http.MethodPost {
		form, err := readForm(w, r, maxAuthorize)
		if err != nil {
			return nil, domain.Refuse(domain.Invalid, "the request of the application does not parse")
		}
		return form, nil
	}
	params, err := url.ParseQuery(raw)
	if err != nil || len(raw) > maxAuthorize || !legible(params) {
		return nil, domain.Refuse(domain.Invalid, "the request of the application does not parse")
	}
	return params, nil
}

// askingBy finds out who asks, and where the answer goes. Without both there can
// be no redirect.
func (s *Server) askingBy(ctx context.Context, params url.Values) (asking, error) {
	for _, name := range []string{"client_id", "redirect_uri"} {
		if len(params[name]) != 1 || params.Get(name) == "" {
			return asking{}, domain.Refuse(domain.Invalid, "the application has to send %s, once", name)
		}
	}
	if len(params.Get("state")) > maxState {
		return asking{}, domain.Refuse(domain.Invalid, "the application sent a state of more than %d bytes", maxState)
	}
	client, err := s.client(ctx, params.Get("client_id"), atAuthorize)
	if errors.Is(err, errNoClient) {
		return asking{}, domain.Refuse(domain.Invalid, "the application is not known here, or the document about it cannot be used; connect it anew")
	}
	if err != nil {
		return asking{}, err
	}
	a := asking{client: client, redirect: params.Get("redirect_uri")}
	var matches bool
	if a.registered, matches = matchRedirect(client.redirects, a.redirect); !matches {
		return asking{}, domain.Refuse(domain.Invalid, "the application wants the answer sent to an address that is not its own, as far as is known here")
	}
	if len(params["state"]) == 1 {
		a.state = &params["state"][0]
	}
	return a, nil
}

// begin checks the rest of the request, keeps it, and returns the consent page.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, a asking, params url.Values) (location string, err error) {
	if f := checkAuthorize(params); f != nil {
		return "", f
	}
	var found bool
	if a.resource, found, err = s.resource(r.Context(), params.Get("resource")); err != nil {
		return "", err
	}
	if !found {
		return "", bad(invalidTarget, "resource is not the URL of a resource of this server")
	}
	if slices.Contains(strings.Fields(params.Get("prompt")), "none") {
		return "", s.silently(r)
	}
	a.asked, a.challenge = askedScopes(params.Get("scope")), params.Get("code_challenge")
	return s.keepRequest(w, r, a)
}

// checkAuthorize checks the parameters that need nothing else to be checked.
func checkAuthorize(params url.Values) *fault {
	for name, values := range params {
		switch {
		case len(values) > 1 && name == "resource":
			return bad(invalidTarget, "a request is for one resource")
		case len(values) > 1:
			return bad(invalidRequest, "a parameter is sent twice")
		}
	}
	switch {
	case params.Has("request"):
		return bad("request_not_supported", "send the parameters by themselves")
	case params.Has("request_uri"):
		return bad("request_uri_not_supported", "send the parameters by themselves")
	case params.Get("response_type") == "":
		return bad(invalidRequest, "response_type is missing")
	case params.Get("response_type") != "code":
		return bad("unsupported_response_type", "the one response_type is code")
	case params.Has("response_mode") && params.Get("response_mode") != "query":
		return bad(invalidRequest, "the one response_mode is query")
	case params.Get("code_challenge_method") != "S256":
		return bad(invalidRequest, "code_challenge_method must be S256")
	case !pkceChallenge.MatchString(params.Get("code_challenge")):
		return bad(invalidRequest, "code_challenge must be 43 characters of base64url")
	}
	return nil
}

// silently answers a client that wants no page to be shown. Consent is always
// asked for, so there is nothing to be had this way.
func (s *Server) silently(r *http.Request) error {
	id, _, err := s.Session(r)
	switch {
	case err != nil:
		return fmt.Errorf("look for a session: %w", err)
	case id == "":
		return bad("login_required", "the operator has to sign in")
	}
	return bad("consent_required", "the operator has to consent")
}

// errorAt returns the redirect that tells the client of a fault (RFC 6749
// §4.1.2.1, RFC 9207 §2).
func (s *Server) errorAt(a asking, f *fault) (string, error) {
	return s.answer(a.redirect, a.state, url.Values{"error": {f.code}, "error_description": {f.description}})
}

// answer returns the redirect to a client with the members every answer has.
func (s *Server) answer(redirect string, state *string, answer url.Values) (string, error) {
	answer.Set("iss", s.Issuer)
	if state != nil {
		answer.Set("state", *state)
	}
	return answerAt(redirect, answer)
}
