package oauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"code.dny.dev/ssrf"
)

// Outside says how documents of clients are fetched. Production leaves it empty:
// the port is 443, and only addresses of the public internet are connected to.
type Outside struct {
	Roots    *x509.CertPool // trusted instead of the system's
	Resolver *net.Resolver  // asked instead of the system's
	Ports    []uint16       // allowed instead of 443
	Loopback bool           // addresses of this machine are allowed too
}

const (
	maxDocument  = 5 << 10 // bytes
	fetchTime    = 5 * time.Second
	minFreshness = 5 * time.Minute
	maxFreshness = 24 * time.Hour
)

// A document is one that was fetched.
type document struct {
	body  []byte
	fresh time.Duration
}

// fetch gets a JSON document. The address is checked when it is connected to, so
// that a name cannot resolve to one address for the check and to another for the
// connection. Redirects are not followed: they would lead somewhere unchecked.
func (o Outside) fetch(ctx context.Context, url string) (document, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return document{}, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "sidequest")
	client := o.client()
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return document{}, err
	}
	defer resp.Body.Close()
	return readDocument(resp)
}

func (o Outside) client() *http.Client {
	ports := o.Ports
	if ports == nil {
		ports = []uint16{443}
	}
	options := []ssrf.Option{ssrf.WithPorts(ports...)}
	if o.Loopback {
		options = append(options,
			ssrf.WithAllowedV4Prefixes(netip.MustParsePrefix("127.0.0.0/8")),
			ssrf.WithAllowedV6Prefixes(netip.MustParsePrefix("::1/128")))
	}
	dialer := &net.Dialer{Control: ssrf.New(options...).Safe, Resolver: o.Resolver}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
			DisableCompression:     true, // a small answer may unpack to a large one
			MaxResponseHeaderBytes: 16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func readDocument(resp *http.Response) (document, error) {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	isJSON := kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
	switch {
	case resp.StatusCode != http.StatusOK:
		return document{}, fmt.Errorf("status %d", resp.StatusCode)
	case err != nil || !isJSON:
		return document{}, errors.New("it is not JSON")
	case resp.Header.Get("Content-Encoding") != "" && resp.Header.Get("Content-Encoding") != "identity":
		return document{}, errors.New("it is compressed")
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return document{}, err
	}
	if len(body) > maxDocument {
		return document{}, fmt.Errorf("it is larger than %d bytes", maxDocument)
	}
	return document{body, freshness(resp.Header.Get("Cache-Control"))}, nil
}

// freshness returns how long a document may be used without another look, within
// bounds of our own (RFC 9111 §5.2.2).
func freshness(cacheControl string) time.Duration {
	for directive := range strings.SplitSeq(cacheControl, ",") {
		age, found := strings.CutPrefix(strings.ToLower(strings.TrimSpace(directive)), "max-age=")
		if seconds, err := strconv.ParseInt(age, 10, 32); found && err == nil {
			return min(max(time.Duration(seconds)*time.Second, minFreshness), maxFreshness)
		}
	}
	return minFreshness
}
