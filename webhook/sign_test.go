package webhook

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSignaturesAreThoseOfThePublishedVector repeats the example of Standard
// Webhooks.
func TestSignaturesAreThoseOfThePublishedVector(t *testing.T) {
	t.Parallel()
	key, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := NewSigner(make([]byte, 32)).signature("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`), [][]byte{key})
	if first, _, _ := strings.Cut(got, " "); first != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("the signature is %s", first)
	}
}

func TestTheKeyOfTheDeploymentVerifiesWhatItSigned(t *testing.T) {
	t.Parallel()
	s := NewSigner([]byte(strings.Repeat("k", 32)))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, JWKSPath, nil))
	var set struct {
		Keys []struct {
			Kty string `json:"kty"`
			Crv string `json:"crv"`
			X   string `json:"x"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil || len(set.Keys) != 1 || set.Keys[0].Kty != "OKP" || set.Keys[0].Crv != "Ed25519" {
		t.Fatalf("the key set is %s", w.Body)
	}
	public, err := base64.RawURLEncoding.DecodeString(set.Keys[0].X)
	if err != nil {
		t.Fatal(err)
	}
	header := s.signature("e", time.Unix(7, 0), []byte("{}"), nil)
	signature, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(header, "v1a,"))
	if err != nil || !ed25519.Verify(public, []byte("e.7.{}"), signature) {
		t.Errorf("%s does not verify", header)
	}
}

func TestSecretsHave24To64Bytes(t *testing.T) {
	t.Parallel()
	of := func(n int) string { return base64.StdEncoding.EncodeToString(slices.Repeat([]byte{1}, n)) }
	for _, n := range []int{24, 32, 64} {
		if _, err := ParseSecret("whsec_" + of(n)); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for _, s := range []string{"", "whsec_", "whsec_" + of(23), "whsec_" + of(65), of(32), "whsk_" + of(32), "whsec_" + of(32) + "\n", "whsec_!!!!"} {
		if _, err := ParseSecret(s); err == nil || strings.Contains(err.Error(), "whsec_AQEB") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func FuzzSecretsAreRefusedOrOfFitLength(f *testing.F) {
	f.Add("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	f.Add("whsec_=")
	f.Fuzz(func(t *testing.T, s string) {
		if b, err := ParseSecret(s); err == nil && (len(b) < minSecret || len(b) > maxSecret) {
			t.Errorf("%q has %d bytes", s, len(b))
		}
	})
}
