package oauth

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	maxRedirects = 10   // of one client
	maxRedirect  = 2048 // bytes
)

// cursorRedirect is the one redirect URI of a scheme of its own that is served:
// nothing else can register it in practice, and the editor that owns the scheme
// has no other way back.
const cursorRedirect = "cursor://anysphere.cursor-mcp/oauth/callback"

// A redirectUse says what may be done with a redirect URI.
type redirectUse int

const (
	redirectRefused redirectUse = iota // its registration fails
	redirectStored                     // it may be registered, but nobody is sent there
	redirectUsable
)

// useOfRedirect judges a redirect URI by itself (RFC 6749 §3.1.2, RFC 8252 §7).
// Clients register in one request all URIs that their versions on any system may
// use, so one that is merely of no use here must not fail the others.
func useOfRedirect(raw string) redirectUse {
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > maxRedirect || !u.IsAbs() || u.Opaque != "" && dangerousScheme(u.Scheme):
		return redirectRefused
	case dangerousScheme(u.Scheme) || strings.Contains(raw, "#") || u.User != nil || !printable(raw):
		return redirectRefused
	case raw == cursorRedirect:
		return redirectUsable
	case answersItself(u):
		return redirectStored
	case u.Scheme == "https" && u.Hostname() != "" && u.Opaque == "":
		return redirectUsable
	}
	if _, loopback := splitLoopback(raw); loopback {
		return redirectUsable
	}
	return redirectStored
}

// dangerousScheme says whether a browser would act on a URI of this scheme
// instead of going somewhere.
func dangerousScheme(scheme string) bool {
	return slices.Contains([]string{"javascript", "data", "file", "vbscript", "blob", "about", "filesystem", "view-source"}, strings.ToLower(scheme))
}

// answersItself says whether the query of a redirect URI has parameters of ours.
// The client could not tell which of the two is our answer.
func answersItself(u *url.URL) bool {
	query, err := url.ParseQuery(u.RawQuery)
	return err != nil || slices.ContainsFunc([]string{"code", "state", "iss", "error", "error_description"}, query.Has)
}

// printable says whether a text is made of visible ASCII characters alone.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' })
}

// A loopback is a redirect URI to the machine of its user, taken apart. Its host
// is compared as text: a listener on 127.0.0.1 is not one on localhost.
type loopback struct{ host, port, rest string }

// splitLoopback takes a loopback redirect URI apart, as it is spelled.
func splitLoopback(raw string) (loopback, bool) {
	after, found := strings.CutPrefix(raw, "http://")
	if !found {
		return loopback{}, false
	}
	end := strings.IndexAny(after, "/?#")
	if end < 0 {
		end = len(after)
	}
	l := loopback{host: after[:end], rest: after[end:]}
	if at := strings.LastIndexByte(l.host, ':'); at >= 0 && !strings.HasSuffix(l.host, "]") {
		l.host, l.port = l.host[:at], l.host[at+1:]
		if n, err := strconv.ParseUint(l.port, 10, 16); err != nil || n == 0 || l.port[0] == '0' {
			return loopback{}, false
		}
	}
	if l.host == "localhost" || l.host == "[::1]" {
		return l, true
	}
	addr, err := netip.ParseAddr(l.host)
	return l, err == nil && addr.Is4() && addr.IsLoopback()
}

// matchRedirect returns the registered URI that an asked one is: the same text,
// or on loopback the same but for the port, which a native client cannot choose
// in advance (RFC 8252 §7.3).
func matchRedirect(registered []string, asked string) (string, bool) {
	if useOfRedirect(asked) != redirectUsable {
		return "", false
	}
	if slices.Contains(registered, asked) {
		return asked, true
	}
	want, ok := splitLoopback(asked)
	if !ok {
		return "", false
	}
	for _, r := range registered {
		have, ok := splitLoopback(r)
		if ok && have.host == want.host && have.rest == want.rest {
			return r, true
		}
	}
	return "", false
}

// answerAt returns a redirect URI with the parameters of an answer added to its
// query.
func answerAt(redirect string, answer url.Values) (string, error) {
	u, err := url.Parse(redirect)
	if err != nil {
		return "", err
	}
	query := answer.Encode()
	if u.RawQuery != "" {
		query = u.RawQuery + "&" + query
	}
	u.RawQuery = query
	return u.String(), nil
}
