package oauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sidequest/domain"
)

// A publisher serves metadata documents over TLS on this machine.
type publisher struct {
	*httptest.Server
	asked atomic.Int64

	mu    sync.Mutex
	pages map[string]http.HandlerFunc
}

func newPublisher(t *testing.T) *publisher {
	t.Helper()
	p := &publisher{pages: map[string]http.HandlerFunc{}}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		p.mu.Lock()
		page := p.pages[r.URL.Path]
		p.mu.Unlock()
		if page == nil {
			http.NotFound(w, r)
			return
		}
		page(w, r)
	}))
	p.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	p.StartTLS()
	t.Cleanup(p.Close)
	return p
}

func (p *publisher) serve(path string, page http.HandlerFunc) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages[path] = page
	return p.id(path)
}

func (p *publisher) id(path string) string { return p.URL + path }

// outside lets a server reach the publisher.
func (p *publisher) outside(t *testing.T) func(*Server) {
	t.Helper()
	u, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(p.Certificate())
	return func(s *Server) { s.Outside = Outside{Roots: roots, Ports: []uint16{uint16(port)}, Loopback: true} }
}

// metadataOf returns a good document about a client, with changes; nil removes a
// member.
func metadataOf(id string, changes map[string]any) []byte {
	m := map[string]any{"client_id": id, "client_name": "Published", "redirect_uris": []string{callback}}
	for name, value := range changes {
		if m[name] = value; value == nil {
			delete(m, name)
		}
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return raw
}

func page(contentType string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body)
	}
}

// publish publishes a good document and returns the id of its client.
func (p *publisher) publish(path string, changes map[string]any) string {
	return p.serve(path, page("application/json", metadataOf(p.id(path), changes)))
}

func TestAClientThatPublishesItsMetadataNeedsNoRegistration(t *testing.T) {
	t.Parallel()
	p := newPublisher(t)
	d := newDeployment(t)
	s, there := d.serve(t, p.outside(t)), d.serve(t, p.outside(t))
	id := p.publish("/client.json", map[string]any{"client_secret_note": "unknown members are ignored"})
	b := newBrowser()
	request := b.pending(t, s, asks(id, nil))
	pending, err := there.Pending(t.Context(), b.on(t), request)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := pending.Client, (Client{ID: id, Name: "Published", Host: strings.TrimPrefix(p.URL, "https://"), Kind: KindMetadata}); got != want {
		t.Errorf("client = %+v, want %+v", got, want)
	}
	answer, _ := b.allow(t, there, request, bound(domain.ScopeRead))
	r := s.post(t, pathToken, codeForm(id, answer.Get("code"), nil))
	if r.status != http.StatusOK {
		t.Fatalf("token: %d %s", r.status, r.body)
	}
	p.Close()
	if r := there.refreshed(t, id, r.text("refresh_token"), nil); r.status != http.StatusOK {
		t.Errorf("refresh while the publisher is down: %d %s", r.status, r.body)
	}
	if n := p.asked.Load(); n != 1 {
		t.Errorf("the document was fetched %d times", n)
	}
}

func TestADocumentThatCannotBeTrustedIsNoClient(t *testing.T) {
	t.Parallel()
	p := newPublisher(t)
	s := newDeployment(t).serve(t, p.outside(t))
	ids := map[string]string{
		"another id":            p.serve("/id", page("application/json", metadataOf(p.id("/other"), nil))),
		"an id with a query":    p.serve("/query", page("application/json", metadataOf(p.id("/query?x"), nil))),
		"a secret":              p.publish("/secret", map[string]any{"client_secret": "x"}),
		"a secret's end":        p.publish("/secret-end", map[string]any{"client_secret_expires_at": 0}),
		"a secret's method":     p.publish("/method", map[string]any{"token_endpoint_auth_method": authBasic}),
		"a key and no keys":     p.publish("/keyless", map[string]any{"token_endpoint_auth_method": authKey}),
		"a private key":         p.publish("/private", map[string]any{"token_endpoint_auth_method": authKey, "jwks": privateSet(t)}),
		"keys in two places":    p.publish("/twice", map[string]any{"token_endpoint_auth_method": authKey, "jwks": map[string]any{"keys": []any{}}, "jwks_uri": p.URL}),
		"no name":               p.publish("/nameless", map[string]any{"client_name": nil}),
		"a name of nothing":     p.publish("/unnamed", map[string]any{"client_name": "\u200b"}),
		"no redirect URI":       p.publish("/nowhere", map[string]any{"redirect_uris": nil}),
		"a dangerous one":       p.publish("/script", map[string]any{"redirect_uris": []string{callback, "javascript:x"}}),
		"HTML":                  p.serve("/html", page("text/html", metadataOf(p.id("/html"), nil))),
		"HTML with a good type": p.serve("/disguised", page("application/json", []byte("<html>"))),
		"a member twice":        p.serve("/double", page("application/json", []byte(`{"client_id":"`+p.id("/double")+`","client_name":"a","client_name":"b","redirect_uris":["`+callback+`"]}`))),
		"more than 5 KB":        p.publish("/large", map[string]any{"x": strings.Repeat("x", maxDocument)}),
		"something compressed": p.serve("/gzip", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			page("application/json", metadataOf(p.id("/gzip"), nil))(w, r)
		}),
		"a redirect": p.serve("/moved", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, p.publish("/target", nil), http.StatusFound)
		}),
		"an error": p.serve("/error", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write(metadataOf(p.id("/error"), nil))
		}),
		"nothing": p.id("/missing"),
	}
	for name, id := range ids {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newBrowser().ask(t, s, asks(id, nil))
			wantPage(t, r)
			if want := newBrowser().ask(t, s, asks("dcr_nobody", nil)).body; r.body != want {
				t.Errorf("the page says %q, and %q for any other client", r.body, want)
			}
		})
	}
	t.Run("and it is not remembered", func(t *testing.T) {
		t.Parallel()
		id := p.serve("/mended", page("text/html", nil))
		wantPage(t, newBrowser().ask(t, s, asks(id, nil)))
		p.publish("/mended", nil)
		newBrowser().pending(t, s, asks(id, nil))
	})
}

