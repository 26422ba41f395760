package main

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sidequest/domain"
	"sidequest/mcp"
	"sidequest/projections"
)

// authenticate says who sends a request: the bearer token names a grant, and the
// grant an agent and what it may do right now. It asks no database.
func (p *process) authenticate(r *http.Request) (mcp.Caller, error) {
	bearer, err := bearerToken(r)
	if err != nil {
		return mcp.Caller{}, err
	}
	board := boardOf(r.URL.Path)
	resource := mcp.BoardResource(p.cfg.PublicURL, board)
	who, err := p.verifier.Verify(r.Context(), bearer, resource)
	if err != nil {
		return mcp.Caller{}, err
	}
	p.uses.Note(who.GrantID, time.Now())
	return mcp.Caller{
		AgentKey: who.AgentKey,
		GrantID:  who.GrantID,
		Operator: who.Operator,
		Asked:    who.Asked,
		Proposed: who.Proposed,
		ClientID: who.ClientID,
		Scopes:   who.Scopes,
		Roles:    func(ctx context.Context) ([]string, error) { return p.roles(ctx, who.AgentKey) },
		Board:    board,
		IP:       p.clientIP(r),
		Resource: resource,
	}, nil
}

// bearerToken returns the token of a request (RFC 6750 §2.1). Tokens are taken
// from the header alone, and from one header.
func bearerToken(r *http.Request) (string, error) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", domain.Refuse(domain.Unauthenticated, "send one access token as: Authorization: Bearer TOKEN")
	}
	scheme, token, found := strings.Cut(values[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return "", domain.Refuse(domain.Unauthenticated, "send the access token as: Authorization: Bearer TOKEN")
	}
	return strings.TrimSpace(token), nil
}

// roles returns what the agent behind a live grant may start. One that was
// registered a moment ago has none until the view shows it.
func (p *process) roles(ctx context.Context, key domain.AgentKey) ([]string, error) {
	a, _, err := projections.GetAgent(ctx, p.pool, key)
	return a.Roles, err
}

// clientIP returns the address that writes are counted by: the peer's, or where
// the peer is a trusted proxy, the last one in front of trusted proxies.
func (p *process) clientIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		next, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil || !p.trusted(host) {
			break
		}
		host = next.Unmap().String()
	}
	return host
}

func (p *process) trusted(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(p.cfg.Proxies, func(n netip.Prefix) bool { return n.Contains(addr.Unmap()) })
}
