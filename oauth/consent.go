package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"sidequest/domain"
	"sidequest/eventstore"
)

// CodeLife is how long a code can be redeemed.
const CodeLife = time.Minute

// MaxGrants is how many live grants one agent has at most, and how many
// connections of one operator wait for an agent.
const MaxGrants = 20

// A Decision is what an operator allows.
type Decision struct {
	Operator string
	AgentKey domain.AgentKey // "" to set up a new agent
	Scopes   []string        // full names; what was not asked for is left out

	// Settle does what else was decided, once there is the grant and before its
	// client hears of it; nil for nothing. If it fails, the decision can be
	// repeated, and then it may do again what it did.
	Settle func(ctx context.Context, grantID string) error
}

// Allow grants what a request asks for, as far as the decision goes, and returns
// where to send the browser. If the operator has let this client act for this
// agent before, in the same place, that grant is widened; else it is a new one.
// The tokens that come of it allow no more than this request asked for, even if
// the grant does. The same decision may be repeated until it was answered. It
// refuses like [Server.Pending], and with forbidden a session that was not shown
// the request and an operator to whom the resource is closed.
func (s *Server) Allow(ctx context.Context, r *http.Request, id string, d Decision) (location, grantID string, err error) {
	p, err := s.open(ctx, r, id)
	if err == nil {
		err = s.Grants.Admitted(ctx, p.Resource, d.Operator)
	}
	if err != nil {
		return "", "", err
	}
	p, err = s.decided(ctx, r, id, d.Operator, fmt.Sprintf("allow %q %q", d.AgentKey, d.Scopes))
	if err != nil {
		return "", "", err
	}
	grantID, most, err := s.grant(ctx, p, d)
	if err != nil {
		return "", "", err
	}
	if d.Settle != nil {
		if err := d.Settle(ctx, grantID); err != nil {
			return "", "", err
		}
	}
	code := "ac_" + newSecret()
	if err := s.keepCode(ctx, p, grantID, most, code); err != nil {
		return "", "", err
	}
	s.Log.InfoContext(ctx, "authorization allowed", "request", id, "client", p.Client.ID, "grant", grantID, "operator", d.Operator)
	location, err = s.answer(p.RedirectURI, p.state, url.Values{"code": {code}})
	return location, grantID, err
}

