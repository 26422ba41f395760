package oauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sidequest/secret"
)

// Keys sign access tokens and check their signatures. All processes of a
// deployment have the same.
type Keys struct {
	active   signingKey
	verified map[string]*ecdsa.PublicKey // by kid: whatever is listed is trusted
}

type signingKey struct {
	kid     string
	private *ecdsa.PrivateKey
}

// keysName is the secret that holds the list of signing keys.
const keysName = "oauth:signing-keys"

// A keyStatus is where a signing key is in its life:
//
//	next ──▶ active ──▶ retired ──▶ (taken off the list)
//
// A key is listed as next before it signs, so that every process knows it by
// then, and stays listed as retired until the last token it signed has expired.
type keyStatus string

const (
	keyNext    keyStatus = "next"
	keyActive  keyStatus = "active"
	keyRetired keyStatus = "retired"
)

// A storedKey is one entry of the sealed list.
type storedKey struct {
	Status  keyStatus `json:"status"`
	Since   time.Time `json:"since"`
	Private []byte    `json:"private"` // PKCS #8
}

// LoadKeys returns the signing keys of the deployment. The first process to ask
// makes the first key.
func LoadKeys(ctx context.Context, vault secret.Vault) (*Keys, error) {
	raw, err := vault.GetOrCreate(ctx, keysName, firstKey)
	if err != nil {
		return nil, fmt.Errorf("load the signing keys: %w", err)
	}
	k, err := decodeKeys(raw)
	if err != nil {
		return nil, fmt.Errorf("load the signing keys: %w", err)
	}
	return k, nil
}

// firstKey returns the list with one new key, which is active.
func firstKey() ([]byte, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	return json.Marshal([]storedKey{{keyActive, time.Now().UTC(), der}})
}

func decodeKeys(raw []byte) (*Keys, error) {
	var list []storedKey
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New("the list does not parse") // the decoder might quote it
	}
	k := &Keys{verified: map[string]*ecdsa.PublicKey{}}
	for i, stored := range list {
		key, err := stored.decode()
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		k.verified[key.kid] = &key.private.PublicKey
		if stored.Status == keyActive {
			k.active = key
		}
	}
	if k.active.private == nil {
		return nil, errors.New("no key is active")
	}
	return k, nil
}

func (s storedKey) decode() (signingKey, error) {
	if s.Status != keyNext && s.Status != keyActive && s.Status != keyRetired {
		return signingKey{}, fmt.Errorf("unknown status %q", s.Status)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(s.Private)
	if err != nil {
		return signingKey{}, errors.New("the private key does not parse")
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return signingKey{}, errors.New("the key is not on P-256")
	}
	kid, err := thumbprint(&private.PublicKey)
	return signingKey{kid, private}, err
}

// thumbprint names a public key by the SHA-256 of its required members in
// lexical order (RFC 7638, section 3).
func thumbprint(key *ecdsa.PublicKey) (string, error) {
	point, err := key.Bytes() // 0x04, then x and y of 32 bytes each
	if err != nil {
		return "", fmt.Errorf("encode a public key: %w", err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	sum := sha256.Sum256(fmt.Appendf(nil, `{"crv":"P-256","kty":"EC","x":"%s","y":"%s"}`, b64(point[1:33]), b64(point[33:])))
	return b64(sum[:]), nil
}
