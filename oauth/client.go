package oauth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// The kinds of clients, by what is known about them.
const (
	KindMetadata   = "metadata"   // it publishes a document about itself; its host is verified
	KindRegistered = "registered" // it registered itself; nothing is verified
	KindKnown      = "known"      // those who run the deployment registered it
)

// A Client is who asks for access, as an operator should see it.
type Client struct {
	ID   string
	Name string // foreign text without characters that cannot be seen; may be empty
	Host string // of its metadata document, else empty: it is verified
	Kind string // [KindMetadata], [KindRegistered] or [KindKnown]
}

// The ways a client proves at the token endpoint who it is (RFC 7591 §2).
const (
	authNone  = "none"
	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
	authKey   = "private_key_jwt"
)

// A registration is a client with what is checked about it.
type registration struct {
	Client
	redirects  []string
	auth       string
	secretHash []byte // for authBasic and authPost
	keys       keySource
}

// errNoClient says that there is no such client, or none that can be trusted now.
var errNoClient = errors.New("there is no such client")

const (
	maxClientID   = 1024 // bytes
	maxClientName = 200  // characters
)

// An endpoint is where a client shows up.
type endpoint int

const (
	atAuthorize endpoint = iota
	atToken
)

// client finds a client. A client that is not known, or whose document cannot be
// used, is errNoClient.
func (s *Server) client(ctx context.Context, id string, at endpoint) (registration, error) {
	switch {
	case id == "" || len(id) > maxClientID || !printable(id):
		return registration{}, errNoClient
	case strings.HasPrefix(id, "https://"):
		return s.publishedClient(ctx, id, at)
	}
	r := registration{Client: Client{ID: id}}
	err := s.DB.QueryRow(ctx, `
		SELECT kind, name, redirect_uris, auth_method, secret_hash
		FROM oauth.clients
		WHERE client_id = $1`, id).Scan(&r.Kind, &r.Name, &r.redirects, &r.auth, &r.secretHash)
	if errors.Is(err, pgx.ErrNoRows) {
		return registration{}, errNoClient
	}
	if err != nil {
		return registration{}, fmt.Errorf("find a client: %w", err)
	}
	return r, nil
}

// noteUse keeps a client and its document from being swept. Once a day is enough.
func (s *Server) noteUse(ctx context.Context, id string) error {
	_, err := s.DB.Exec(ctx, `
		WITH noted AS (
		  UPDATE oauth.documents
		  SET used_at = now()
		  WHERE url = $1 AND coalesce(used_at < now() - interval '1 day', true))
		UPDATE oauth.clients
		SET used_at = now()
		WHERE client_id = $1 AND coalesce(used_at < now() - interval '1 day', true)`, id)
	if err != nil {
		return fmt.Errorf("note the use of a client: %w", err)
	}
	return nil
}

// visibleName returns a name without what cannot be seen or would change the
// direction of the text around it.
func visibleName(name string) string {
	seen := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !unicode.IsGraphic(r) || unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
			return -1
		}
		return r
	}, name)
	return strings.Join(strings.Fields(seen), " ")
}
