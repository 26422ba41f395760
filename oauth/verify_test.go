package oauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
)

// memory returns keys and a verifier whose only grant is "gr_live", without a log.
func memory(t testing.TB) (*Keys, *Verifier) {
	t.Helper()
	raw, err := firstKey()
	if err != nil {
		t.Fatal(err)
	}
	ring, err := decodeKeys(raw)
	if err != nil {
		t.Fatal(err)
	}
	keys := withRing(ring)
	g := &Grants{
		turn:  make(chan struct{}, 1),
		fresh: time.Now().Add(time.Hour), // it needs no look at the log
		entries: map[string]*entry{
			"gr_live": {grant: domain.Grant{
				AgentKey: alice, ClientID: client, Operator: "olga", Resource: resource, Opened: true,
				Scopes: []string{domain.ScopeRead, domain.ScopeHire},
			}},
			"gr_revoked": {grant: domain.Grant{Opened: true, Revoked: true}},
			"gr_elsewhere": {grant: domain.Grant{
				AgentKey: alice, ClientID: client, Opened: true,
				Resource: issuer + "/b/other/mcp", Scopes: []string{domain.ScopeRead},
			}},
		},
	}
	return keys, NewVerifier(keys, issuer, g)
}

// A forgery starts from an honest token's header and claims.
type forgery struct {
	header, claims map[string]any
	method         jwt.SigningMethod
	key            any
}

