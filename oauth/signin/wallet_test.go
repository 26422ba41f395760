package signin

import (
	"crypto/ecdsa"
	"encoding/hex"
	"fmt"
	"math/big"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"sidequest/domain"
)

func newWallet(t *testing.T) (*ecdsa.PrivateKey, string) {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key, crypto.PubkeyToAddress(key.PublicKey).Hex()
}

// personalSign signs as wallets do, with v of 27 or 28.
func personalSign(t *testing.T, key *ecdsa.PrivateKey, message string) []byte {
	t.Helper()
	sig, err := crypto.Sign(crypto.Keccak256(fmt.Appendf(nil, "\x19Ethereum Signed Message:\n%d%s", len(message), message)), key)
	if err != nil {
		t.Fatal(err)
	}
	sig[64] += 27
	return sig
}

func hexed(b []byte) string { return "0x" + hex.EncodeToString(b) }

func (v *visitor) challenge(t *testing.T, s *Service, address string) Challenge {
	t.Helper()
	w, r := v.request("/sign-in/wallet")
	r.RemoteAddr = address // so that no test meets the brake
	c, err := s.BeginWallet(w, r, address, "/connections", nil)
	if err != nil {
		t.Fatal(err)
	}
	v.keep(w)
	return c
}

func (v *visitor) answer(s *Service, nonce, message, signature string) (string, error) {
	w, r := v.request("/sign-in/wallet/signature")
	returnTo, err := s.FinishWallet(w, r, nonce, message, signature)
	v.keep(w)
	return returnTo, err
}

func TestAWalletSignsAnOperatorIn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key, address := newWallet(t)
	var operators []string
	for _, spelled := range []string{address, strings.ToLower(address), "0x" + strings.ToUpper(address[2:])} {
		for _, minus := range []byte{0, 27} { // v as the chain writes it, and without 27
			v := newVisitor()
			c := v.challenge(t, h.Service, spelled)
			for _, part := range []string{
				"127.0.0.1:8080 wants you to sign in with your Ethereum account:\n" + address + "\n\n", "\nURI: " + origin + "/sign-in/wallet\n",
				"\nVersion: 1\n", "\nChain ID: 10143\n", "\nNonce: " + c.Nonce + "\n", "\nIssued At: ", "\nExpiration Time: ",
			} {
				if !strings.Contains(c.Message, part) {
					t.Errorf("the text lacks %q:\n%s", part, c.Message)
				}
			}
			sig := personalSign(t, key, c.Message)
			sig[64] -= minus
			returnTo, err := v.answer(h.Service, c.Nonce, c.Hex(), hexed(sig))
			if err != nil || returnTo != "/connections" {
				t.Fatalf("%s: %q, %v", spelled, returnTo, err)
			}
			session, _ := v.session(t, h.Service)
			operators = append(operators, session.Operator.ID)
		}
	}
	for _, id := range operators {
		if id == "" || id != operators[0] {
			t.Fatalf("one wallet stands for %v", operators)
		}
	}
}

