package signin

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/jackc/pgx/v5"

	"sidequest/domain"
)

// walletIssuer stands for wallets where an identity names its issuer. The subject
// is the address in lower case.
const walletIssuer = "eip155"

// A Challenge is a text for a wallet to sign: a message of EIP-4361, every byte of
// which is ours.
type Challenge struct {
	Nonce   string
	Address string // with its checksum (EIP-55)
	Message string
}

// Hex returns the message as wallets take it, and as forms keep it: one in which a
// browser would change the ends of lines is no longer what was signed.
func (c Challenge) Hex() string { return "0x" + hex.EncodeToString([]byte(c.Message)) }

// BeginWallet writes a text for a wallet to sign, good for five minutes, once, in
// this browser.
func (s *Service) BeginWallet(w http.ResponseWriter, r *http.Request, address, returnTo string, link *Session) (Challenge, error) {
	if !s.cfg.Wallets {
		return Challenge{}, domain.Refuse(domain.NotFound, "There is no such way to sign in.")
	}
	account, err := readAddress(address)
	if err != nil {
		return Challenge{}, err
	}
	if err := s.brake(r); err != nil {
		return Challenge{}, err
	}
	now := s.cfg.Now()
	c := Challenge{Nonce: rand.Text(), Address: account}
	c.Message = s.message(c, now)
	linkSession := ""
	if link != nil {
		linkSession = link.ID
	}
	_, err = s.cfg.DB.Exec(r.Context(), `
		INSERT INTO signin.challenges (nonce, browser_hash, address, message, return_to, link_session, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		c.Nonce, hash(browser(w, r)), c.Address, c.Message, Destination(returnTo), linkSession, now.Add(walletLife))
	if err != nil {
		return Challenge{}, fmt.Errorf("note a wallet's sign-in: %w", err)
	}
	return c, nil
}

// message is the whole text. The statement says what signing does and what not,
// since some wallets show nothing else.
func (s *Service) message(c Challenge, now time.Time) string {
	stamp := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
	return fmt.Sprintf(`%s wants you to sign in with your Ethereum account:
%s

Sign in to Sidequest. This costs nothing, moves nothing and allows no payment.

URI: %s/sign-in/wallet
Version: 1
Chain ID: %d
Nonce: %s
Issued At: %s
Expiration Time: %s`, s.domain, c.Address, s.cfg.Origin, s.cfg.ChainID, c.Nonce, stamp(now), stamp(now.Add(walletLife)))
}

// FinishWallet takes the signature over a challenge, with the message as 0x and hex
// digits, and begins a session or adds the identity. Whatever comes, the challenge
// is used up. It returns where to go.
func (s *Service) FinishWallet(w http.ResponseWriter, r *http.Request, nonce, message, signature string) (returnTo string, err error) {
	var (
		c           Challenge
		browserHash []byte
		linkSession string
		expires     time.Time
	)
	err = s.cfg.DB.QueryRow(r.Context(), `
		DELETE FROM signin.challenges
		WHERE nonce = $1
		RETURNING nonce, address, message, browser_hash, return_to, link_session, expires_at`, nonce,
	).Scan(&c.Nonce, &c.Address, &c.Message, &browserHash, &returnTo, &linkSession, &expires)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("find a wallet's sign-in: %w", err)
	}
	sameBrowser := subtle.ConstantTimeCompare(browserHash, hash(cookie(r, browserCookie))) == 1
	if err != nil || !sameBrowser || !s.cfg.Now().Before(expires) {
		return "", domain.Refuse(domain.Forbidden, "This text was made for another browser, has been used, or is older than five minutes. Begin again.")
	}
	if message != c.Hex() {
		return "", domain.Refuse(domain.Forbidden, "The text that was signed is not the one this server wrote. Begin again.").At("/message")
	}
	if err := c.signed(signature); err != nil {
		return "", err
	}
	who := identity{issuer: walletIssuer, subject: strings.ToLower(c.Address), name: shortAddress(c.Address), provider: "Wallet"}
	return returnTo, s.admit(w, r, who, linkSession)
}

// signed checks that the owner of the address signed the message (EIP-191).
func (c Challenge) signed(signature string) error {
	refused := domain.Refuse(domain.Forbidden, "The signature is not one of %s over this text. Begin again, and sign with that account.", shortAddress(c.Address)).At("/signature")
	digits, prefixed := strings.CutPrefix(strings.TrimSpace(signature), "0x")
	sig, err := hex.DecodeString(digits)
	if !prefixed || err != nil || len(sig) != crypto.SignatureLength {
		return refused
	}
	v := sig[crypto.RecoveryIDOffset]
	if v == 27 || v == 28 { // as the chain writes it
		v -= 27
	}
	sig[crypto.RecoveryIDOffset] = v
	r, high := new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:64])
	if !crypto.ValidateSignatureValues(v, r, high, true) { // the upper half of s would be a second signature
		return refused
	}
	text := fmt.Sprintf("\x19Ethereum Signed Message:\n%d%s", len(c.Message), c.Message)
	key, err := crypto.SigToPub(crypto.Keccak256([]byte(text)), sig)
	if err != nil || crypto.PubkeyToAddress(*key).Hex() != c.Address {
		return refused
	}
	return nil
}

// readAddress returns an address with its checksum. One with letters of both cases
// has been checked by that (EIP-55).
func readAddress(s string) (string, error) {
	s = strings.TrimSpace(s)
	digits, prefixed := strings.CutPrefix(s, "0x")
	if !prefixed || !common.IsHexAddress(s) {
		return "", domain.Refuse(domain.Invalid, "Give the address of your account: 0x and 40 hex digits.").At("/address")
	}
	address := common.HexToAddress(s).Hex()
	if s != address && strings.ToLower(digits) != digits && strings.ToUpper(digits) != digits {
		return "", domain.Refuse(domain.Invalid, "This address has a wrong checksum. Copy it once more from your wallet.").At("/address")
	}
	return address, nil
}

func shortAddress(a string) string { return a[:6] + "…" + a[len(a)-4:] }
