package oauth

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"net/netip"
	"time"

	"sidequest/domain"
)

// How often one address may do what costs the server or a third party something,
// counted over all processes.
const (
	registrationsPerMinute = 20
	requestsPerMinute      = 60
	fetchesPerMinute       = 30
)

// limit counts an attempt of a subject, or refuses it with rate-limited.
func (s *Server) limit(ctx context.Context, what string, perMinute int, subject string) error {
	var wait *time.Duration
	err := s.DB.QueryRow(ctx, `
		SELECT limits.take($1, $2, $3, $4)`,
		[]string{what + " " + subject}, []int{perMinute}, rand.Text(), time.Minute).Scan(&wait)
	if err != nil {
		return fmt.Errorf("count attempts to %s: %w", what, err)
	}
	if wait == nil {
		return nil
	}
	e := domain.Refuse(domain.RateLimited, "too many attempts from this address: at most %d a minute", perMinute)
	e.After = max(1, int(math.Ceil(wait.Seconds())))
	return e
}

// neighbourhood returns what attempts from an address are counted for: of IPv6,
// where one subscriber has that many addresses, the first 64 bits.
func neighbourhood(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil || !addr.Is6() {
		return ip
	}
	prefix, err := addr.WithZone("").Prefix(64)
	if err != nil {
		return ip
	}
	return prefix.String()
}
