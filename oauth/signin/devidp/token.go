package devidp

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"
)

// token exchanges a code for an ID token. A code works once, whoever presents it.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	if err := r.ParseForm(); err != nil || r.PostForm.Get("grant_type") != "authorization_code" {
		sendJSON(w, http.StatusBadRequest, []byte(`{"error":"unsupported_grant_type"}`))
		return
	}
	var body []byte
	err := p.cfg.DB.QueryRow(r.Context(), `
		DELETE FROM signin.development_codes
		WHERE code_hash = $1
		RETURNING CASE WHEN expires_at > $2 THEN request END`, digest(r.PostForm.Get("code")), p.cfg.Now()).Scan(&body)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		p.fail(w, "find the code of a development sign-in", err)
		return
	}
	var req request
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	proof := base64.RawURLEncoding.EncodeToString(sum[:])
	if body == nil || json.Unmarshal(body, &req) != nil ||
		r.PostForm.Get("client_id") != ClientID || r.PostForm.Get("redirect_uri") != p.cfg.RedirectURI ||
		subtle.ConstantTimeCompare([]byte(proof), []byte(req.Challenge)) != 1 {
		sendJSON(w, http.StatusBadRequest, []byte(`{"error":"invalid_grant"}`))
		return
	}
	p.sendToken(w, req)
}

func (p *Provider) sendToken(w http.ResponseWriter, req request) {
	who, _ := person(req.Subject)
	now := p.cfg.Now()
	claims, err := json.Marshal(map[string]any{
		"iss": p.Issuer(), "aud": ClientID, "azp": ClientID, "sub": who.Subject, "nonce": req.Nonce,
		"iat": now.Unix(), "exp": now.Add(idLife).Unix(),
		"name": who.Name, "preferred_username": who.Subject, "email": who.Email, "email_verified": true,
	})
	if err != nil {
		p.fail(w, "encode an ID token", err)
		return
	}
	signed, err := p.signer.Sign(claims)
	if err != nil {
		p.fail(w, "sign an ID token", err)
		return
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		p.fail(w, "encode an ID token", err)
		return
	}
	answer, err := json.Marshal(map[string]any{
		"access_token": rand.Text(), "token_type": "Bearer", "expires_in": int(idLife.Seconds()), "id_token": compact, // the access token opens nothing
	})
	if err != nil {
		p.fail(w, "encode a token answer", err)
		return
	}
	sendJSON(w, http.StatusOK, answer)
}