func honest(k *Keys) forgery {
	now := time.Now()
	return forgery{
		header: map[string]any{"alg": "ES256", "typ": "at+jwt", "kid": k.ring.Load().active.kid},
		claims: map[string]any{
			"iss": issuer, "sub": string(alice), "aud": resource, "client_id": client,
			"scope": domain.ScopeRead, "jti": "1", "gid": "gr_live",
			"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		},
		method: jwt.SigningMethodES256,
		key:    k.ring.Load().active.private,
	}
}

func (f forgery) sign(t testing.TB) string {
	t.Helper()
	token := &jwt.Token{Header: f.header, Claims: jwt.MapClaims(f.claims), Method: f.method}
	signed, err := token.SignedString(f.key)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func TestAnHonestTokenSpeaksForItsAgentWithTheScopesOfTokenAndGrant(t *testing.T) {
	t.Parallel()
	keys, v := memory(t)
	bearer := mint(t, keys, token("gr_live", domain.ScopeRead, domain.ScopeWork))
	got, err := v.Verify(t.Context(), bearer, resource)
	if err != nil {
		t.Fatal(err)
	}
	want := Principal{
		AgentKey: alice, GrantID: "gr_live", ClientID: client, Operator: "olga",
		Scopes: []string{domain.ScopeRead}, Resource: resource,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := v.Verify(t.Context(), honest(keys).sign(t), resource); err != nil {
		t.Errorf("the token that forgeries start from is refused: %v", err)
	}
}

func TestAMintedTokenHasTheFormOfRFC9068(t *testing.T) {
	t.Parallel()
	keys, _ := memory(t)
	a := token("gr_live", domain.ScopeRead, domain.ScopeHire)
	a.AgentID, a.Roles = "7", []domain.Role{domain.RoleHire}
	parts := strings.Split(mint(t, keys, a), ".")
	var header, claims map[string]any
	for i, into := range []*map[string]any{&header, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatal(err)
		}
	}
	if id, _ := claims["jti"].(string); len(id) != 26 {
		t.Errorf("jti = %v", claims["jti"])
	}
	delete(claims, "jti")
	at := float64(a.At.Unix())
	wantHeader := map[string]any{"alg": "ES256", "typ": "at+jwt", "kid": keys.ring.Load().active.kid}
	wantClaims := map[string]any{
		"iss": issuer, "sub": string(alice), "aud": resource, "client_id": client, "gid": "gr_live",
		"scope": "sidequest:read sidequest:hire", "iat": at, "exp": at + 3600,
		"agent_id": "7", "roles": []any{"hire"},
	}
	if diff := cmp.Diff(wantHeader, header); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(wantClaims, claims); diff != "" {
		t.Error(diff)
	}
}

func TestATokenLastsADayAtMost(t *testing.T) {
	t.Parallel()
	keys, _ := memory(t)
	for _, life := range []time.Duration{-time.Second, time.Millisecond, MaxTokenLife + time.Second} {
		a := token("gr_live", domain.ScopeRead)
		a.Life = life
		if _, err := keys.Mint(a); err == nil {
			t.Errorf("a token for %s was minted", life)
		}
	}
}

func TestHostileTokensAreRefused(t *testing.T) {
	t.Parallel()
	keys, v := memory(t)
	foreign, _ := memory(t)
	soon := time.Now().Add(time.Hour).Unix()
	for name, change := range map[string]func(*forgery){
		"alg none": func(f *forgery) {
			f.header["alg"], f.method, f.key = "none", jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType
		},
		"HS256 with the public key in DER": func(f *forgery) { f.hmac(t, keys, false) },
		"HS256 with the public key in PEM": func(f *forgery) { f.hmac(t, keys, true) },
		"ES256 claimed for another curve":  func(f *forgery) { f.key, f.method = newP384(t), jwt.SigningMethodES384 },
		"a foreign key under our kid":      func(f *forgery) { f.key = foreign.ring.Load().active.private },
		"a foreign key under its kid": func(f *forgery) {
			f.key, f.header["kid"] = foreign.ring.Load().active.private, foreign.ring.Load().active.kid
		},
		"a kid that is a path":               func(f *forgery) { f.header["kid"] = "../../dev/null" },
		"a kid that is SQL":                  func(f *forgery) { f.header["kid"] = "' OR 1=1 --" },
		"a kid that is a number":             func(f *forgery) { f.header["kid"] = 1 },
		"no kid":                             func(f *forgery) { delete(f.header, "kid") },
		"a jwk header":                       func(f *forgery) { f.header["jwk"] = map[string]any{"kty": "EC"} },
		"a jku header":                       func(f *forgery) { f.header["jku"] = "https://evil.example/jwks" },
		"an x5u header":                      func(f *forgery) { f.header["x5u"] = "https://evil.example/x5u" },
		"an x5c header":                      func(f *forgery) { f.header["x5c"] = []string{"MII="} },
		"a crit header":                      func(f *forgery) { f.header["crit"] = []string{"exp"} },
		"an empty crit header":               func(f *forgery) { f.header["crit"] = nil },
		"typ JWT":                            func(f *forgery) { f.header["typ"] = "JWT" },
		"no typ":                             func(f *forgery) { delete(f.header, "typ") },
		"no exp":                             func(f *forgery) { delete(f.claims, "exp") },
		"expired":                            func(f *forgery) { f.claims["exp"] = time.Now().Add(-time.Minute).Unix() },
		"no iat":                             func(f *forgery) { delete(f.claims, "iat") },
		"iat in the future":                  func(f *forgery) { f.claims["iat"] = soon },
		"nbf in the future":                  func(f *forgery) { f.claims["nbf"] = soon },
		"no iss":                             func(f *forgery) { delete(f.claims, "iss") },
		"another issuer":                     func(f *forgery) { f.claims["iss"] = "https://evil.example" },
		"our issuer with a slash":            func(f *forgery) { f.claims["iss"] = issuer + "/" },
		"no aud":                             func(f *forgery) { delete(f.claims, "aud") },
		"an empty aud":                       func(f *forgery) { f.claims["aud"] = "" },
		"two auds, ours first":               func(f *forgery) { f.claims["aud"] = []string{resource, "https://evil.example"} },
		"two auds, ours last":                func(f *forgery) { f.claims["aud"] = []string{"https://evil.example", resource} },
		"a list of one aud":                  func(f *forgery) { f.claims["aud"] = []string{resource} },
		"the aud of another board":           func(f *forgery) { f.claims["aud"] = issuer + "/b/other/mcp" },
		"the grant and aud of another board": func(f *forgery) { f.claims["aud"], f.claims["gid"] = issuer+"/b/other/mcp", "gr_elsewhere" },
		"the grant of another board":         func(f *forgery) { f.claims["gid"] = "gr_elsewhere" },
		"an aud that ours starts with":       func(f *forgery) { f.claims["aud"] = issuer },
		"an aud that starts with ours":       func(f *forgery) { f.claims["aud"] = resource + "/more" },
		"an aud with a trailing slash":       func(f *forgery) { f.claims["aud"] = resource + "/" },
		"an aud in another letter case":      func(f *forgery) { f.claims["aud"] = strings.ToUpper(resource) },
		"no grant":                           func(f *forgery) { delete(f.claims, "gid") },
		"an unknown grant":                   func(f *forgery) { f.claims["gid"] = "gr_unknown" },
		"a revoked grant":                    func(f *forgery) { f.claims["gid"] = "gr_revoked" },
		"another agent than the grant's":     func(f *forgery) { f.claims["sub"] = string(domain.DevelopmentAgent("mallory")) },
		"another client than the grant's":    func(f *forgery) { f.claims["client_id"] = "client-2" },
		"huge":                               func(f *forgery) { f.claims["more"] = strings.Repeat("x", maxToken) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := honest(keys)
			f.header, f.claims = maps.Clone(f.header), maps.Clone(f.claims)
			change(&f)
			_, err := v.Verify(t.Context(), f.sign(t), resource)
			wantRefusal(t, err, domain.Unauthenticated)
		})
	}
}

// hmac signs by HS256 with what everybody may know of the key.
func (f *forgery) hmac(t *testing.T, k *Keys, armoured bool) {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&k.ring.Load().active.private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if armoured {
		der = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	}
	f.header["alg"], f.method, f.key = "HS256", jwt.SigningMethodHS256, der
}

func newP384(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestMisspelledTokensAreRefused(t *testing.T) {
	t.Parallel()
	keys, v := memory(t)
	good := mint(t, keys, token("gr_live", domain.ScopeRead))
	parts := strings.Split(good, ".")
	for name, bearer := range map[string]string{
		"nothing":                           "",
		"dots alone":                        "..",
		"no dot":                            strings.ReplaceAll(good, ".", ""),
		"cut in the signature":              good[:len(good)-4],
		"cut in the claims":                 good[:len(good)/2],
		"without a signature":               parts[0] + "." + parts[1] + ".",
		"with a fourth part":                good + "." + parts[2],
		"with a space":                      good + " ",
		"with a line break":                 good[:20] + "\n" + good[20:],
		"padded":                            good + "==",
		"claims of another token":           parts[0] + "." + strings.Split(mint(t, keys, token("gr_live", domain.ScopeHire)), ".")[1] + "." + parts[2],
		"another base64 of one signature":   nonCanonical(t, good),
		"in the standard base64":            parts[0] + "." + parts[1] + "." + reencode(t, parts[2]),
		"a header that is no object":        base64.RawURLEncoding.EncodeToString([]byte(`["ES256"]`)) + "." + parts[1] + "." + parts[2],
		"a megabyte":                        strings.Repeat("a.", 1<<19),
		"a prefix of the scheme kept in it": "Bearer " + good,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := v.Verify(t.Context(), bearer, resource)
			wantRefusal(t, err, domain.Unauthenticated)
		})
	}
}

