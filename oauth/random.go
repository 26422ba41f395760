package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// newSecret returns 256 random bits as 43 characters that need no escaping
// anywhere.
func newSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// hashOf returns what is kept of a secret that is random enough to need no salt.
func hashOf(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}
