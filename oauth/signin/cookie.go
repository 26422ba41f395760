package signin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
)

// The cookies. The prefix __Host- makes a browser refuse them from another host,
// another path or an insecure place, so nobody can plant one (RFC 6265bis).
const (
	sessionCookie = "__Host-sidequest-session"
	browserCookie = "__Host-sidequest-browser" // ties a sign-in to the browser that began it
)

const secretLength = 32 // bytes

// newSecret returns 256 bits that nobody can guess.
func newSecret() string {
	b := make([]byte, secretLength)
	_, _ = rand.Read(b) // it never fails: see crypto/rand
	return base64.RawURLEncoding.EncodeToString(b)
}

func hash(secret string) []byte {
	h := sha256.Sum256([]byte(secret))
	return h[:]
}

// derive makes a secret for one purpose out of another.
func derive(secret, purpose string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(purpose))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// cookie returns the value of a cookie of ours, "" if it is missing, has not the
// form of a secret, or is there twice.
func cookie(r *http.Request, name string) string {
	all := r.CookiesNamed(name)
	if len(all) != 1 {
		return ""
	}
	raw, err := base64.RawURLEncoding.DecodeString(all[0].Value)
	if err != nil || len(raw) != secretLength {
		return ""
	}
	return all[0].Value
}

// setCookie sets a cookie until the browser is closed. Lax is what lets it come
// along when a provider sends the browser back.
func setCookie(w http.ResponseWriter, name, value string) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

func dropCookie(w http.ResponseWriter, name string) {
	http.SetCookie(w, &http.Cookie{Name: name, Path: "/", MaxAge: -1, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

// browser returns the secret of this browser, which it gets if it has none. Several
// sign-ins, in several tabs, share it.
func browser(w http.ResponseWriter, r *http.Request) string {
	secret := cookie(r, browserCookie)
	if secret == "" {
		secret = newSecret()
		setCookie(w, browserCookie, secret)
	}
	return secret
}
