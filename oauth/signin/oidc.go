package signin

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/jackc/pgx/v5"
	"golang.org/x/oauth2"

	"sidequest/domain"
)

// An attempt is a sign-in at a provider, under way in one browser.
type attempt struct {
	provider    string
	returnTo    string
	linkSession string // of the operator who adds an identity, "" for a sign-in

	state, browser string // secrets, of which the database has hashes
}

// The nonce ties the ID token to this attempt, the verifier the code (RFC 7636).
// Both need the cookie, which the provider and the address bar never show.
func (a attempt) nonce() string    { return derive(a.browser, "nonce "+a.state) }
func (a attempt) verifier() string { return derive(a.browser, "verifier "+a.state) }

// Begin returns where the provider signs the operator in. A session that is given
// gets the identity added to its operator.
func (s *Service) Begin(w http.ResponseWriter, r *http.Request, providerID, returnTo string, link *Session) (location string, err error) {
	p, err := s.provider(providerID)
	if err != nil {
		return "", err
	}
	if err := s.brake(r); err != nil {
		return "", err
	}
	found, err := p.discover(r.Context())
	if err != nil {
		s.cfg.Log.WarnContext(r.Context(), "a sign-in provider cannot be reached", "provider", p.ID, "error", err)
		return "", domain.Refuse(domain.Unavailable, "This way to sign in does not answer at the moment. Try again soon, or use another one.")
	}
	a := attempt{provider: p.ID, returnTo: Destination(returnTo), state: newSecret(), browser: browser(w, r)}
	if link != nil {
		a.linkSession = link.ID
	}
	_, err = s.cfg.DB.Exec(r.Context(), `
		INSERT INTO signin.attempts (state_hash, browser_hash, provider, return_to, link_session, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6)`,
		hash(a.state), hash(a.browser), a.provider, a.returnTo, a.linkSession, s.cfg.Now().Add(attemptLife))
	if err != nil {
		return "", fmt.Errorf("note a sign-in: %w", err)
	}
	return found.config.AuthCodeURL(a.state, oidc.Nonce(a.nonce()), oauth2.S256ChallengeOption(a.verifier())), nil
}

// Finish takes the answer of a provider and begins a session, or adds the identity.
// It returns where to go.
func (s *Service) Finish(w http.ResponseWriter, r *http.Request, providerID string) (returnTo string, err error) {
	p, err := s.provider(providerID)
	if err != nil {
		return "", err
	}
	answer, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(answer["state"]) != 1 || len(answer["code"]) > 1 || len(answer["iss"]) > 1 || len(answer["error"]) > 1 {
		return "", domain.Refuse(domain.Invalid, "The answer of the sign-in provider cannot be read. Begin again.")
	}
	a, err := s.take(r, answer.Get("state"))
	if err != nil {
		return "", err
	}
	if a.provider != p.ID {
		return "", notThisSignIn()
	}
	who, err := s.redeem(r.Context(), p, a, answer)
	if err != nil {
		return "", err
	}
	return a.returnTo, s.admit(w, r, who, a.linkSession)
}

// take returns the attempt with a state and forgets it, if it is of this browser.
func (s *Service) take(r *http.Request, state string) (attempt, error) {
	a := attempt{state: state, browser: cookie(r, browserCookie)}
	err := s.cfg.DB.QueryRow(r.Context(), `
		DELETE FROM signin.attempts
		WHERE state_hash = $1
		  AND browser_hash = $2
		  AND expires_at > $3
		RETURNING provider, return_to, link_session`,
		hash(a.state), hash(a.browser), s.cfg.Now(),
	).Scan(&a.provider, &a.returnTo, &a.linkSession)
	if errors.Is(err, pgx.ErrNoRows) {
		return attempt{}, notThisSignIn()
	}
	if err != nil {
		return attempt{}, fmt.Errorf("find the sign-in: %w", err)
	}
	return a, nil
}

func notThisSignIn() error {
	return domain.Refuse(domain.Forbidden, "This sign-in was begun in another browser, has been used, or took longer than ten minutes. Begin again.")
}

