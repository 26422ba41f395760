package oauth

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sidequest/domain"
)

// A tokenAnswer is what a client gets (RFC 6749 §5.1). The scope is always told:
// it is what the operator allowed, not what was asked for.
type tokenAnswer struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int    `json:"expires_in"` // seconds
	RefreshToken string `json:"refresh_token"`
	Scope        string `json:"scope"`
}

// serveToken gives tokens for a code or a refresh token (RFC 6749 §3.2).
func (s *Server) serveToken(w http.ResponseWriter, r *http.Request) {
	answer, err := s.token(w, r)
	if err != nil {
		s.writeFault(w, r, err)
		return
	}
	w.Header().Set("Pragma", "no-cache")
	s.writeJSON(w, r, http.StatusOK, answer)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) (tokenAnswer, error) {
	form, err := readForm(w, r, maxForm)
	if err == nil {
		err = checkOnce(form)
	}
	if err != nil {
		return tokenAnswer{}, err
	}
	grantType := form.Get("grant_type")
	switch grantType {
	case "authorization_code", "refresh_token":
	case "":
		return tokenAnswer{}, bad(invalidRequest, "grant_type is missing")
	default:
		return tokenAnswer{}, bad("unsupported_grant_type", "grant_type is authorization_code or refresh_token")
	}
	ctx := r.Context()
	client, err := s.authenticate(ctx, r, form)
	if err != nil {
		return tokenAnswer{}, err
	}
	var g issue
	if grantType == "refresh_token" {
		g, err = s.refresh(ctx, client, form)
	} else {
		g, err = s.redeem(ctx, client, form)
	}
	if err != nil {
		return tokenAnswer{}, err
	}
	if err := s.noteUse(ctx, client.ID); err != nil {
		return tokenAnswer{}, err
	}
	answer, err := s.mint(ctx, g)
	if err != nil {
		return tokenAnswer{}, err
	}
	s.Log.InfoContext(ctx, "token issued", "for", grantType, "client", client.ID, "grant", g.grantID, "scope", answer.Scope)
	return answer, nil
}

// An issue is what tokens are made of.
type issue struct {
	grantID string
	grant   domain.Grant // with the scopes of the access token
	asked   []string     // see [capped]
	refresh string
}

func (s *Server) mint(ctx context.Context, g issue) (tokenAnswer, error) {
	t := AccessToken{Issuer: s.Issuer, GrantID: g.grantID, Grant: g.grant, Asked: g.asked, At: time.Now()}
	if g.grant.AgentKey != "" {
		var err error
		if t.AgentID, t.Roles, err = s.Describe(ctx, g.grant.AgentKey); err != nil {
			return tokenAnswer{}, fmt.Errorf("describe an agent: %w", err)
		}
	}
	access, err := s.Keys.Mint(t)
	if err != nil {
		return tokenAnswer{}, err
	}
	return tokenAnswer{
		AccessToken: access, TokenType: "Bearer", ExpiresIn: int(TokenLife.Seconds()),
		RefreshToken: g.refresh, Scope: strings.Join(g.grant.Scopes, " "),
	}, nil
}

// liveFor returns a grant that is live, belongs to the client and is for the
// resource that the form names, if it names one. Everything that is the grant's
// matter is invalid_grant, the one code at which clients begin anew.
func (s *Server) liveFor(ctx context.Context, client registration, grantID string, form url.Values) (domain.Grant, error) {
	grant, err := s.Grants.LiveNow(ctx, grantID)
	switch {
	case err != nil:
		return domain.Grant{}, err
	case grant.ClientID != client.ID:
		return domain.Grant{}, deadGrant()
	}
	if param := form.Get("resource"); param != "" {
		asked, _, err := s.resource(ctx, param)
		if err != nil {
			return domain.Grant{}, err
		}
		if asked.URL != grant.Resource {
			return domain.Grant{}, bad(invalidTarget, "resource is not the one that access was granted to")
		}
	}
	_, found, err := s.resourceAt(ctx, strings.TrimPrefix(grant.Resource, s.Issuer))
	if err == nil && !found {
		err = deadGrant()
	}
	return grant, err
}

// narrowed returns the scopes of an access token: all that it may have, or as
// many of them as are asked for (RFC 6749 §6).
func narrowed(granted []string, form url.Values) ([]string, error) {
	asked := knownScopes(strings.Fields(form.Get("scope")))
	if !slices.Contains(granted, domain.ScopeSetup) {
		// What was asked for to set up an agent ends once there is one.
		asked = slices.DeleteFunc(asked, func(scope string) bool { return scope == domain.ScopeSetup })
	}
	if len(asked) == 0 {
		return granted, nil
	}
	for _, scope := range asked {
		if !domain.ScopesAllow(granted, scope) {
			return nil, bad(invalidScope, "the scope is more than was granted; ask the operator for it")
		}
	}
	return asked, nil
}
