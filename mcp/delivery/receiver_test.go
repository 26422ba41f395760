package delivery_test

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"sidequest/domain"
	"sidequest/mcp/delivery"
	"sidequest/secret"
	"sidequest/webhook"
)

// A trust is the outside world of a test: names that lead to this machine, and
// certificates for them.
type trust struct{ roots *x509.CertPool }

// newTrust trusts the certificate of every [httptest.Server], which is for
// example.com.
func newTrust(t testing.TB) trust {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return trust{roots}
}

func (w trust) outside() webhook.Outside {
	return webhook.Outside{
		Roots: w.roots, Loopback: true,
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			if host != "example.com" && !strings.HasSuffix(host, ".example.com") {
				return nil, errors.New("there is no such host")
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
	}
}

// swift is the schedule of tests: what takes minutes takes milliseconds.
func swift() webhook.Schedule {
	return webhook.Schedule{
		First: 20 * time.Millisecond, Most: 200 * time.Millisecond,
		Refused:   []time.Duration{10 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond},
		SlowAfter: 2 * time.Second, SuspendAfter: time.Minute, DisableAfter: time.Hour,
	}
}

// newHooks makes the webhooks of a process.
func (m *market) newHooks(t testing.TB, p *process, log *slog.Logger) *webhook.Hooks {
	t.Helper()
	keys, err := secret.LoadOrCreate(m.kekFile)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := delivery.EndedError()
	if err != nil {
		t.Fatal(err)
	}
	limits := webhook.StandardLimits()
	limits.Sweep = 50 * time.Millisecond
	return webhook.New(webhook.Config{
		DB: p.pool, Store: p.store, Cursors: cursors(), ChainID: 1337, Keys: keys, Signer: webhook.NewSigner([]byte(strings.Repeat("s", 32))),
		Outside: m.trust.outside(), Owner: rand.Text(), Ended: ended, Schedule: swift(), Limits: limits, Now: time.Now, Log: log,
		Grant: func(ctx context.Context, id string) (<-chan struct{}, bool, error) {
			_, err := p.grants.Live(ctx, id)
			if domain.CodeOf(err) == string(domain.Unauthenticated) {
				return nil, false, nil
			}
			return p.grants.Revoked(id), err == nil, err
		},
	})
}

// A delivered is one POST that a receiver got.
type delivered struct {
	header  http.Header
	body    []byte
	Type    string `json:"type"`
	Error   any    `json:"error"`
	EventID string `json:"eventId"`
	occurrence
}

// A receiver is an endpoint of an agent.
type receiver struct {
	server *httptest.Server
	secret string
	got    chan delivered

	mu      sync.Mutex
	respond func(delivered, http.ResponseWriter) // nil for 204
	echoes  bool                                 // it answers challenges
	accepts []string                             // envelopes that it takes
	asked   int                                  // challenges
}

func newSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return "whsec_" + base64.StdEncoding.EncodeToString(b)
}

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{secret: newSecret(), got: make(chan delivered, 100_000), echoes: true}
	r.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.serve(t, w, req) }))
	t.Cleanup(r.server.Close)
	return r
}

// url is under a name, since addresses are refused.
func (r *receiver) url() string {
	u, _ := url.Parse(r.server.URL)
	return "https://example.com:" + u.Port() + "/hook"
}

func (r *receiver) serve(t testing.TB, w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender was killed
	}
	d := delivered{header: req.Header, body: body}
	if err := json.Unmarshal(body, &d); err != nil {
		t.Errorf("a delivery is not JSON: %s", body)
	}
	d.occurrence.EventID = d.EventID
	r.mu.Lock()
	secret, respond, echoes, accepts := r.secret, r.respond, r.echoes, r.accepts
	r.mu.Unlock()
	if err := verify(secret, req.Header, body); err != nil {
		t.Errorf("delivery %s: %v", req.Header.Get("Webhook-Id"), err)
	}
	if d.Type == "verification" {
		r.mu.Lock()
		r.asked++
		r.mu.Unlock()
		if !echoes {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		var v struct {
			Challenge string `json:"challenge"`
		}
		_ = json.Unmarshal(body, &v)
		_, _ = io.WriteString(w, encode(t, map[string]any{"challenge": v.Challenge, "accepts": accepts}))
		return
	}
	if respond != nil {
		respond(d, w)
	} else {
		w.WriteHeader(http.StatusNoContent)
	}
	r.got <- d
}

// behave changes how the receiver answers events.
func (r *receiver) behave(respond func(delivered, http.ResponseWriter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.respond = respond
}

// answers has the receiver answer every event with a status.
func (r *receiver) answers(status int) {
	r.behave(func(_ delivered, w http.ResponseWriter) { w.WriteHeader(status) })
}

// next returns the next delivery.
func (r *receiver) next(t testing.TB) delivered {
	t.Helper()
	select {
	case d := <-r.got:
		return d
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is delivered")
	}
	panic("unreachable")
}

// verify checks a v1 signature and its time, independently of the sender's code.
func verify(secret string, h http.Header, body []byte) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", h.Get("Webhook-Id"), h.Get("Webhook-Timestamp"), body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for s := range strings.FieldsSeq(h.Get("Webhook-Signature")) {
		if s == want {
			var at int64
			_, err := fmt.Sscan(h.Get("Webhook-Timestamp"), &at)
			if late := time.Since(time.Unix(at, 0)); err != nil || late > 3*time.Second || late < -2*time.Second {
				return fmt.Errorf("it was signed %s ago", late)
			}
			return nil
		}
	}
	return errors.New("no signature fits")
}

// params are those of a subscription of ann's inbox at the receiver.
func (r *receiver) params(more string) string {
	return fmt.Sprintf(`"name":"sidequest.inbox","delivery":{"mode":"webhook","url":%q,"secret":%q}%s`, r.url(), r.secret, more)
}

type subscribed struct {
	ID             string  `json:"id"`
	RefreshBefore  *string `json:"refreshBefore"`
	Cursor         string  `json:"cursor"`
	Truncated      *bool   `json:"truncated"`
	DeliveryStatus struct {
		Active    bool    `json:"active"`
		LastError *string `json:"lastError"`
	} `json:"deliveryStatus"`
}

// subscribe subscribes and expects a result.
func (c client) subscribe(t testing.TB, params string) subscribed {
	t.Helper()
	a := c.call(t, "events/subscribe", params)
	if a.Error != nil {
		t.Fatalf("subscribe %s: %d %s %v", params, a.Error.Code, a.Error.Message, a.Error.Data)
	}
	var s subscribed
	if err := json.Unmarshal(a.Result, &s); err != nil {
		t.Fatal(err)
	}
	return s
}
