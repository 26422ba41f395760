package domain

import "slices"

// The scopes: what a connection was allowed to do at consent.
const (
	ScopeSetup = "sidequest:setup" // create one agent before any exists; stands alone
	ScopeRead  = "sidequest:read"  // see
	ScopeHire  = "sidequest:hire"  // ask for work; implies read
	ScopeWork  = "sidequest:work"  // offer work; implies read
)

// Scopes lists every scope there is.
func Scopes() []string { return []string{ScopeSetup, ScopeRead, ScopeHire, ScopeWork} }

// ScopesAllow says whether granted scopes allow what needs the scope need: by
// holding it, or by holding one that implies it.
func ScopesAllow(granted []string, need string) bool {
	if slices.Contains(granted, need) {
		return true
	}
	return need == ScopeRead &&
		(slices.Contains(granted, ScopeHire) || slices.Contains(granted, ScopeWork))
}
