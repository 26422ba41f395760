// Package devidp is the OpenID provider of a development deployment: a page with
// three ready-made people, and no password.
//
// It guarantees that it exists on loopback alone: see [New]. All else is as at a
// real provider, so that a sign-in takes the same way on a laptop: discovery,
// authorization code with PKCE, ID token, keys. It must not know what its people
// are good for.
package devidp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/secret"
)

const (
	// ClientID is the one client there is. It has no secret, so PKCE is needed.
	ClientID = "sidequest"

	path     = "/dev-idp"
	keyName  = "devidp:1"
	keyID    = "dev-1"
	codeLife = time.Minute
	idLife   = 5 * time.Minute
)

// A Person can sign in by a click.
type Person struct {
	Subject, Name, Email, About string
}

// People are the ready-made operators.
func People() []Person {
	return []Person{
		{"ada", "Ada Okafor", "ada@sidequest.example", "An operator, whose agents are hers alone"},
		{"ben", "Ben Lindqvist", "ben@sidequest.example", "Another operator, who sees nothing of Ada's"},
		{"judith", "Judith Reyes", "judith@sidequest.example", "The arbitrator, who rules on disputes"},
	}
}

// A Provider is the provider of one deployment.
type Provider struct {
	cfg    Config
	signer jose.Signer
	keys   []byte // the public ones, as JSON
}

// A Config is what a provider needs.
type Config struct {
	Origin      string // of the deployment; its host must be loopback
	RedirectURI string // the only one that codes are sent to
	DB          *pgxpool.Pool
	Vault       secret.Vault // keeps the signing key
	Now         func() time.Time
	Log         *slog.Logger
}

// New returns the provider, or an error if the deployment can be reached from
// anywhere else than this machine: whoever opens the page may be anybody.
func New(ctx context.Context, cfg Config) (*Provider, error) {
	origin, err := url.Parse(cfg.Origin)
	if err != nil || !loopback(origin.Hostname()) {
		return nil, fmt.Errorf("the development sign-in has no passwords and runs on loopback alone, not at %s: "+
			"give SIDEQUEST_PUBLIC_URL a loopback host, or configure providers by SIDEQUEST_OIDC_FILE", cfg.Origin)
	}
	der, err := cfg.Vault.GetOrCreate(ctx, keyName, func() ([]byte, error) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		return x509.MarshalPKCS8PrivateKey(key)
	})
	if err != nil {
		return nil, err
	}
	p := &Provider{cfg: cfg}
	if err := p.useKey(der); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Provider) useKey(der []byte) error {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return fmt.Errorf("read the key of the development sign-in: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return errors.New("the key of the development sign-in is of another kind")
	}
	options := new(jose.SignerOptions).WithType("JWT").WithHeader(jose.HeaderKey("kid"), keyID)
	if p.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, options); err != nil {
		return fmt.Errorf("use the key of the development sign-in: %w", err)
	}
	p.keys, err = json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: key.Public(), KeyID: keyID, Algorithm: string(jose.ES256), Use: "sig"},
	}})
	return err
}

func loopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// Issuer names the provider.
func (p *Provider) Issuer() string { return p.cfg.Origin + path }

// Routes adds the endpoints.
func (p *Provider) Routes(mux *http.ServeMux) {
	local := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if host := (&url.URL{Host: r.Host}).Hostname(); !loopback(host) { // a name that was rebound to this machine
				http.NotFound(w, r)
				return
			}
			h(w, r)
		}
	}
	mux.HandleFunc("GET "+path+"/.well-known/openid-configuration", local(p.discovery))
	mux.HandleFunc("GET "+path+"/jwks", local(func(w http.ResponseWriter, _ *http.Request) { sendJSON(w, http.StatusOK, p.keys) }))
	mux.HandleFunc("GET "+path+"/authorize", local(p.choose))
	mux.Handle("POST "+path+"/authorize", http.NewCrossOriginProtection().Handler(local(p.chosen)))
	mux.HandleFunc("POST "+path+"/token", local(p.token))
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	iss := p.Issuer()
	body, err := json.Marshal(map[string]any{
		"issuer": iss, "authorization_endpoint": iss + "/authorize", "token_endpoint": iss + "/token", "jwks_uri": iss + "/jwks",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"ES256"}, "code_challenge_methods_supported": []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{"none"}, "scopes_supported": []string{"openid", "profile", "email"},
		"authorization_response_iss_parameter_supported": true,
	})
	if err != nil {
		p.fail(w, "encode the discovery document", err)
		return
	}
	sendJSON(w, http.StatusOK, body)
}

func sendJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func (p *Provider) fail(w http.ResponseWriter, tried string, err error) {
	p.cfg.Log.Error(tried, "error", err)
	sendJSON(w, http.StatusInternalServerError, []byte(`{"error":"server_error"}`))
}
