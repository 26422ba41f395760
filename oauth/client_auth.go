package oauth

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4/jwt"
)

// maxForm bounds the body of a request to an endpoint that takes a form, in bytes.
const maxForm = 32 << 10

// readForm reads a form from the body alone: what is sent in the query ends up in
// logs.
func readForm(w http.ResponseWriter, r *http.Request, most int64) (url.Values, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, bad(invalidRequest, "send the parameters as application/x-www-form-urlencoded")
	}
	if r.URL.RawQuery != "" {
		return nil, bad(invalidRequest, "send the parameters in the body, none in the URL")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		return nil, bad(invalidRequest, "the body did not arrive whole, or is too large")
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || !legible(form) {
		return nil, bad(invalidRequest, "the body does not parse")
	}
	return form, nil
}

// legible says whether parameters are text, which a zero byte never is.
func legible(params url.Values) bool {
	for name, values := range params {
		for _, text := range append(values, name) {
			if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				return false
			}
		}
	}
	return true
}

// checkOnce refuses parameters that are sent twice (RFC 6749 §3.2).
func checkOnce(form url.Values) error {
	for name, values := range form {
		switch {
		case len(values) > 1 && name == "resource":
			return bad(invalidTarget, "a token is for one resource")
		case len(values) > 1:
			return bad(invalidRequest, "a parameter is sent twice")
		}
	}
	return nil
}

// credentials are what a request says about its client.
type credentials struct {
	id, secret, assertion string
	basic                 bool
}

// authenticate says which client sends a request (RFC 6749 §2.3, RFC 7523 §2.2).
func (s *Server) authenticate(ctx context.Context, r *http.Request, form url.Values) (registration, error) {
	c, err := readCredentials(r, form)
	if err != nil {
		return registration{}, err
	}
	client, err := s.client(ctx, c.id, atToken)
	if err != nil && !errors.Is(err, errNoClient) {
		return registration{}, err
	}
	// An unknown client takes the same path as one with a wrong secret.
	known := err == nil
	right := subtle.ConstantTimeCompare(hashOf(c.secret), client.secretHash) == 1
	switch {
	case !known:
	case client.auth == authNone && c.secret == "" && c.assertion == "":
		return client, nil
	case (client.auth == authBasic || client.auth == authPost) && c.assertion == "" && right:
		return client, nil
	case client.auth == authKey && c.secret == "" && c.assertion != "":
		err := s.checkAssertion(ctx, client, c.assertion)
		if err == nil || !errors.Is(err, errAssertion) {
			return client, err
		}
	}
	return registration{}, unknownClient(c.basic)
}

func unknownClient(basic bool) *fault {
	f := &fault{status: http.StatusUnauthorized, code: invalidClient, description: "the client is not known, or has not proved who it is; register again"}
	if basic {
		f.challenge = `Basic realm="sidequest", charset="UTF-8"`
	}
	return f
}

func readCredentials(r *http.Request, form url.Values) (credentials, error) {
	c := credentials{id: form.Get("client_id"), secret: form.Get("client_secret"), assertion: form.Get("client_assertion")}
	if (c.assertion != "") != form.Has("client_assertion_type") || c.assertion != "" && form.Get("client_assertion_type") != assertionType {
		return c, bad(invalidRequest, "client_assertion comes with the client_assertion_type of a JWT")
	}
	if len(r.Header.Values("Authorization")) > 0 {
		err := c.readBasic(r)
		return c, err
	}
	if c.id == "" && c.assertion != "" {
		c.id = subjectOf(c.assertion)
	}
	if c.id == "" {
		return c, bad(invalidRequest, "client_id is missing")
	}
	return c, nil
}

// readBasic reads the header. Its parts are encoded as in a form (RFC 6749
// §2.3.1).
func (c *credentials) readBasic(r *http.Request) error {
	c.basic = true
	user, password, ok := r.BasicAuth()
	id, err1 := url.QueryUnescape(user)
	secret, err2 := url.QueryUnescape(password)
	switch {
	case !ok || len(r.Header.Values("Authorization")) > 1 || err1 != nil || err2 != nil:
		return unknownClient(true)
	case c.secret != "" || c.assertion != "" || c.id != "" && c.id != id:
		return bad(invalidRequest, "a client authenticates in one way")
	}
	c.id, c.secret = id, secret
	return nil
}

// subjectOf returns whom an assertion claims to be by. It is checked afterwards.
func subjectOf(assertion string) string {
	if len(assertion) > maxAssertion {
		return ""
	}
	token, err := jwt.ParseSigned(assertion, assertionAlgorithms)
	if err != nil {
		return ""
	}
	var claims jwt.Claims
	if token.UnsafeClaimsWithoutVerification(&claims) != nil {
		return ""
	}
	return strings.TrimSpace(claims.Subject)
}