// nonCanonical changes bits of the last letter that decode to nothing: a
// signature of 64 bytes leaves four of them.
func nonCanonical(t *testing.T, token string) string {
	t.Helper()
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	at := strings.IndexByte(letters, token[len(token)-1])
	other := token[:len(token)-1] + string(letters[at^1])
	signature := other[strings.LastIndex(other, ".")+1:]
	if _, err := base64.RawURLEncoding.DecodeString(signature); err != nil {
		t.Fatalf("a lenient decoder would refuse it too: %v", err)
	}
	return other
}

// reencode returns a part in the padded standard base64.
func reencode(t *testing.T, part string) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func TestARetiredKeyIsTrustedForAsLongAsItIsListed(t *testing.T) {
	t.Parallel()
	old, oldVerifier := memory(t)
	bearer := mint(t, old, token("gr_live", domain.ScopeRead))

	list := []storedKey{stored(t, old, keyRetired)}
	raw, err := firstKey()
	if err != nil {
		t.Fatal(err)
	}
	var fresh []storedKey
	if err := json.Unmarshal(raw, &fresh); err != nil {
		t.Fatal(err)
	}
	rotated, err := encodeAndDecode(append(list, fresh...))
	if err != nil {
		t.Fatal(err)
	}
	without, err := encodeAndDecode(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if rotated.ring.Load().active.kid == old.ring.Load().active.kid {
		t.Error("the retired key still signs")
	}
	g := oldVerifier.grants
	if _, err := NewVerifier(rotated, issuer, g).Verify(t.Context(), bearer, resource); err != nil {
		t.Errorf("a token of a listed retired key is refused: %v", err)
	}
	_, err = NewVerifier(without, issuer, g).Verify(t.Context(), bearer, resource)
	wantRefusal(t, err, domain.Unauthenticated)
	if _, err := encodeAndDecode(list); err == nil {
		t.Error("a list without an active key was taken")
	}
}

func stored(t *testing.T, k *Keys, status keyStatus) storedKey {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(k.ring.Load().active.private)
	if err != nil {
		t.Fatal(err)
	}
	return storedKey{status, time.Now(), der}
}

func encodeAndDecode(list []storedKey) (*Keys, error) {
	raw, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	ring, err := decodeKeys(raw)
	return withRing(ring), err
}

// withRing returns keys that are never read again.
func withRing(ring *keyRing) *Keys {
	k := &Keys{loaded: time.Now().Add(time.Hour)}
	k.ring.Store(ring)
	return k
}

func TestAKeyIsNamedByTheThumbprintOfRFC7638(t *testing.T) {
	t.Parallel()
	// The P-256 key of RFC 7517, appendix A.1; its thumbprint by another implementation.
	decode := base64.RawURLEncoding.DecodeString
	x, err := decode("MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4")
	if err != nil {
		t.Fatal(err)
	}
	y, err := decode("4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
	if err != nil {
		t.Fatal(err)
	}
	got, err := thumbprint(key)
	if want := "cn-I_WNMClehiVp51i_0VpOENW1upEerA8sEam5hn-s"; got != want || err != nil {
		t.Errorf("thumbprint = %q, %v; want %q", got, err, want)
	}
}

func FuzzVerify(f *testing.F) {
	keys, v := memory(f)
	a := token("gr_live", domain.ScopeRead)
	good, err := keys.Mint(a)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, resource)
	f.Add(good, issuer)
	f.Add(good[:len(good)-1], resource)
	f.Add("", "")
	f.Add("..", resource)
	f.Add(honest(keys).sign(f), resource)
	f.Fuzz(func(t *testing.T, bearer, resource string) {
		p, err := v.Verify(t.Context(), bearer, resource)
		if err != nil {
			wantRefusal(t, err, domain.Unauthenticated)
			return
		}
		if p.AgentKey != alice || p.GrantID != "gr_live" || resource != a.Grant.Resource {
			t.Errorf("%q speaks for %+v at %q", bearer, p, resource)
		}
	})
}
