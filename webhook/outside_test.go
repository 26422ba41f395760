package webhook

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"code.dny.dev/ssrf"
)

// denied are addresses that no webhook may reach: of this machine and its networks,
// of the machines of clouds that answer for them, of documentation, and those in
// which another address hides.
var denied = []string{
	"127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200",
	"192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255", "168.63.129.16",
	"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b:1::a9fe:a9fe", "2002:7f00:1::", "2001::1",
	"2001:db8::1", "3fff::1", "4000::1", "5f00::1", "100::1", "100:0:0:1::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
}

func TestNoDeniedAddressIsConnectedTo(t *testing.T) {
	t.Parallel()
	for _, address := range denied {
		ip := netip.MustParseAddr(address)
		o := Outside{Lookup: func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{ip}, nil }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		conn, err := o.transport(1).DialContext(ctx, "tcp", "hooks.example.com:443")
		cancel()
		if err == nil {
			_ = conn.Close()
			t.Errorf("%s is connected to", address)
			continue
		}
		if !errors.Is(err, ssrf.ErrProhibitedIP) {
			t.Errorf("%s is not refused but tried: %v", address, err)
		}
	}
}

func TestAddressesOfThePublicInternetPass(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"8.8.8.8", "2606:4700:4700::1111"} {
		if err := (Outside{}).guard().Safe("tcp"+map[bool]string{true: "4", false: "6"}[netip.MustParseAddr(address).Is4()],
			net.JoinHostPort(address, "443"), nil); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if err := (Outside{}).guard().Safe("tcp4", net.JoinHostPort("8.8.8.8", "25"), nil); err == nil {
			t.Error("another port passes")
		}
	}
}

func TestANameThatChangesItsMindReachesNothing(t *testing.T) {
	t.Parallel()
	inner := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was reached") }))
	defer inner.Close()
	lookups := 0
	o := Outside{Lookup: func(context.Context, string) ([]netip.Addr, error) {
		if lookups++; lookups == 1 {
			return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil // documentation: nobody is there
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}}
	for range 2 {
		client := &http.Client{Transport: o.transport(1)}
		if res, err := client.Get("https://example.com:" + port(inner.URL)); err == nil {
			_ = res.Body.Close()
			t.Error("it answers")
		}
	}
}

func port(url string) string { return url[strings.LastIndex(url, ":")+1:] }

func TestTheAddressOfAReceiverIsOneNameUnderHTTPS(t *testing.T) {
	t.Parallel()
	for raw, host := range map[string]string{
		"https://example.com/hooks":            "example.com:443",
		"https://Example.COM:443/hooks?x=%20y": "example.com:443",
		"https://example.com./":                "example.com:443",
		"https://xn--bcher-kva.example/":       "xn--bcher-kva.example:443",
	} {
		if got, err := (Outside{}).Endpoint(raw); err != nil || got != host {
			t.Errorf("%s is at %q, %v", raw, got, err)
		}
	}
	for _, raw := range []string{
		"", "/hooks", "http://example.com/", "ftp://example.com/", "https://", "https://me:pw@example.com/", "https://example.com/#a", "https://example.com/#",
		"https://example.com:8443/", "https://example.com:99999/", "https://127.0.0.1/", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://2130706433/",
		"https://0x7f000001/", "https://0x7f.1/", "https://017700000001/", "https://127.1/", "https://bücher.example/", "https://exa mple.com/",
		"https://example.com\x00.evil/", "https:example.com", "https://-example.com/", "https://example..com/", "https://" + strings.Repeat("a", 2048),
	} {
		if host, err := (Outside{}).Endpoint(raw); err == nil {
			t.Errorf("%q is taken for %s", raw, host)
		}
	}
}

func FuzzAnAddressIsRefusedOrAName(f *testing.F) {
	for _, seed := range []string{"https://example.com/", "https://1.2.3.4/", "https://[::1]:443/", "https://a@b/", "https://0x7f.1/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		host, err := Outside{}.Endpoint(raw)
		if err != nil {
			return
		}
		name, port, err := net.SplitHostPort(host)
		if _, isAddress := netip.ParseAddr(name); err != nil || isAddress == nil || port != "443" || !isName(name) {
			t.Errorf("%q is taken for %s", raw, host)
		}
	})
}
