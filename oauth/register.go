package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"sidequest/domain"
)

// maxRegistration bounds the body of a registration, in bytes.
const maxRegistration = 16 << 10

// A clientMetadata is what is read of a registration request (RFC 7591 §2).
// Unknown members are ignored, and so are scope, since what a client may ask for
// is not decided here, and application_type, since clients leave it out.
type clientMetadata struct {
	Name          string   `json:"client_name"`
	Redirects     []string `json:"redirect_uris"`
	Auth          string   `json:"token_endpoint_auth_method"`
	GrantTypes    []string `json:"grant_types"`
	ResponseTypes []string `json:"response_types"`
}

// A registered is the answer to a registration (RFC 7591 §3.2.1).
type registered struct {
	ClientID      string   `json:"client_id"`
	IssuedAt      int64    `json:"client_id_issued_at"`
	Secret        string   `json:"client_secret,omitempty"`
	SecretEnd     *int64   `json:"client_secret_expires_at,omitempty"` // 0: never
	Name          string   `json:"client_name,omitempty"`
	Redirects     []string `json:"redirect_uris"`
	Auth          string   `json:"token_endpoint_auth_method"`
	GrantTypes    []string `json:"grant_types"`
	ResponseTypes []string `json:"response_types"`
	Scope         string   `json:"scope"`
}

// serveRegister registers a client (RFC 7591 §3).
func (s *Server) serveRegister(w http.ResponseWriter, r *http.Request) {
	if err := s.limit(r.Context(), "register", registrationsPerMinute, neighbourhood(s.ClientIP(r))); err != nil {
		s.writeFault(w, r, err)
		return
	}
	m, err := readRegistration(w, r)
	if err != nil {
		s.writeFault(w, r, err)
		return
	}
	answer, err := s.register(r.Context(), KindRegistered, m)
	if err != nil {
		s.writeFault(w, r, err)
		return
	}
	s.Log.InfoContext(r.Context(), "client registered", "client", answer.ClientID, "ip", s.ClientIP(r))
	s.writeJSON(w, r, http.StatusCreated, answer)
}

func readRegistration(w http.ResponseWriter, r *http.Request) (clientMetadata, error) {
	var m clientMetadata
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return m, bad(invalidRequest, "send the metadata as application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRegistration))
	if err != nil {
		return m, bad(invalidClientMetadata, "the metadata did not arrive whole, or is larger than 16384 bytes")
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return m, bad(invalidClientMetadata, "the metadata is not a JSON object of the expected form")
	}
	err = m.check()
	return m, err
}

// check refuses metadata that cannot be served. The default of RFC 7591 for a
// client that names no way to authenticate would be a secret; most that name none
// are public, and are told so in the answer.
func (m *clientMetadata) check() error {
	m.Name = visibleName(m.Name)
	if m.Auth == "" {
		m.Auth = authNone
	}
	switch {
	case len([]rune(m.Name)) > maxClientName:
		return bad(invalidClientMetadata, fmt.Sprintf("client_name has more than %d characters", maxClientName))
	case !slices.Contains([]string{authNone, authBasic, authPost}, m.Auth):
		return bad(invalidClientMetadata, "token_endpoint_auth_method is none, client_secret_basic or client_secret_post")
	case len(m.GrantTypes) > 0 && !slices.Contains(m.GrantTypes, "authorization_code"):
		return bad(invalidClientMetadata, "grant_types must have authorization_code, the only way to begin")
	case len(m.ResponseTypes) > 0 && !slices.Contains(m.ResponseTypes, "code"):
		return bad(invalidClientMetadata, "response_types must have code, the only one there is")
	}
	if err := checkRedirects(m.Redirects); err != nil {
		return bad(invalidRedirect, err.Error())
	}
	return nil
}

// register keeps a client. Public clients with the same metadata are the same
// client, whoever registers it: their id is made of the metadata.
func (s *Server) register(ctx context.Context, kind string, m clientMetadata) (registered, error) {
	id, secret, err := identify(kind, m)
	if err != nil {
		return registered{}, err
	}
	answer := registered{
		ClientID: id, Secret: secret, Name: m.Name, Redirects: m.Redirects, Auth: m.Auth,
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		Scope: strings.Join(append(domain.Scopes(), offlineAccess), " "),
	}
	var hash []byte
	if secret != "" {
		hash = hashOf(secret)
		answer.SecretEnd = new(int64)
	}
	var created time.Time
	err = s.DB.QueryRow(ctx, `
		INSERT INTO oauth.clients AS c (client_id, kind, name, redirect_uris, auth_method, secret_hash)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (client_id) DO UPDATE SET used_at = c.used_at
		RETURNING created_at`, id, kind, m.Name, m.Redirects, m.Auth, hash).Scan(&created)
	if err != nil {
		return registered{}, fmt.Errorf("register a client: %w", err)
	}
	answer.IssuedAt = created.Unix()
	return answer, nil
}

// identify returns the id of a client, and a new secret if it needs one. No id
// can be taken for that of another kind.
func identify(kind string, m clientMetadata) (id, secret string, err error) {
	if m.Auth != authNone {
		secret = "cs_" + newSecret()
	}
	switch {
	case kind == KindKnown:
		return "app_" + strings.ToLower(rand.Text()), secret, nil
	case secret != "":
		return "dcs_" + strings.ToLower(rand.Text()), secret, nil
	}
	canonical, err := stdjson.Marshal([]any{m.Name, m.Redirects})
	if err != nil {
		return "", "", errors.New("encode the metadata of a client")
	}
	sum := sha256.Sum256(canonical)
	return "dcr_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])), "", nil
}

// Know registers a client on behalf of those who run the deployment, with a secret
// if it can keep one. It needs nothing of the server but the database.
func (s *Server) Know(ctx context.Context, name string, redirects []string, confidential bool) (id, secret string, err error) {
	m := clientMetadata{Name: name, Redirects: redirects}
	if confidential {
		m.Auth = authBasic
	}
	if err := m.check(); err != nil {
		return "", "", err
	}
	answer, err := s.register(ctx, KindKnown, m)
	return answer.ClientID, answer.Secret, err
}
