package signin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"sidequest/domain"
)

// A Provider is an OpenID provider that operators may sign in with.
type Provider struct {
	ID           string `json:"id"`   // in paths: 1–32 of [a-z0-9-]
	Name         string `json:"name"` // that people know it by
	Issuer       string `json:"issuer"`
	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret"` // "" for a public client
	About        string `json:"about"`        // a line below the name, if it needs one
}

const callbackPath = "/sign-in/callback/"

// retryPace keeps those who wait for a provider that is away from waiting for one
// another as well.
const retryPace = 2 * time.Second

// A provider is one with what its discovery document says, once it was reached.
type provider struct {
	Provider
	redirect string
	http     *http.Client

	mu       sync.Mutex
	found    *discovered
	failure  error // of the last try
	failedAt time.Time
}

type discovered struct {
	config   oauth2.Config
	provider *oidc.Provider
	verifier *oidc.IDTokenVerifier
	sendsIss bool // RFC 9207
}

// document is what go-oidc does not read of a discovery document.
type document struct {
	SendsIss    bool     `json:"authorization_response_iss_parameter_supported"`
	AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
}

// discover reaches the provider on first use, and again as long as that failed.
func (p *provider) discover(ctx context.Context) (*discovered, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil || time.Since(p.failedAt) < retryPace {
		return p.found, p.failure
	}
	p.found, p.failure = p.read(ctx)
	if p.failure != nil {
		p.failedAt = time.Now()
	}
	return p.found, p.failure
}

func (p *provider) read(ctx context.Context) (*discovered, error) {
	// The key set keeps this context for as long as the provider is in use.
	found, err := oidc.NewProvider(p.context(context.WithoutCancel(ctx)), p.Issuer)
	if err != nil {
		return nil, fmt.Errorf("discover the provider %s: %w", p.ID, err)
	}
	var doc document
	if err := found.Claims(&doc); err != nil {
		return nil, fmt.Errorf("read the discovery document of %s: %w", p.ID, err)
	}
	return &discovered{
		provider: found,
		config: oauth2.Config{
			ClientID: p.ClientID, ClientSecret: p.ClientSecret, RedirectURL: p.redirect,
			Endpoint: oauth2.Endpoint{AuthURL: found.Endpoint().AuthURL, TokenURL: found.Endpoint().TokenURL, AuthStyle: p.style(doc)},
			Scopes:   []string{oidc.ScopeOpenID, "profile", "email"},
		},
		verifier: found.Verifier(&oidc.Config{ClientID: p.ClientID}),
		sendsIss: doc.SendsIss,
	}, nil
}

// style says how the client shows its secret. To find out by trying, as the library
// would, may burn the code.
func (p *provider) style(doc document) oauth2.AuthStyle {
	if p.ClientSecret == "" || slices.Contains(doc.AuthMethods, "client_secret_post") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader // the default of RFC 8414
}

func (p *provider) context(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.http)
}

func (s *Service) provider(id string) (*provider, error) {
	for _, p := range s.providers {
		if p.ID == id {
			return p, nil
		}
	}
	return nil, domain.Refuse(domain.NotFound, "There is no such way to sign in.")
}
