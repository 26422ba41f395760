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

// common returns the scopes that both lists allow, some by implication.
func common(a, b []string) []string {
	both := func(scope string) bool { return domain.ScopesAllow(a, scope) && domain.ScopesAllow(b, scope) }
	named := slices.DeleteFunc(knownScopes(slices.Concat(a, b)), func(scope string) bool { return !both(scope) })
	if len(named) == 0 && both(domain.ScopeRead) {
		return []string{domain.ScopeRead}
	}
	return named
}

// capped returns what tokens allow under a grant: what it has of that for which
// their own request asked. Installations of one application share a grant, and
// what one of them was let do is not thereby another's. Where that leaves nothing,
// the connection is one that was set up and asks for more when it needs it. Without
// asked the grant alone counts.
func capped(asked, granted []string) []string {
	if len(asked) == 0 {
		return slices.Clone(granted)
	}
	if scopes := common(asked, granted); len(scopes) > 0 {
		return scopes
	}
	return []string{domain.ScopeSetup}
}
