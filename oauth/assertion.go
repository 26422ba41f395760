package oauth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/go-json-experiment/json"
)

// assertionType is the one form of client assertion (RFC 7523 §2.2).
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

const (
	maxAssertion     = 8 << 10          // bytes
	maxAssertionLife = 10 * time.Minute // so that those that were used can be remembered
	maxKeys          = 20               // of one client
)

// assertionAlgorithms are those a client may sign with. Whoever has a public key
// could make what a symmetric algorithm accepts, so there is none.
var assertionAlgorithms = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.RS256, jose.PS256, jose.EdDSA}

// A keySource is where the public keys of a client are: in its metadata document,
// or in a document of their own.
type keySource struct {
	set []jose.JSONWebKey
	url string
}

func parseKeySource(m metadata) (keySource, error) {
	if (m.Keys == nil) == (m.KeysURL == "") {
		return keySource{}, errors.New("a client that signs has either jwks or jwks_uri")
	}
	if m.Keys == nil {
		_, err := checkClientURL(m.KeysURL)
		return keySource{url: m.KeysURL}, err
	}
	set, err := parseKeySet(m.Keys)
	return keySource{set: set}, err
}

func parseKeySet(raw []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []jose.JSONWebKey `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, errors.New("the keys do not parse")
	}
	if len(set.Keys) == 0 || len(set.Keys) > maxKeys || slices.ContainsFunc(set.Keys, func(k jose.JSONWebKey) bool { return !k.IsPublic() || !k.Valid() }) {
		return nil, fmt.Errorf("there are not 1 to %d public keys", maxKeys)
	}
	return set.Keys, nil
}

// errAssertion is the one answer to an assertion that proves nothing.
var errAssertion = errors.New("the client assertion is not valid")

// checkAssertion accepts a proof that the client made for this server, once
// (RFC 7523 §3).
func (s *Server) checkAssertion(ctx context.Context, r registration, assertion string) error {
	if len(assertion) > maxAssertion {
		return errAssertion
	}
	token, err := jwt.ParseSigned(assertion, assertionAlgorithms)
	if err != nil || len(token.Headers) != 1 {
		return errAssertion
	}
	claims, err := s.verifyAssertion(ctx, r.keys, token)
	if err != nil {
		return err
	}
	now := time.Now()
	forUs := slices.Contains(claims.Audience, s.Issuer) || slices.Contains(claims.Audience, s.Issuer+pathToken)
	if !forUs || claims.Expiry == nil || claims.Expiry.Time().After(now.Add(maxAssertionLife)) || claims.ID == "" || len(claims.ID) > 256 {
		return errAssertion
	}
	if claims.ValidateWithLeeway(jwt.Expected{Issuer: r.ID, Subject: r.ID, Time: now}, leeway) != nil {
		return errAssertion
	}
	return s.consumeAssertion(ctx, r.ID, claims)
}

// verifyAssertion checks the signature. A key that is not in the copy of the
// client's keys may have been added since, so they are looked at once more.
func (s *Server) verifyAssertion(ctx context.Context, source keySource, token *jwt.JSONWebToken) (jwt.Claims, error) {
	var claims jwt.Claims
	kid := token.Headers[0].KeyID
	for _, anew := range []bool{false, true} {
		set, err := s.keysOf(ctx, source, anew)
		if err != nil {
			return claims, err
		}
		for _, key := range set {
			if (kid == "" || key.KeyID == kid) && token.Claims(key, &claims) == nil {
				return claims, nil
			}
		}
		if source.url == "" {
			break
		}
	}
	return claims, errAssertion
}

func (s *Server) keysOf(ctx context.Context, source keySource, anew bool) (set []jose.JSONWebKey, err error) {
	if source.url == "" {
		return source.set, nil
	}
	err = s.document(ctx, source.url, true, anew, func(body []byte) (err error) {
		set, err = parseKeySet(body)
		return err
	})
	if errors.Is(err, errNoClient) {
		err = errAssertion
	}
	return set, err
}

func (s *Server) consumeAssertion(ctx context.Context, clientID string, claims jwt.Claims) error {
	tag, err := s.DB.Exec(ctx, `
		INSERT INTO oauth.assertions (client_id, jti, expires_at)
		VALUES ($1, $2, $3)
		ON CONFLICT DO NOTHING`, clientID, claims.ID, claims.Expiry.Time().Add(time.Minute))
	if err != nil {
		return fmt.Errorf("remember a client assertion: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return errAssertion
	}
	return nil
}
