package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/failpoint"
	"sidequest/projections"
	"sidequest/secret"
)

// localCertificate makes a certificate for localhost that is its own authority, and
// returns the files of it and of its key.
func localCertificate(t testing.TB) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

// TestTheAISDKReceivesByWebhook lets a client of others subscribe, receive, renew
// and leave, while the library of Standard Webhooks checks every signature.
func TestTheAISDKReceivesByWebhook(t *testing.T) {
	t.Parallel()
	certificate, key := localCertificate(t)
	m := openMarket(t)
	r := m.start(t, func(c *config) {
		c.Webhooks.Loopback = true
		if err := readWebhookRoots(c, certificate); err != nil {
			t.Fatal(err)
		}
	})
	a := m.join(t, 1, "receiver")[0]
	wish := requestArgs("")
	delete(wish, "operationKey")
	args, err := json.Marshal(wish)
	if err != nil {
		t.Fatal(err)
	}
	out, code := node(t, nil, "webhook.mjs", r.origin, a.tokens[0], certificate, key, string(args))
	if code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	var saw struct {
		Listed    []string `json:"listed"`
		Types     []string `json:"types"`
		Verified  int      `json:"verified"`
		Errors    []string `json:"errors"`
		ID        string   `json:"id"`
		Refreshed string   `json:"refreshed"`
		Left      int      `json:"left"`
		Events    []struct {
			ID   string `json:"id"`
			Kind string `json:"kind"`
		} `json:"events"`
	}
	if err := json.Unmarshal([]byte(out), &saw); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(saw.Events) != 4 || len(saw.Errors) != 0 || saw.Verified != len(saw.Types) || saw.Types[0] != "verification" || saw.Refreshed != saw.ID || saw.Left != 0 {
		t.Errorf("it saw %s", out)
	}
	if !slices.Contains(saw.Listed, projections.FeedRequests) {
		t.Errorf("it was offered %v", saw.Listed)
	}
}

// A hook is a receiver that outlives the processes which deliver to it.
type hook struct {
	server *httptest.Server

	mu  sync.Mutex
	ids []string
}

func newHook(t testing.TB, certificate, key string) *hook {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	h := &hook{}
	h.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var d struct {
			Type      string `json:"type"`
			Challenge string `json:"challenge"`
			EventID   string `json:"eventId"`
		}
		if json.NewDecoder(r.Body).Decode(&d) != nil {
			return
		}
		if d.Type != "" {
			_, _ = io.WriteString(w, fmt.Sprintf(`{"challenge":%q}`, d.Challenge))
			return
		}
		h.mu.Lock()
		h.ids = append(h.ids, d.EventID)
		h.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	}))
	h.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	h.server.StartTLS()
	t.Cleanup(h.server.Close)
	return h
}

// params are those of a subscription of all requests at the receiver.
func (h *hook) params() string {
	port := h.server.URL[strings.LastIndex(h.server.URL, ":")+1:]
	return fmt.Sprintf(
		`{"name":"sidequest.requests","cursor":null,"delivery":{"mode":"webhook","url":"https://localhost:%s/","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}`, port)
}

// got returns what came first of each, in order, and how many came in all.
func (h *hook) got() (firsts []string, all int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range h.ids {
		if !slices.Contains(firsts, id) {
			firsts = append(firsts, id)
		}
	}
	return firsts, len(h.ids)
}

// subscribe subscribes as a client of the legacy era does.
func (a *agent) subscribe(t testing.TB, origin, params string) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":` + params + `}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, origin+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.tokens[0])
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(said), `"sub_`) {
		t.Fatalf("subscribe: %v %s", err, said)
	}
}

// TestKilledProcessesLoseNoDelivery kills the process that delivers, again and
// again in the middle of it, while agents write.
func TestKilledProcessesLoseNoDelivery(t *testing.T) {
	t.Parallel()
	const kills, writes = 3, 45
	certificate, key := localCertificate(t)
	h := newHook(t, certificate, key)
	m := openMarket(t)
	m.more = []string{"SIDEQUEST_WEBHOOK_LOOPBACK=on", "SIDEQUEST_WEBHOOK_CA_FILE=" + certificate}
	slots := []*slot{m.serve(t), m.serve(t)}
	cast := m.join(t, 1, "writer-1", "writer-2", "writer-3") // each may have so many requests open
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cast[0].subscribe(t, slots[0].origin(), h.params())
	for n := range writes {
		got, err := cast[n%3].insist(ctx, slots[n%2].origin, "request_quotes", requestArgs(fmt.Sprintf("hook-%d", n)))
		if err != nil || !got.OK {
			t.Fatalf("%v %s", err, got.raw)
		}
		if n%(writes/kills) == writes/kills/2 {
			slots[n/(writes/kills)%2].restart(t)
		}
	}
	h.hearsAll(t, m, writes)
}

// hearsAll waits until n requests were delivered, and compares them with the feed.
func (h *hook) hearsAll(t testing.TB, m *market, n int) {
	t.Helper()
	deadline := time.After(90 * time.Second) // three leases of a lane
	for {
		firsts, all := h.got()
		if len(firsts) >= n {
			if diff := cmp.Diff(m.feedIDs(t, projections.FeedRequests, projections.Everyone), firsts); diff != "" {
				t.Errorf("what was delivered (-want +got)\n%s", diff)
			}
			t.Logf("%d deliveries of %d events", all, n)
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%d of %d events were delivered", len(firsts), n)
		}
	}
}

// TestAProcessThatIsKilledAtAPointOfADeliveryLosesNothing kills it where it hurts:
// with a lane claimed, with an answer that nobody else knows of, and with one that
// is recorded.
func TestAProcessThatIsKilledAtAPointOfADeliveryLosesNothing(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "sidequest")
	build := exec.Command("go", "build", "-tags", "failpoints", "-o", program, "sidequest/cmd/sidequest")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	for _, point := range failpoint.Webhooks() {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			certificate, key := localCertificate(t)
			h := newHook(t, certificate, key)
			m := openMarket(t)
			m.more = []string{"SIDEQUEST_WEBHOOK_LOOPBACK=on", "SIDEQUEST_WEBHOOK_CA_FILE=" + certificate}
			doomed := launchProgram(t, program, append(m.environment(), "SIDEQUEST_KILL="+string(point)+":1"), "serve")
			addr, _, _ := strings.Cut(strings.TrimPrefix(doomed.until(t, "listening on "), "listening on "), " ")
			a := m.join(t, 1, "writer")[0]
			a.subscribe(t, "http://"+addr, h.params())
			m.askDirectly(t, a, 8)
			_ = doomed.wait(t)
			m.serve(t)
			h.hearsAll(t, m, 8)
		})
	}
}

// askDirectly records requests without any process that serves.
func (m *market) askDirectly(t testing.TB, a *agent, n int) {
	t.Helper()
	m.with(t, func(ctx context.Context, store *eventstore.Store, _ secret.Vault) error {
		for i := range n {
			op := eventstore.Operation{Owner: a.key, Key: fmt.Sprintf("direct-%d", i), Tool: "request_quotes", Board: mainBoard, At: time.Now()}
			_, err := eventstore.Execute(ctx, store, op, domain.RequestQuotes{
				Title: "A logo", Brief: "Draw a logo.", AcceptanceCriteria: []string{"It is a logo."},
				Tokens: []domain.Address{testUSD}, QuoteDeadline: "3d", DeliveryDeadline: "7d",
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
