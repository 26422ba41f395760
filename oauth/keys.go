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
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sidequest/secret"
)

// Keys sign access tokens and check their signatures. All processes of a
// deployment have the same; [Keys.Follow] keeps this one level with the others.
type Keys struct {
	vault secret.Vault
	ring  atomic.Pointer[keyRing]

	mu     sync.Mutex
	loaded time.Time // when the list was last asked for
}

// A keyRing is the list as it was when it was last read.
type keyRing struct {
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
	k := &Keys{vault: vault}
	if err := k.load(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *Keys) load(ctx context.Context) error {
	raw, err := k.vault.GetOrCreate(ctx, keysName, firstKey)
	if err != nil {
		return fmt.Errorf("load the signing keys: %w", err)
	}
	ring, err := decodeKeys(raw)
	if err != nil {
		return fmt.Errorf("load the signing keys: %w", err)
	}
	k.ring.Store(ring)
	return nil
}

const (
	followPace = 10 * time.Second // from one look at the list to the next
	reloadPace = time.Second      // of looks that tokens with unknown keys cause
)

// Follow reads the list again and again until ctx is done. While it cannot be
// read, the keys stay as they were.
func (k *Keys) Follow(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(followPace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := k.load(ctx); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "the signing keys are those of before", "error", err)
		}
	}
}

// reload reads the list once more, and says whether it did. Tokens with keys that
// never were must not become a load on the database.
func (k *Keys) reload(ctx context.Context) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.loaded) < reloadPace {
		return false
	}
	k.loaded = time.Now()
	return k.load(ctx) == nil
}

// firstKey returns the list with one new key, which is active.
func firstKey() ([]byte, error) {
	key, err := newKey(keyActive, time.Now())
	if err != nil {
		return nil, err
	}
	return json.Marshal([]storedKey{key})
}

// newKey makes a key that has a status from now on.
func newKey(status keyStatus, now time.Time) (storedKey, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return storedKey{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	return storedKey{status, now.UTC(), der}, err
}

// lives says whether a key is to be trusted at a moment.
func (s storedKey) lives(now time.Time) bool {
	return s.Status != keyRetired || now.Before(s.Since.Add(keyRetirement))
}

func decodeKeys(raw []byte) (*keyRing, error) {
	var list []storedKey
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New("the list does not parse") // the decoder might quote it
	}
	k := &keyRing{verified: map[string]*ecdsa.PublicKey{}}
	for i, stored := range list {
		key, err := stored.decode()
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		if !stored.lives(time.Now()) {
			continue
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
