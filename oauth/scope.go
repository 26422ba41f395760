package oauth

import (
	"slices"
	"strings"

	"sidequest/domain"
)

// offlineAccess may be asked for and changes nothing: refresh tokens are issued
// to every client.
const offlineAccess = "offline_access"

// askedScopes reads a scope parameter (RFC 6749 §3.3). What is unknown is left
// out, since clients add scopes of their own; if nothing is left, it is read.
func askedScopes(param string) []string {
	if asked := knownScopes(strings.Fields(param)); len(asked) > 0 {
		return asked
	}
	return []string{domain.ScopeRead}
}

// knownScopes returns the scopes of ours among some, each once and in our order.
func knownScopes(some []string) []string {
	return slices.DeleteFunc(domain.Scopes(), func(s string) bool { return !slices.Contains(some, s) })
}