func TestTheURLOfADocumentHasOneForm(t *testing.T) {
	t.Parallel()
	for _, id := range []string{
		"https://client.example/x", "https://client.example/", "https://client.example:8443/x", "https://client.example/x?v=1",
		"https://client.example/a..b/.well-known/x", "https://0x7f000001/x", "https://[2001:db8::1]/x",
	} {
		if _, err := checkClientURL(id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	for _, id := range []string{
		"http://client.example/x", "https://client.example", "https:///x", "https://u@client.example/x", "https://u:p@client.example/x",
		"https://client.example/x#y", "https://client.example/x#", "https://client.example/a/../x", "https://client.example/./x",
		"https://client.example/%2e%2e/x", "https://client.example/a/%2E/x", "https://client.example/ä", "https://client.example/a b",
		`https://client.example\@evil.example/x`, "https:client.example/x",
	} {
		if host, err := checkClientURL(id); err == nil {
			t.Errorf("%s was taken, with the host %s", id, host)
		}
	}
}

func TestNothingButThePublicInternetIsConnectedTo(t *testing.T) {
	t.Parallel()
	for _, host := range []string{
		"127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "100.64.0.1", "169.254.169.254", "172.16.0.1", "192.168.1.1", "192.0.2.1",
		"198.18.0.1", "224.0.0.1", "255.255.255.255", "[::1]", "[::]", "[::ffff:10.0.0.1]", "[::ffff:127.0.0.1]", "[::127.0.0.1]",
		"[fe80::1]", "[fc00::1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[ff02::1]",
		"0x7f000001", "localhost",
	} {
		for _, port := range []string{"", ":22", ":8080"} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			_, err := Outside{Resolver: answers("127.0.0.1")}.fetch(ctx, "https://"+host+port+"/x")
			cancel()
			if err == nil || !strings.Contains(err.Error(), "prohibited") {
				t.Errorf("%s%s: %v", host, port, err)
			}
		}
	}
	if _, err := (Outside{}).fetch(t.Context(), "https://198.51.100.1:8443/x"); err == nil || !strings.Contains(err.Error(), "prohibited port") {
		t.Errorf("another port: %v", err)
	}
}

// answers is a resolver for which every name has the addresses, in turn.
func answers(addresses ...string) *net.Resolver {
	var asked atomic.Int64
	return &net.Resolver{PreferGo: true, StrictErrors: false, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go answerDNS(there, func() net.IP { return net.ParseIP(addresses[int(asked.Add(1)-1)%len(addresses)]) })
		return here, nil
	}}
}

// answerDNS answers one question for an IPv4 address, in the form DNS has over TCP.
func answerDNS(conn net.Conn, next func() net.IP) {
	defer conn.Close()
	size := make([]byte, 2)
	if _, err := io.ReadFull(conn, size); err != nil {
		return
	}
	q := make([]byte, int(size[0])<<8|int(size[1]))
	if _, err := io.ReadFull(conn, q); err != nil {
		return
	}
	end := 12
	for q[end] != 0 {
		end += int(q[end]) + 1
	}
	question := q[12 : end+5]
	a := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
	if question[len(question)-3] == 1 { // an A record is asked for
		a[7] = 1
		a = append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		a = append(a, next().To4()...)
	}
	_, _ = conn.Write(append([]byte{byte(len(a) >> 8), byte(len(a))}, a...))
}

