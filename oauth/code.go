package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
)

// redeem gives tokens for a code (RFC 6749 §4.1.3). Its first use spends a code,
// whether it succeeds or not.
func (s *Server) redeem(ctx context.Context, client registration, form url.Values) (issue, error) {
	hash := hashOf(form.Get("code"))
	spent, err := s.spend(ctx, client, hash)
	if err != nil {
		return issue{}, err
	}
	if !spent.inTime || spent.redirect != form.Get("redirect_uri") || !proves(form.Get("code_verifier"), spent.challenge) {
		return issue{}, deadGrant()
	}
	grant, err := s.liveFor(ctx, client, spent.grantID, form)
	if err != nil {
		return issue{}, err
	}
	grant.Scopes = capped(spent.asked, grant.Scopes)
	refresh, err := s.startLine(ctx, spent, hash)
	return issue{grantID: spent.grantID, grant: grant, asked: spent.asked, refresh: refresh}, err
}

type spentCode struct {
	grantID, redirect, challenge string
	asked                        []string // see [capped]
	inTime                       bool
}

// spend takes a code that was not used before. A code that was redeemed and comes
// again may have been stolen, and then so were its tokens (RFC 6749 §4.1.2).
func (s *Server) spend(ctx context.Context, client registration, hash []byte) (spentCode, error) {
	var c spentCode
	err := s.DB.QueryRow(ctx, `
		UPDATE oauth.codes
		SET used_at = now()
		WHERE code_hash = $1 AND client_id = $2 AND used_at IS NULL
		RETURNING grant_id, redirect_uri, challenge, asked, expires_at > now()`, hash, client.ID).Scan(
		&c.grantID, &c.redirect, &c.challenge, &c.asked, &c.inTime)
	if err == nil {
		return c, nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = s.DB.QueryRow(ctx, `
			SELECT grant_id
			FROM oauth.codes
			WHERE code_hash = $1 AND client_id = $2 AND redeemed`, hash, client.ID).Scan(&c.grantID)
		if errors.Is(err, pgx.ErrNoRows) {
			return c, deadGrant()
		}
	}
	if err != nil {
		return c, fmt.Errorf("spend an authorization code: %w", err)
	}
	s.Log.WarnContext(ctx, "an authorization code was used twice", "grant", c.grantID, "client", client.ID)
	if err := s.end(ctx, c.grantID, "an authorization code was used twice"); err != nil {
		return c, err
	}
	return c, deadGrant()
}

// end revokes a grant for its client's sake. This process knows of it at once, the
// others within a second.
func (s *Server) end(ctx context.Context, grantID, reason string) error {
	cmd := domain.RevokeGrant{GrantID: grantID, Reason: reason}
	if _, err := carryOut(ctx, s.Store, domain.System, rand.Text(), "revoke_grant", cmd); err != nil { // twice is no error
		return err
	}
	return s.Grants.look(ctx, time.Now())
}

// proves says whether a verifier is the one of an S256 challenge (RFC 7636 §4.6).
func proves(verifier, challenge string) bool {
	if len(verifier) < 43 || len(verifier) > 128 {
		return false
	}
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}
