package main

import (
	"context"
	"net/http"
	"strings"

	"sidequest/domain"
	"sidequest/oauth"
	"sidequest/projections"
)

// newAccess returns the authorization server, without the page it shows people.
func (p *process) newAccess(ctx context.Context, keys *oauth.Keys) (*oauth.Server, error) {
	refresh, err := oauth.LoadRefreshKey(ctx, p.vault)
	if err != nil {
		return nil, err
	}
	return &oauth.Server{
		Issuer: p.cfg.PublicURL, DB: p.pool, Store: p.store, Keys: keys, Grants: p.grants, Refresh: refresh, Log: p.log,
		Exists: p.resourceExists, Session: p.signedIn, Describe: p.describe, ClientIP: p.clientIP,
		Outside: p.cfg.Outside,
	}, nil
}

// resourceExists finds the board whose endpoint is at a canonical path.
func (p *process) resourceExists(ctx context.Context, path string) (name string, found bool, err error) {
	slug := mainBoard
	if path != oauth.MainPath {
		slug = strings.TrimSuffix(strings.TrimPrefix(path, "/b/"), "/mcp")
		if slug == mainBoard {
			return "", false, nil // it has one name
		}
	}
	board, err := projections.GetBoard(ctx, projections.Reader{DB: p.pool, Board: slug})
	if domain.CodeOf(err) == string(domain.NotFound) {
		return "", false, nil
	}
	return board.Name, err == nil, err
}

// describe returns what access tokens say about an agent.
func (p *process) describe(ctx context.Context, key domain.AgentKey) (domain.AgentID, []domain.Role, error) {
	agent, _, err := projections.GetAgent(ctx, p.pool, key)
	roles := make([]domain.Role, len(agent.Roles))
	for i, role := range agent.Roles {
		roles[i] = domain.Role(role)
	}
	return agent.AgentID, roles, err
}

// signedIn says who is signed in at a browser.
func (p *process) signedIn(r *http.Request) (id, operator string, err error) {
	session, signedIn, err := p.signIn.Current(r)
	if err != nil || !signedIn {
		return "", "", err
	}
	return session.ID, session.Operator.ID, nil
}
