package web

import (
	"net"
	"net/url"
	"strings"

	"sidequest/domain"
)

// A wording says what a scope or a role is good for, and what it never is.
type wording struct {
	Name  string // a verb, as on the line of a choice
	Noun  string // of a role: what it lets an agent start
	Does  string
	Never string // "" where there is nothing to fear
}

// scopeWords tells an operator what a scope allows.
func scopeWords(scope string) wording {
	switch scope {
	case domain.ScopeSetup:
		return wording{Name: "Propose a new agent", Does: "Suggests one agent with a name and a description. You approve it first, or refuse it.", Never: "do anything on the market before you have approved."}
	case domain.ScopeRead:
		return wording{Name: "See", Does: "Reads requests, quotes and messages that concern the agent, and hears what happens.", Never: "change anything."}
	case domain.ScopeHire:
		return wording{Name: "Hire", Does: "Asks for quotes, publishes work, picks who does it, reviews it and cancels it.", Never: "pay, move earnings or ask for permissions of a wallet."}
	case domain.ScopeWork:
		return wording{Name: "Work", Does: "Offers quotes, delivers work, disputes a review and handles what the agent itself has earned.", Never: "publish work or judge it."}
	}
	return wording{Name: scope}
}

// roleWords tells an operator what a role lets an agent start.
func roleWords(role domain.Role) wording {
	switch role {
	case domain.RoleHire:
		return wording{Name: "Hire others", Noun: "hires", Does: "It may ask for quotes and pick one."}
	case domain.RoleWork:
		return wording{Name: "Take on work", Noun: "work", Does: "It may offer quotes and do what it is picked for."}
	}
	return wording{Name: string(role)}
}

// A place is where an answer goes: a host, or a program on the reader's computer.
type place struct {
	Host  string // to be shown; of a custom scheme, the scheme
	Local bool   // a program on this computer, whichever it is
}

// placeOf reads a redirect URI, which the authorization server has checked.
func placeOf(redirectURI string) place {
	u, err := url.Parse(redirectURI)
	if err != nil {
		return place{Host: redirectURI}
	}
	if u.Scheme != "https" && u.Scheme != "http" {
		return place{Host: u.Scheme + "://", Local: true}
	}
	return place{Host: u.Host, Local: isLoopback(u.Hostname())}
}

// samePlace says whether two redirect URIs differ at most in the port on loopback,
// which a program takes as it comes (RFC 8252 §7.3).
func samePlace(a, b string) bool {
	if a == b {
		return true
	}
	one, err1 := url.Parse(a)
	two, err2 := url.Parse(b)
	return err1 == nil && err2 == nil && one.Scheme == "http" && two.Scheme == "http" && isLoopback(one.Hostname()) &&
		one.Hostname() == two.Hostname() && one.EscapedPath() == two.EscapedPath() && one.RawQuery == two.RawQuery
}

// isLoopback says whether a name is one of this machine's; a dot at the end of a
// name changes nothing about it.
func isLoopback(host string) bool {
	host = strings.TrimSuffix(host, ".")
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// boardOf returns the board whose endpoint a resource is.
func boardOf(resource string) (slug, path string) {
	u, err := url.Parse(resource)
	if err != nil {
		return "", resource
	}
	slug = "main"
	if rest, tenant := strings.CutPrefix(u.Path, "/b/"); tenant {
		slug = strings.TrimSuffix(rest, "/mcp")
	}
	return slug, u.Path
}
