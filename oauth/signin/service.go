package signin

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/oklog/ulid/v2"

	"sidequest/domain"
	"sidequest/eventstore"
)

// How long things last.
const (
	attemptLife  = 10 * time.Minute
	walletLife   = 5 * time.Minute
	idleLife     = 12 * time.Hour     // of a session nobody uses
	sessionLife  = 7 * 24 * time.Hour // of any session
	seenPace     = time.Minute        // how exactly the use of a session is noted
	beginsPerIP  = 30                 // sign-ins that one address may begin in a minute
	providerWait = 10 * time.Second   // for one answer of a provider
)

// A Service signs operators in. Make one with [New].
type Service struct {
	cfg       Config
	domain    string // authority of the origin: what a wallet shows it signs in to
	providers []*provider
}

// A Config is what a service needs.
type Config struct {
	DB        *pgxpool.Pool
	Store     *eventstore.Store // where operators are recorded
	Origin    string            // of the deployment, without a slash at the end
	Providers []Provider        // in the order in which people see them
	Wallets   bool              // whether a wallet may sign in
	ChainID   int64             // that wallets sign for
	ClientIP  func(*http.Request) string
	HTTP      *http.Client // for providers; nil for one with a time limit
	Now       func() time.Time
	Log       *slog.Logger
}

// New returns a service. It reaches no provider yet: one that is away must not keep
// the program from starting.
func New(cfg Config) (*Service, error) {
	origin, err := url.Parse(cfg.Origin)
	if err != nil {
		return nil, fmt.Errorf("read the origin: %w", err)
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{Timeout: providerWait}
	}
	s := &Service{cfg: cfg, domain: origin.Host}
	for _, p := range cfg.Providers {
		s.providers = append(s.providers, &provider{Provider: p, redirect: cfg.Origin + callbackPath + p.ID, http: cfg.HTTP})
	}
	return s, nil
}

// Providers lists the providers people can sign in with.
func (s *Service) Providers() []Provider { return s.cfg.Providers }

// Wallets says whether people can sign in with a wallet.
func (s *Service) Wallets() bool { return s.cfg.Wallets }

// Sweep removes what has expired, a bounded number of rows at a time. It need not
// run for anything to expire.
func (s *Service) Sweep(ctx context.Context) error {
	now := s.cfg.Now()
	for _, q := range []struct {
		sql    string
		before time.Time
	}{
		{`DELETE FROM signin.attempts
		  WHERE state_hash IN (SELECT state_hash FROM signin.attempts WHERE expires_at < $1 LIMIT 1000)`, now},
		{`DELETE FROM signin.challenges
		  WHERE nonce IN (SELECT nonce FROM signin.challenges WHERE expires_at < $1 LIMIT 1000)`, now},
		{`DELETE FROM signin.development_codes
		  WHERE code_hash IN (SELECT code_hash FROM signin.development_codes WHERE expires_at < $1 LIMIT 1000)`, now},
		{`DELETE FROM signin.sessions
		  WHERE secret_hash IN (SELECT secret_hash FROM signin.sessions WHERE seen_at < $1 LIMIT 1000)`, now.Add(-idleLife)},
	} {
		if _, err := s.cfg.DB.Exec(ctx, q.sql, q.before); err != nil {
			return fmt.Errorf("sweep what sign-ins left: %w", err)
		}
	}
	return nil
}

// brake counts the beginning of a sign-in against the address it comes from.
func (s *Service) brake(r *http.Request) error {
	var wait *time.Duration
	err := s.cfg.DB.QueryRow(r.Context(), `
		SELECT limits.take($1, $2, $3, $4)`,
		[]string{"sign-in " + s.cfg.ClientIP(r)}, []int{beginsPerIP}, ulid.Make().String(), time.Minute).Scan(&wait)
	if err != nil {
		return fmt.Errorf("count sign-ins: %w", err)
	}
	if wait == nil {
		return nil
	}
	e := domain.Refuse(domain.RateLimited, "Too many sign-ins were begun from your address. Wait a minute and try again.")
	e.After = max(1, int(math.Ceil(wait.Seconds())))
	return e
}
