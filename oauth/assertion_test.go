package oauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"sidequest/domain"
)

func newSigner(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// setOf returns a key set with a key under a name.
func setOf(t *testing.T, kid string, key any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key, KeyID: kid}}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func privateSet(t *testing.T) json.RawMessage {
	t.Helper()
	return setOf(t, "k", newSigner(t))
}

// assert signs an assertion of a client, with changes to its claims.
func assert(t *testing.T, alg jose.SignatureAlgorithm, key any, kid, clientID string, changes map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{
		"iss": clientID, "sub": clientID, "aud": issuer, "jti": newSecret(),
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
	}
	for name, value := range changes {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	signed, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func (s *site) asserting(t *testing.T, clientID, assertion string) reply {
	t.Helper()
	form := url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {"rt_x"},
		"client_assertion_type": {assertionType}, "client_assertion": {assertion},
	}
	if clientID != "" {
		form.Set("client_id", clientID)
	}
	return s.post(t, pathToken, form)
}

func TestAClientThatPublishesItsKeyProvesWhoItIs(t *testing.T) {
	t.Parallel()
	p := newPublisher(t)
	s := newDeployment(t).serve(t, p.outside(t))
	key, stranger := newSigner(t), newSigner(t)
	id := p.publish("/client.json", map[string]any{"token_endpoint_auth_method": authKey, "jwks": setOf(t, "k", &key.PublicKey)})
	newBrowser().pending(t, s, asks(id, nil))

	used := assert(t, jose.ES256, key, "k", id, nil)
	wantError(t, s.asserting(t, id, used), http.StatusBadRequest, invalidGrant) // it got as far as the token
	wantError(t, s.asserting(t, "", assert(t, jose.ES256, key, "", id, map[string]any{"aud": issuer + pathToken})), http.StatusBadRequest, invalidGrant)

	unsigned := "eyJhbGciOiJub25lIn0." + "eyJpc3MiOiJ4In0" + "."
	public, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for name, assertion := range map[string]string{
		"one that was used":           used,
		"another server's":            assert(t, jose.ES256, key, "k", id, map[string]any{"aud": "https://other.example"}),
		"nobody's":                    assert(t, jose.ES256, key, "k", id, map[string]any{"aud": nil}),
		"another issuer's":            assert(t, jose.ES256, key, "k", id, map[string]any{"iss": "https://other.example/x"}),
		"another subject's":           assert(t, jose.ES256, key, "k", id, map[string]any{"sub": "https://other.example/x"}),
		"one that is over":            assert(t, jose.ES256, key, "k", id, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}),
		"one that never ends":         assert(t, jose.ES256, key, "k", id, map[string]any{"exp": nil}),
		"one that lasts a day":        assert(t, jose.ES256, key, "k", id, map[string]any{"exp": time.Now().Add(24 * time.Hour).Unix()}),
		"one from later":              assert(t, jose.ES256, key, "k", id, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"one without a name":          assert(t, jose.ES256, key, "k", id, map[string]any{"jti": nil}),
		"another key's":               assert(t, jose.ES256, stranger, "k", id, nil),
		"another key's and name's":    assert(t, jose.ES256, stranger, "other", id, nil),
		"one signed with public data": assert(t, jose.HS256, public[:64], "k", id, nil),
		"one that nobody signed":      unsigned,
		"no assertion at all":         "x",
	} {
		wantError(t, s.asserting(t, id, assertion), http.StatusUnauthorized, invalidClient)
		if t.Failed() {
			t.Fatalf("it was %s", name)
		}
	}
	wantError(t, s.refreshed(t, id, "rt_x", nil), http.StatusUnauthorized, invalidClient)
	wantError(t, s.refreshed(t, id, "rt_x", map[string]string{"client_secret": "x"}), http.StatusUnauthorized, invalidClient)
	wantError(t, s.refreshed(t, id, "rt_x", map[string]string{"client_assertion": used, "client_assertion_type": "other"}), http.StatusBadRequest, invalidRequest)
	public2 := s.registerClient(t, callback)
	wantError(t, s.asserting(t, public2, assert(t, jose.ES256, key, "k", public2, nil)), http.StatusUnauthorized, invalidClient)
}

func TestAKeyThatAClientAddsIsLookedUp(t *testing.T) {
	t.Parallel()
	p := newPublisher(t)
	d := newDeployment(t)
	s := d.serve(t, p.outside(t))
	first, second := newSigner(t), newSigner(t)
	keys := p.serve("/keys", page("application/jwk-set+json", setOf(t, "1", &first.PublicKey)))
	id := p.publish("/client.json", map[string]any{"token_endpoint_auth_method": authKey, "jwks_uri": keys})
	code, _ := s.code(t, id, bound(domain.ScopeRead))
	form := codeForm(id, code, map[string]string{"client_assertion_type": assertionType, "client_assertion": assert(t, jose.ES256, first, "1", id, nil)})
	r := s.post(t, pathToken, form)
	if r.status != http.StatusOK {
		t.Fatalf("token: %d %s", r.status, r.body)
	}
	p.serve("/keys", page("application/jwk-set+json", setOf(t, "2", &second.PublicKey)))
	wantError(t, s.asserting(t, id, assert(t, jose.ES256, second, "2", id, nil)), http.StatusUnauthorized, invalidClient) // looked at a moment ago
	d.asOwner(t, `UPDATE oauth.documents SET fetched_at = fetched_at - interval '6 minutes'`)
	wantError(t, s.asserting(t, id, assert(t, jose.ES256, second, "2", id, nil)), http.StatusBadRequest, invalidGrant)
	wantError(t, s.asserting(t, id, assert(t, jose.ES256, first, "1", id, nil)), http.StatusUnauthorized, invalidClient)
}
