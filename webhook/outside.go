package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sidequest/domain"

	"code.dny.dev/ssrf"
)

// Outside says what may be connected to. Production leaves it empty: port 443 of
// addresses of the public internet.
type Outside struct {
	Roots    *x509.CertPool                                               // trusted instead of the system's
	Lookup   func(ctx context.Context, host string) ([]netip.Addr, error) // instead of the system's
	Ports    []uint16                                                     // allowed instead of 443
	Loopback bool                                                         // addresses of this machine are allowed too, at any port
	Denied   []netip.Prefix                                               // of the deployment's own public addresses
}

const (
	maxURL      = 2048
	lookupLimit = 8 * time.Second
	maxTargets  = 3 // addresses of one name that are tried
)

// azureHost answers on an address of the public internet for the machine it runs on.
const azureHost = "168.63.129.16/32"

// Endpoint reads the address of a receiver and returns its host with the port. It
// refuses what could not be meant: other schemes, passwords, fragments, addresses
// in place of names, other ports.
func (o Outside) Endpoint(raw string) (host string, err error) {
	u, err := url.Parse(raw)
	switch {
	case len(raw) > maxURL:
		return "", badURL("must have at most %d bytes", maxURL)
	case err != nil || u.Host == "" || u.Opaque != "":
		return "", badURL("must be a URL such as https://example.com/hooks")
	case u.Scheme != "https":
		return "", badURL("must use https")
	case u.User != nil:
		return "", badURL("must not name a user")
	case strings.Contains(raw, "#"):
		return "", badURL("must not have a fragment")
	}
	name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if !isName(name) {
		return "", badURL("must name its host in ASCII, not give an address of it")
	}
	port := uint64(443)
	if p := u.Port(); p != "" {
		if port, err = strconv.ParseUint(p, 10, 16); err != nil {
			return "", badURL("has a port that is none")
		}
	}
	if !o.Loopback && !slices.Contains(o.ports(), uint16(port)) {
		return "", badURL("must use port 443")
	}
	return net.JoinHostPort(name, strconv.FormatUint(port, 10)), nil
}

func badURL(format string, args ...any) *domain.Error {
	return domain.Refuse(domain.Invalid, "delivery.url "+format, args...).At("/delivery/url")
}

var nameForm = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z]([a-z0-9-]*[a-z0-9])?$`)

// isName says whether a host is a name. Resolvers take numbers in many forms for
// addresses; no name of the public internet ends in one.
func isName(host string) bool { return len(host) <= 253 && nameForm.MatchString(host) }

func (o Outside) ports() []uint16 {
	if o.Ports == nil {
		return []uint16{443}
	}
	return o.Ports
}

// transport returns what connects to receivers. An address is checked when it is
// connected to, every time, so that a name cannot resolve to one address for the
// check and to another for the connection. There are no redirects and no proxies.
func (o Outside) transport(perHost int) *http.Transport {
	dialer := &net.Dialer{Control: o.guard().Safe}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return o.dial(ctx, dialer, network, addr)
		},
		TLSClientConfig:        &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    lookupLimit,
		DisableCompression:     true, // a small answer may unpack to a large one
		MaxResponseHeaderBytes: 16 << 10,
		MaxIdleConnsPerHost:    perHost,
		MaxIdleConns:           1024,
		IdleConnTimeout:        30 * time.Second, // before most receivers close theirs
	}
}

func (o Outside) guard() *ssrf.Guardian {
	denied := append([]netip.Prefix{netip.MustParsePrefix(azureHost)}, o.Denied...)
	var v4, v6 []netip.Prefix
	for _, p := range denied {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	options := []ssrf.Option{ssrf.WithDeniedV4Prefixes(v4...), ssrf.WithDeniedV6Prefixes(v6...), ssrf.WithPorts(o.ports()...)}
	if o.Loopback {
		options = append(options, ssrf.WithAnyPort(),
			ssrf.WithAllowedV4Prefixes(netip.MustParsePrefix("127.0.0.0/8")),
			ssrf.WithAllowedV6Prefixes(netip.MustParsePrefix("::1/128")))
	}
	return ssrf.New(options...)
}

func (o Outside) dial(ctx context.Context, dialer *net.Dialer, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	found, err := o.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	failure := fmt.Errorf("%s has no address", host)
	for _, ip := range found[:min(len(found), maxTargets)] {
		target := net.JoinHostPort(ip.Unmap().String(), port)
		conn, err := dialer.DialContext(ctx, network, target)
		if err == nil {
			return conn, nil
		}
		failure = err
	}
	return nil, failure
}

func (o Outside) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	if o.Lookup != nil {
		return o.Lookup(ctx, host)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// category returns what is said of a request that got no answer.
func category(err error) string {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var timeout net.Error
	switch {
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert):
		return errTLS
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return errTimeout
	}
	return errConnection
}
