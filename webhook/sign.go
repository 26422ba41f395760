package webhook

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"sidequest/domain"
	"sidequest/secret"
)

const (
	secretPrefix = "whsec_"
	minSecret    = 24 // bytes
	maxSecret    = 64
)

// ParseSecret reads a secret as Standard Webhooks writes it: whsec_ and 24 to 64
// bytes in base64. It refuses others and never repeats what it was given.
func ParseSecret(s string) ([]byte, error) {
	encoded, found := strings.CutPrefix(s, secretPrefix)
	b, err := base64.StdEncoding.DecodeString(encoded)
	if !found || err != nil || strings.ContainsAny(encoded, "\r\n") || len(b) < minSecret || len(b) > maxSecret {
		return nil, domain.Refuse(domain.Invalid, "delivery.secret must be whsec_ and the base64 of %d to %d random bytes", minSecret, maxSecret).At("/delivery/secret")
	}
	return b, nil
}

// A Signer signs with the key of the deployment, beside the secrets of subscribers:
// who checks that signature needs no secret.
type Signer struct {
	key ed25519.PrivateKey
	id  string
}

// LoadSigner returns the signer that all processes share.
func LoadSigner(ctx context.Context, vault secret.Vault) (Signer, error) {
	seed, err := vault.GetOrCreate(ctx, "webhook:1", func() ([]byte, error) {
		b := make([]byte, ed25519.SeedSize)
		_, err := rand.Read(b)
		return b, err
	})
	if err != nil {
		return Signer{}, fmt.Errorf("load the key of webhooks: %w", err)
	}
	return NewSigner(seed), nil
}

// NewSigner returns the signer with a seed of [ed25519.SeedSize] bytes.
func NewSigner(seed []byte) Signer {
	key := ed25519.NewKeyFromSeed(seed)
	sum := sha256.Sum256(key.Public().(ed25519.PublicKey))
	return Signer{key, hex.EncodeToString(sum[:8])}
}

// JWKSPath is where [Signer.ServeHTTP] belongs.
const JWKSPath = "/.well-known/mcp-webhook-jwks.json"

// ServeHTTP answers with the public keys (RFC 8037 §2).
func (s Signer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	type jwk struct {
		KeyType   string `json:"kty"`
		Curve     string `json:"crv"`
		KeyID     string `json:"kid"`
		Use       string `json:"use"`
		Algorithm string `json:"alg"`
		X         string `json:"x"`
	}
	x := base64.RawURLEncoding.EncodeToString(s.key.Public().(ed25519.PublicKey))
	b, err := json.Marshal(struct {
		Keys []jwk `json:"keys"`
	}{[]jwk{{"OKP", "Ed25519", s.id, "sig", "EdDSA", x}}})
	if err != nil {
		http.Error(w, "The keys cannot be shown at the moment.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/jwk-set+json")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	w.Header().Set("Access-Control-Allow-Origin", "*")
	_, _ = w.Write(b)
}

// signature returns the header webhook-signature: one v1 for each secret, one v1a
// by the key of the deployment (Standard Webhooks).
func (s Signer) signature(id string, at time.Time, body []byte, secrets [][]byte) string {
	signed := append([]byte(id+"."+strconv.FormatInt(at.Unix(), 10)+"."), body...)
	var b strings.Builder
	for _, key := range secrets {
		h := hmac.New(sha256.New, key)
		h.Write(signed)
		b.WriteString("v1," + base64.StdEncoding.EncodeToString(h.Sum(nil)) + " ")
	}
	b.WriteString("v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(s.key, signed)))
	return b.String()
}