// Deny tells the client that its request was denied, and returns where to send
// the browser. It refuses like [Server.Allow].
func (s *Server) Deny(ctx context.Context, r *http.Request, id string) (location string, err error) {
	_, operator, err := s.signedIn(r)
	if err != nil {
		return "", err
	}
	p, err := s.decided(ctx, r, id, operator, "deny")
	if err != nil {
		return "", err
	}
	tag, err := s.DB.Exec(ctx, `
		UPDATE oauth.requests
		SET ended_at = now()
		WHERE request_id = $1 AND ended_at IS NULL`, id)
	if err != nil {
		return "", fmt.Errorf("end an authorization request: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return "", errAnswered()
	}
	s.Log.InfoContext(ctx, "authorization denied", "request", id, "client", p.Client.ID, "operator", operator)
	return s.answer(p.RedirectURI, p.state, url.Values{"error": {"access_denied"}, "error_description": {"the operator denied the request"}})
}

// decided notes what was decided about a request. One decision counts: another
// one that comes later, or at the same time in another tab, is refused.
func (s *Server) decided(ctx context.Context, r *http.Request, id, operator, decision string) (Pending, error) {
	p, err := s.open(ctx, r, id)
	if err != nil {
		return Pending{}, err
	}
	session, who, err := s.signedIn(r)
	if err != nil {
		return Pending{}, err
	}
	if who != operator || !bytes.Equal(session, p.session) {
		return Pending{}, domain.Refuse(domain.Forbidden, "someone else is signed in by now; open the request again")
	}
	tag, err := s.DB.Exec(ctx, `
		UPDATE oauth.requests
		SET decision = $2
		WHERE request_id = $1 AND ended_at IS NULL AND coalesce(decision, $2) = $2`, id, hashOf(decision))
	if err != nil {
		return Pending{}, fmt.Errorf("note a decision: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return Pending{}, errAnswered()
	}
	return p, nil
}

// grant widens the grant there is, or opens one, and returns its id and the most
// that the tokens of this request may allow. Both have an operation key made of the
// request, so a repeat has no second effect.
func (s *Server) grant(ctx context.Context, p Pending, d Decision) (id string, most []string, err error) {
	scopes := allowed(p.Asked, d)
	live, err := s.Grants.OfOperator(ctx, d.Operator)
	if err != nil {
		return "", nil, err
	}
	ofAgent := 0
	for _, g := range live {
		if g.AgentKey != d.AgentKey {
			continue
		}
		if ofAgent++; !p.fits(g) {
			continue
		}
		cmd := domain.WidenGrant{GrantID: g.ID, Scopes: scopes, Asked: p.Asked}
		_, err := carryOut(ctx, s.Store, domain.AgentKey(d.Operator), "widen-"+p.ID, "widen_grant", cmd)
		return g.ID, mostOf(p.Asked, scopes, g.Scopes), err
	}
	if ofAgent >= MaxGrants {
		return "", nil, domain.Refuse(domain.Conflict, "there are %d connections of this kind already; end one of them on the page of your connections first", ofAgent)
	}
	opened, err := carryOut(ctx, s.Store, domain.AgentKey(d.Operator), "open-"+p.ID, "open_grant", domain.OpenGrant{
		AgentKey: d.AgentKey, ClientID: p.Client.ID, ClientName: p.Client.Name, RedirectURI: p.registered,
		Operator: d.Operator, Asked: p.Asked, Scopes: scopes, Resource: p.Resource,
	})
	return opened.GrantID, p.Asked, err
}

// fits says whether a grant of the agent is the one that the request is about. A
// connection that has proposed its one agent is no use to somebody who wants to set
// one up, whatever became of that.
func (p Pending) fits(g LiveGrant) bool {
	return g.ClientID == p.Client.ID && g.Resource == p.Resource && g.RedirectURI == p.registered && g.ExpiresAt == nil &&
		(g.AgentKey != "" || g.Proposed == "")
}

// mostOf returns what the tokens of a request may ever allow: what it asked for, so
// that what the operator allows later comes with a refresh. What they left out
// now, though the grant has it already, is not for this request.
func mostOf(asked, scopes, before []string) []string {
	most := slices.DeleteFunc(slices.Clone(asked), func(scope string) bool {
		return slices.Contains(before, scope) && !domain.ScopesAllow(scopes, scope)
	})
	if len(most) == 0 {
		return scopes
	}
	return most
}

// allowed returns the scopes of a decision: nothing that was not asked for, and
// something in any case. Without an agent there is only its setup.
func allowed(asked []string, d Decision) []string {
	if d.AgentKey == "" {
		return []string{domain.ScopeSetup}
	}
	scopes := slices.DeleteFunc(knownScopes(d.Scopes), func(scope string) bool {
		return scope == domain.ScopeSetup || !domain.ScopesAllow(asked, scope)
	})
	switch {
	case len(scopes) > 0:
		return scopes
	case domain.ScopesAllow(asked, domain.ScopeRead):
		return []string{domain.ScopeRead}
	}
	return []string{domain.ScopeSetup}
}

// keepCode ends a request with a code, if it has not ended.
func (s *Server) keepCode(ctx context.Context, p Pending, grantID string, most []string, code string) error {
	tag, err := s.DB.Exec(ctx, `
		WITH ended AS (
		  UPDATE oauth.requests
		  SET ended_at = now()
		  WHERE request_id = $1 AND ended_at IS NULL
		  RETURNING client_id, redirect_uri, challenge)
		INSERT INTO oauth.codes (code_hash, grant_id, client_id, redirect_uri, challenge, asked, expires_at)
		SELECT $2, $3, client_id, redirect_uri, challenge, $5, now() + $4
		FROM ended`, p.ID, hashOf(code), grantID, CodeLife, most)
	if err != nil {
		return fmt.Errorf("keep an authorization code: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return errAnswered()
	}
	return nil
}

// carryOut carries out a command about a grant and returns its answer.
func carryOut[R any](ctx context.Context, store *eventstore.Store, owner domain.AgentKey, key, tool string, cmd domain.Command[R]) (answer R, err error) {
	args, err := json.Marshal(cmd)
	if err != nil {
		return answer, fmt.Errorf("encode %s: %w", tool, err)
	}
	hash, err := eventstore.HashArgs(tool, args)
	if err != nil {
		return answer, err
	}
	op := eventstore.Operation{Owner: owner, Key: key, Tool: tool, ArgsHash: hash, At: time.Now()}
	receipt, err := eventstore.Execute(ctx, store, op, cmd)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(receipt.Result, &answer); err != nil {
		return answer, fmt.Errorf("read the answer of %s: %w", tool, err)
	}
	return answer, nil
}