// redeem exchanges the code for an ID token and checks what go-oidc leaves to its
// caller: the issuer of the answer, the nonce and the authorized party.
func (s *Service) redeem(ctx context.Context, p *provider, a attempt, answer url.Values) (identity, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return identity{}, err
	}
	refused := domain.Refuse(domain.Forbidden, "%s did not sign you in. Begin again.", p.Name)
	if iss, sent := answer["iss"]; found.sendsIss && !sent || sent && iss[0] != p.Issuer {
		return identity{}, refused
	}
	if answer.Has("error") || answer.Get("code") == "" {
		return identity{}, refused
	}
	token, err := found.config.Exchange(p.context(ctx), answer.Get("code"), oauth2.VerifierOption(a.verifier()))
	if err != nil {
		return identity{}, s.turnedDown(ctx, p, err, refused)
	}
	raw, _ := token.Extra("id_token").(string)
	verified, err := found.verifier.Verify(p.context(ctx), raw)
	if err != nil {
		return identity{}, s.turnedDown(ctx, p, err, refused)
	}
	who, err := p.identify(verified, a, refused)
	if err == nil && who.name == "" {
		err = s.introduce(ctx, p, found, token, &who)
	}
	return who, err
}

// introduce asks a provider that keeps names out of its ID tokens, as the standard
// would have it, for what it calls the person (OpenID Connect Core §5.3). Who it is
// is known already; an answer about somebody else is refused.
func (s *Service) introduce(ctx context.Context, p *provider, found *discovered, token *oauth2.Token, who *identity) error {
	var c claims
	if found.provider.UserInfoEndpoint() != "" {
		info, err := found.provider.UserInfo(p.context(ctx), oauth2.StaticTokenSource(token))
		switch {
		case err != nil:
			s.cfg.Log.WarnContext(ctx, "a sign-in provider does not say what it calls a person", "provider", p.ID)
		case info.Subject != who.subject:
			return domain.Refuse(domain.Forbidden, "%s did not sign you in. Begin again.", p.Name)
		default:
			if err := info.Claims(&c); err != nil {
				return domain.Refuse(domain.Forbidden, "%s did not sign you in. Begin again.", p.Name)
			}
		}
	}
	c.introduce(who)
	who.name = firstName(who.name, "Operator")
	return nil
}

// turnedDown logs why, without what the provider's answer held, and tells the
// person no more than that it did not work.
func (s *Service) turnedDown(ctx context.Context, p *provider, err error, refused *domain.Error) error {
	reason := "its ID token is not acceptable"
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		reason = "its token endpoint refused: " + e.ErrorCode
	}
	s.cfg.Log.WarnContext(ctx, "a sign-in failed", "provider", p.ID, "reason", reason)
	return refused
}

// claims are what an ID token says beside what go-oidc reads.
type claims struct {
	AuthorizedParty string `json:"azp"`
	Name            string `json:"name"`
	Username        string `json:"preferred_username"`
	Email           string `json:"email"`
	EmailVerified   any    `json:"email_verified"` // some providers send a string
}

func (p *provider) identify(token *oidc.IDToken, a attempt, refused *domain.Error) (identity, error) {
	var c claims
	if err := token.Claims(&c); err != nil {
		return identity{}, refused
	}
	wrongParty := c.AuthorizedParty != "" && c.AuthorizedParty != p.ClientID ||
		c.AuthorizedParty == "" && len(token.Audience) > 1
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(a.nonce())) != 1 || wrongParty || token.Subject == "" {
		return identity{}, refused
	}
	who := identity{issuer: token.Issuer, subject: token.Subject, provider: p.Name}
	c.introduce(&who)
	return who, nil
}

// introduce takes over what somebody is called.
func (c claims) introduce(who *identity) {
	if c.EmailVerified == true || c.EmailVerified == "true" {
		who.email = tidy(c.Email)
	}
	who.name = firstName(c.Name, c.Username, who.email)
}
