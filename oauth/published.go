package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"
)

// lastGood is how long a copy of a document stands in for one that cannot be had.
const lastGood = 7 * 24 * time.Hour

// publishedClient returns the client whose id is the URL of its metadata (OAuth
// Client ID Metadata Documents). Why a document cannot be used is logged and not
// told: the answer must not be a way to look into networks.
//
// Only who comes with an operator at the browser may make the server look at a
// document for the first time.
func (s *Server) publishedClient(ctx context.Context, id string, at endpoint) (registration, error) {
	host, err := checkClientURL(id)
	if err != nil {
		return registration{}, errNoClient
	}
	var r registration
	err = s.document(ctx, id, at == atAuthorize, false, func(body []byte) (err error) {
		r, err = parseMetadata(id, body)
		return err
	})
	r.Host = host
	return r, err
}

// document lets use read the document at a URL: a fresh copy, else the document
// itself, else a copy that is not too old. Only what use accepts is kept. Without
// first, there must be a copy already; with anew, a fresh one will not do unless
// it is from the last minutes.
func (s *Server) document(ctx context.Context, url string, first, anew bool, use func(body []byte) error) error {
	copied, err := s.copyOf(ctx, url)
	if err != nil {
		return err
	}
	if copied.body == nil && !first {
		return errNoClient
	}
	if copied.body != nil && (copied.fresh && !anew || copied.age < minFreshness) {
		return use(copied.body)
	}
	got, err := s.fetch(ctx, url)
	if err == nil {
		err = use(got.body)
	}
	if err == nil {
		return s.keepDocument(ctx, url, got)
	}
	s.Log.InfoContext(ctx, "a client's document cannot be used", "url", url, "error", err)
	if copied.body != nil && copied.age < lastGood && use(copied.body) == nil {
		return s.keepDocument(ctx, url, document{copied.body, time.Minute})
	}
	return errNoClient
}

// fetch gets a document, unless its host has been asked too often of late.
func (s *Server) fetch(ctx context.Context, address string) (document, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" {
		return document{}, errors.New("it is no https URL")
	}
	if err := s.limit(ctx, "fetch", fetchesPerMinute, u.Hostname()); err != nil {
		return document{}, err
	}
	return s.Outside.fetch(ctx, address)
}

// A documentCopy is a document as it was, with body nil for none.
type documentCopy struct {
	body  []byte
	age   time.Duration
	fresh bool
}

func (s *Server) copyOf(ctx context.Context, url string) (documentCopy, error) {
	var c documentCopy
	err := s.DB.QueryRow(ctx, `
		SELECT body, now() - fetched_at, fresh_until > now()
		FROM oauth.documents
		WHERE url = $1`, url).Scan(&c.body, &c.age, &c.fresh)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return documentCopy{}, fmt.Errorf("look for a client's document: %w", err)
	}
	return c, nil
}

// keepDocument keeps a copy. One that stands in for the document keeps its age.
func (s *Server) keepDocument(ctx context.Context, url string, d document) error {
	_, err := s.DB.Exec(ctx, `
		INSERT INTO oauth.documents AS d (url, body, fresh_until)
		VALUES ($1, $2, now() + $3)
		ON CONFLICT (url) DO UPDATE
		SET body = excluded.body,
		    fetched_at = CASE WHEN $3 < interval '5 minutes' THEN d.fetched_at ELSE now() END,
		    fresh_until = excluded.fresh_until`, url, d.body, d.fresh)
	if err != nil {
		return fmt.Errorf("keep a client's document: %w", err)
	}
	return nil
}

// checkClientURL checks the form of a client id that is a URL and returns its
// host. The id is compared as text and never put into another spelling.
func checkClientURL(id string) (host string, err error) {
	u, err := url.Parse(id)
	switch {
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Path == "":
		return "", errors.New("it is no https URL with a path")
	case u.User != nil || strings.Contains(id, "#") || !printable(id):
		return "", errors.New("it has a fragment, user or character that it must not have")
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return "", errors.New("its path has dot segments")
		}
	}
	return u.Host, nil
}

// metadata is what is read of a metadata document. Unknown members are ignored.
type metadata struct {
	ClientID  string         `json:"client_id"`
	Name      string         `json:"client_name"`
	Redirects []string       `json:"redirect_uris"`
	Auth      string         `json:"token_endpoint_auth_method"`
	Secret    jsontext.Value `json:"client_secret"`
	SecretEnd jsontext.Value `json:"client_secret_expires_at"`
	KeysURL   string         `json:"jwks_uri"`
	Keys      jsontext.Value `json:"jwks"`
}

// parseMetadata reads a metadata document. A public document cannot hold a
// secret, so clients prove who they are by a key or not at all.
func parseMetadata(id string, body []byte) (registration, error) {
	var m metadata
	if err := json.Unmarshal(body, &m); err != nil {
		return registration{}, errors.New("it does not parse")
	}
	if m.Auth == "" {
		m.Auth = authNone
	}
	name := visibleName(m.Name)
	switch {
	case m.ClientID != id:
		return registration{}, errors.New("it is about another client")
	case m.Secret != nil || m.SecretEnd != nil:
		return registration{}, errors.New("it has a secret, which is none in public")
	case m.Auth != authNone && m.Auth != authKey:
		return registration{}, fmt.Errorf("its token_endpoint_auth_method is not %s or %s", authNone, authKey)
	case name == "" || len([]rune(name)) > maxClientName:
		return registration{}, fmt.Errorf("its client_name has not 1 to %d characters", maxClientName)
	}
	if err := checkRedirects(m.Redirects); err != nil {
		return registration{}, err
	}
	r := registration{Client: Client{ID: id, Name: name, Kind: KindMetadata}, redirects: m.Redirects, auth: m.Auth}
	if m.Auth == authKey {
		var err error
		r.keys, err = parseKeySource(m)
		return r, err
	}
	return r, nil
}

// checkRedirects judges the redirect URIs of a client together.
func checkRedirects(all []string) error {
	uses := make([]redirectUse, len(all))
	for i, raw := range all {
		uses[i] = useOfRedirect(raw)
	}
	switch {
	case len(all) == 0 || len(all) > maxRedirects:
		return fmt.Errorf("redirect_uris has not 1 to %d entries", maxRedirects)
	case slices.Contains(uses, redirectRefused):
		return fmt.Errorf("entry %d of redirect_uris cannot be used: it must be an absolute URI of a harmless scheme, without fragment and user", slices.Index(uses, redirectRefused)+1)
	case !slices.Contains(uses, redirectUsable):
		return errors.New("no entry of redirect_uris is https or http on loopback")
	}
	return nil
}