func TestANameThatChangesItsAddressIsCheckedWhenItIsConnectedTo(t *testing.T) {
	t.Parallel()
	p := newPublisher(t)
	s := newDeployment(t).serve(t, p.outside(t), func(s *Server) {
		s.Outside.Loopback = false
		s.Outside.Resolver = answers("192.0.2.1", "127.0.0.1", "169.254.169.254")
	})
	u, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		wantPage(t, newBrowser().ask(t, s, asks("https://rebinding.example:"+u.Port()+"/x", nil)))
	}
	if n := p.asked.Load(); n != 0 {
		t.Errorf("the publisher was asked %d times", n)
	}
	if got := strings.Count(s.log.String(), "prohibited IP"); got != 3 {
		t.Errorf("%d of 3 connections were refused for their address:\n%s", got, s.log)
	}
}

func TestASlowDocumentIsGivenUpAfterFiveSeconds(t *testing.T) {
	t.Parallel()
	p := newPublisher(t)
	id := p.serve("/drip", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for err := error(nil); err == nil; <-time.After(100 * time.Millisecond) {
			_, _ = w.Write([]byte(" "))
			err = http.NewResponseController(w).Flush()
		}
	})
	var s Server
	p.outside(t)(&s)
	began := time.Now()
	_, err := s.Outside.fetch(t.Context(), id)
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took < fetchTime || took > 3*fetchTime {
		t.Errorf("it ended after %s with %v", took, err)
	}
}

func TestACopyIsUsedWhileItIsFreshAndInOutages(t *testing.T) {
	t.Parallel()
	p := newPublisher(t)
	d := newDeployment(t)
	s := d.serve(t, p.outside(t))
	id := p.publish("/client.json", nil)
	age := func(by string) {
		t.Helper()
		d.asOwner(t, fmt.Sprintf(`UPDATE oauth.documents SET fetched_at = fetched_at - interval '%s', fresh_until = fresh_until - interval '%[1]s'`, by))
	}
	ask := func() reply {
		t.Helper()
		return newBrowser().ask(t, s, asks(id, nil))
	}
	for range 3 {
		ask()
	}
	if n := p.asked.Load(); n != 1 {
		t.Errorf("a fresh copy: the document was fetched %d times", n)
	}
	age("6 minutes")
	p.publish("/client.json", map[string]any{"redirect_uris": []string{"https://elsewhere.example/cb"}})
	wantPage(t, ask()) // what the client says now is what counts
	newBrowser().pending(t, s, asks(id, map[string]string{"redirect_uri": "https://elsewhere.example/cb"}))

	p.publish("/client.json", nil)
	age("6 minutes")
	newBrowser().pending(t, s, asks(id, nil))
	for _, broken := range []http.HandlerFunc{page("text/html", []byte("<html>")), nil} {
		p.serve("/client.json", broken)
		age("1 day")
		newBrowser().pending(t, s, asks(id, nil))
	}
	age("6 days")
	wantPage(t, ask())
}

func TestFreshnessHasBoundsOfOurOwn(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"": minFreshness, "no-store": minFreshness, "max-age=1": minFreshness, "public, max-age=3600": time.Hour, "Max-Age=7200 , private": 2 * time.Hour,
		"max-age=99999999": maxFreshness, "max-age=-1": minFreshness, "max-age=x": minFreshness, "max-age=99999999999999999999": minFreshness,
	} {
		if got := freshness(header); got != want {
			t.Errorf("freshness(%q) = %s, want %s", header, got, want)
		}
	}
}

func TestNobodyMakesTheServerFetchADocumentWithoutABrowser(t *testing.T) {
	t.Parallel()
	p := newPublisher(t)
	s := newDeployment(t).serve(t, p.outside(t))
	id := p.publish("/client.json", nil)
	wantError(t, s.refreshed(t, id, "rt_x", nil), http.StatusUnauthorized, invalidClient)
	if n := p.asked.Load(); n != 0 {
		t.Errorf("the document was fetched %d times", n)
	}
}

func TestAPlainCertificateOfNobodyIsNotTrusted(t *testing.T) {
	t.Parallel()
	p := newPublisher(t)
	s := newDeployment(t).serve(t, p.outside(t), func(s *Server) { s.Outside.Roots = nil })
	wantPage(t, newBrowser().ask(t, s, asks(p.publish("/client.json", nil), nil)))
	if _, ok := errors.AsType[*tls.CertificateVerificationError](func() error { _, err := s.Outside.fetch(t.Context(), p.id("/client.json")); return err }()); !ok {
		t.Error("it was not the certificate that was refused")
	}
}
