package oauth

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/oklog/ulid/v2"

	"sidequest/domain"
)

// How long an access token lasts.
const (
	TokenLife    = time.Hour      // unless asked otherwise
	MaxTokenLife = 24 * time.Hour // at most
)

// tokenType is the typ header of an access token (RFC 9068, section 2.1). It
// keeps other JWTs, such as ID tokens, from being taken for one.
const tokenType = "at+jwt"

// claims are those of an access token (RFC 9068, section 2.2), with gid for its
// grant. The audience is one string, never a list.
type claims struct {
	Issuer    string           `json:"iss"`
	Subject   string           `json:"sub"`
	Audience  string           `json:"aud"`
	ClientID  string           `json:"client_id"`
	Scope     string           `json:"scope"`
	IssuedAt  *jwt.NumericDate `json:"iat"`
	ExpiresAt *jwt.NumericDate `json:"exp"`
	NotBefore *jwt.NumericDate `json:"nbf,omitempty"` // we write none, but honour one
	ID        string           `json:"jti"`
	GrantID   string           `json:"gid"`
	Asked     []string         `json:"asked,omitempty"` // where there is no agent yet: see [AccessToken]

	// For the eyes of people who look into a token. Nothing reads them: what an
	// agent may do is looked up at every call.
	AgentID domain.AgentID `json:"agent_id,omitempty"`
	Roles   []domain.Role  `json:"roles,omitempty"`
}

// GetIssuer implements [jwt.Claims].
func (c claims) GetIssuer() (string, error) { return c.Issuer, nil }

// GetSubject implements [jwt.Claims].
func (c claims) GetSubject() (string, error) { return c.Subject, nil }

// GetAudience implements [jwt.Claims].
func (c claims) GetAudience() (jwt.ClaimStrings, error) { return jwt.ClaimStrings{c.Audience}, nil }

// GetIssuedAt implements [jwt.Claims].
func (c claims) GetIssuedAt() (*jwt.NumericDate, error) { return c.IssuedAt, nil }

// GetExpirationTime implements [jwt.Claims].
func (c claims) GetExpirationTime() (*jwt.NumericDate, error) { return c.ExpiresAt, nil }

// GetNotBefore implements [jwt.Claims].
func (c claims) GetNotBefore() (*jwt.NumericDate, error) { return c.NotBefore, nil }

// An AccessToken is what a token says.
type AccessToken struct {
	Issuer  string // the origin of the deployment, without a trailing slash
	GrantID string
	Grant   domain.Grant // gives subject, client, audience and scopes
	Asked   []string     // the most it allows once its grant has an agent; nil for what the grant does
	At      time.Time
	Life    time.Duration // 0 for TokenLife; at most MaxTokenLife

	AgentID domain.AgentID // for information only
	Roles   []domain.Role  // for information only
}

// Mint signs an access token with the active key.
func (k *Keys) Mint(t AccessToken) (string, error) {
	if t.Life == 0 {
		t.Life = TokenLife
	}
	if t.Life < time.Second || t.Life > MaxTokenLife {
		return "", fmt.Errorf("mint an access token: it lasts from 1s to %s, not %s", MaxTokenLife, t.Life)
	}
	if t.Issuer == "" || t.GrantID == "" || t.Grant.Resource == "" {
		return "", errors.New("mint an access token: it needs issuer, grant and resource")
	}
	token := jwt.NewWithClaims(jwt.SigningMethodES256, t.claims())
	token.Header["typ"] = tokenType
	active := k.ring.Load().active
	token.Header["kid"] = active.kid
	signed, err := token.SignedString(active.private)
	if err != nil {
		return "", fmt.Errorf("mint an access token: %w", err)
	}
	return signed, nil
}

// setupSubject is the subject of the tokens of a grant that has no agent yet: the
// connection itself.
func setupSubject(grantID string) string { return grantID }

func (t AccessToken) claims() claims {
	subject, asked := string(t.Grant.AgentKey), []string(nil)
	if subject == "" {
		subject, asked = setupSubject(t.GrantID), t.Asked
	}
	return claims{
		Issuer:    t.Issuer,
		Subject:   subject,
		Audience:  t.Grant.Resource,
		ClientID:  t.Grant.ClientID,
		Scope:     strings.Join(t.Grant.Scopes, " "),
		IssuedAt:  jwt.NewNumericDate(t.At),
		ExpiresAt: jwt.NewNumericDate(t.At.Add(t.Life)),
		ID:        ulid.Make().String(),
		GrantID:   t.GrantID,
		Asked:     asked,
		AgentID:   t.AgentID,
		Roles:     t.Roles,
	}
}