// Attacks 56: whatever is not exactly the text of this browser, signed once and in
// time by its account, is refused, and the text is used up.
func TestAWalletSignatureCountsForOneTextInOneBrowserOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key, address := newWallet(t)
	other, _ := newWallet(t)
	curve, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
	altered := func(from, to string) func(Challenge) (string, []byte) {
		return func(c Challenge) (string, []byte) {
			text := strings.Replace(c.Message, from, to, 1)
			if text == c.Message {
				t.Fatalf("the text has no %q", from)
			}
			return hexed([]byte(text)), personalSign(t, key, text)
		}
	}
	changed := func(change func(sig []byte) []byte) func(Challenge) (string, []byte) {
		return func(c Challenge) (string, []byte) { return c.Hex(), change(personalSign(t, key, c.Message)) }
	}
	for name, attack := range map[string]func(Challenge) (string, []byte){
		"another domain":    altered("127.0.0.1:8080 wants", "evil.example wants"),
		"another URI":       altered("URI: "+origin, "URI: https://evil.example"),
		"another chain":     altered("Chain ID: 10143", "Chain ID: 1"),
		"another version":   altered("Version: 1", "Version: 2"),
		"another statement": altered("allows no payment", "allows any payment"),
		"CR LF":             altered("\n", "\r\n"),
		"a lower-case address instead of its checksum": altered(address, strings.ToLower(address)),
		"a text of its own over our text": func(c Challenge) (string, []byte) {
			return c.Hex(), personalSign(t, key, strings.Replace(c.Message, "Version: 1", "Version: 2", 1))
		},
		"another account": func(c Challenge) (string, []byte) { return c.Hex(), personalSign(t, other, c.Message) },
		"v of 29":         changed(func(sig []byte) []byte { sig[64] = 29; return sig }),
		"v of 2":          changed(func(sig []byte) []byte { sig[64] = 2; return sig }),
		"v of 35":         changed(func(sig []byte) []byte { sig[64] = 35; return sig }),
		"s in the upper half": changed(func(sig []byte) []byte {
			new(big.Int).Sub(curve, new(big.Int).SetBytes(sig[32:64])).FillBytes(sig[32:64])
			sig[64] ^= 7 // 27 to 28 and back
			return sig
		}),
		"zeros":     changed(func([]byte) []byte { return make([]byte, 65) }),
		"too short": changed(func(sig []byte) []byte { return sig[:64] }),
		"too long":  changed(func(sig []byte) []byte { return append(sig, 0) }),
	} {
		v := newVisitor()
		c := v.challenge(t, h.Service, address)
		message, sig := attack(c)
		if _, err := v.answer(h.Service, c.Nonce, message, hexed(sig)); domain.CodeOf(err) != string(domain.Forbidden) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := v.answer(h.Service, c.Nonce, c.Hex(), hexed(personalSign(t, key, c.Message))); domain.CodeOf(err) != string(domain.Forbidden) {
			t.Errorf("after %s the text can still be used: %v", name, err)
		}
		if _, signedIn := v.session(t, h.Service); signedIn {
			t.Errorf("%s: signed in", name)
		}
	}
}

func TestAWalletsTextIsForItsBrowserAndItsTime(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key, address := newWallet(t)
	sign := func(v *visitor, c Challenge) error {
		_, err := v.answer(h.Service, c.Nonce, c.Hex(), hexed(personalSign(t, key, c.Message)))
		return err
	}
	attacker, victim := newVisitor(), newVisitor()
	victim.challenge(t, h.Service, address)
	c := attacker.challenge(t, h.Service, address)
	wantRefusal(t, sign(victim, c), domain.Forbidden)
	wantRefusal(t, sign(attacker, c), domain.Forbidden) // used up by the try

	late := attacker.challenge(t, h.Service, address)
	h.wait(walletLife)
	wantRefusal(t, sign(attacker, late), domain.Forbidden)
	wantRefusal(t, sign(attacker, Challenge{Nonce: "unknown"}), domain.Forbidden)

	twice := attacker.challenge(t, h.Service, address)
	if err := sign(attacker, twice); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, sign(attacker, twice), domain.Forbidden)
}

func TestAnAddressWithAWrongChecksumIsRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const good = "0x52908400098527886E0F7030069857D2E4169EE7"
	for _, bad := range []string{"", "0x", good[2:], good[:41], good + "0", "0x52908400098527886e0F7030069857D2E4169EE7", "0xZ" + good[3:]} {
		w, r := newVisitor().request("/sign-in/wallet")
		_, err := h.BeginWallet(w, r, bad, "/", nil)
		wantRefusal(t, err, domain.Invalid)
	}
	off, err := New(Config{DB: h.store.Pool, Origin: origin, Now: h.now})
	if err != nil {
		t.Fatal(err)
	}
	_, r := newVisitor().request("/sign-in/wallet")
	_, err = off.BeginWallet(httptest.NewRecorder(), r, good, "/", nil)
	wantRefusal(t, err, domain.NotFound)
}
