package mcp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// A lineRecorder is a connection that notes what is done to it.
type lineRecorder struct {
	*httptest.ResponseRecorder

	log  []string
	fail error
}

func (r *lineRecorder) SetReadDeadline(t time.Time) error  { return r.note("read", t) }
func (r *lineRecorder) SetWriteDeadline(t time.Time) error { return r.note("write", t) }

func (r *lineRecorder) note(what string, t time.Time) error {
	if t.IsZero() {
		what += " for ever"
	} else if left := time.Until(t); left > flushTimeout || left < flushTimeout/2 {
		what += " at a wrong time"
	}
	r.log = append(r.log, what)
	return nil
}

func (r *lineRecorder) Write(b []byte) (int, error) {
	r.log = append(r.log, "bytes")
	if r.fail != nil {
		return 0, r.fail
	}
	return r.ResponseRecorder.Write(b)
}

func (r *lineRecorder) FlushError() error {
	r.log = append(r.log, "flush")
	return nil
}

func TestManyFramesCostOneWriteUnderADeadlineThatIsLiftedAfterwards(t *testing.T) {
	t.Parallel()
	r := &lineRecorder{ResponseRecorder: httptest.NewRecorder()}
	s, err := openSSE(r, jsontext.Value("1"))
	if err != nil {
		t.Fatal(err)
	}
	opened := []string{"read for ever", "write", "bytes", "flush", "write for ever"}
	if diff := cmp.Diff(opened, r.log); diff != "" {
		t.Error("opening:", diff)
	}
	r.log = nil
	for range 50 {
		if err := s.Notify("notifications/x", jsontext.Value("{\n\"a\": 1}")); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Flush(), s.Flush()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(opened[1:], r.log); diff != "" {
		t.Error("fifty frames:", diff)
	}
	want := `data: {"jsonrpc":"2.0","method":"notifications/x","params":{"a":1,"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}` + "\n\n"
	if diff := cmp.Diff(strings.Repeat(want, 50), r.Body.String()); diff != "" {
		t.Error(diff)
	}
}

func TestFramesThatPileUpAreSentBeforeTheyAreFlushed(t *testing.T) {
	t.Parallel()
	r := &lineRecorder{ResponseRecorder: httptest.NewRecorder()}
	s, err := openSSE(r, jsontext.Value("1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Notify("notifications/x", map[string]string{"a": strings.Repeat("x", flushSize)}); err != nil {
		t.Fatal(err)
	}
	if r.Body.Len() < flushSize {
		t.Errorf("%d bytes were sent", r.Body.Len())
	}
}

func TestAStreamWhoseClientHasLeftEndsQuietly(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s := newServer(t)
	s.Log = loggerTo(&log)
	r := &lineRecorder{ResponseRecorder: httptest.NewRecorder(), fail: io.ErrClosedPipe}
	s.ServeHTTP(r, modern("events/stream", "", `"name":"sidequest.inbox"`))
	if r.Body.Len() > 0 || log.Len() > 0 {
		t.Errorf("sent %q, logged %q", r.Body, log.String())
	}
}

func TestAStreamOutlivesTheTimeoutsOfTheServerItRunsIn(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(newServer(t))
	server.Config.ReadHeaderTimeout = time.Minute
	server.Config.ReadTimeout = time.Nanosecond
	server.Config.WriteTimeout = time.Nanosecond
	server.Start()
	t.Cleanup(server.Close)
	_, body := do(t, newRequest(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":9,"method":"events/stream","params":{"name":"a"}}`))
	if !strings.HasSuffix(body, "\"id\":9,\"result\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":9}}}\n\n") {
		t.Errorf("the stream ended with %q", body)
	}
}

// waiting returns a server whose method "wait" and stream "events/stream" wait
// for the end of their context and report it. Begun hears of each call.
func waiting(tb testing.TB) (s *Server, begun chan struct{}, ended chan error) {
	tb.Helper()
	begun, ended = make(chan struct{}), make(chan error)
	wait := func(ctx context.Context) error {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	s = newServer(tb)
	s.Methods["wait"] = Method{Handle: func(ctx context.Context, _ *Call) (any, error) {
		return nil, wait(ctx)
	}}
	s.Methods["events/stream"] = Method{Stream: true, Handle: func(ctx context.Context, c *Call) (any, error) {
		if _, err := c.OpenStream(); err != nil {
			return nil, err
		}
		return nil, wait(ctx)
	}}
	return s, begun, ended
}

// leave sends a request and closes the connection once the handler has begun.
func leave(tb testing.TB, req *http.Request, begun chan struct{}) {
	tb.Helper()
	ctx, cancel := context.WithCancel(req.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		res, err := http.DefaultClient.Do(req.WithContext(ctx))
		if err == nil {
			_, _ = bufio.NewReader(res.Body).ReadByte()
			res.Body.Close()
		}
	}()
	<-begun
	cancel()
	<-done
}

// The test is not parallel: it looks at all goroutines there are.
func TestNothingIsLeftOfRequestsWhoseClientsHaveLeft(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	s, begun, ended := waiting(t)
	server := httptest.NewServer(s)
	for range 20 {
		for _, method := range []string{"wait", "events/stream"} {
			req := modern(method, "", "")
			leave(t, to(t, server.URL, req), begun)
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s ended with %v", method, err)
			}
		}
	}
	for range 1000 {
		record(t, s, modern("server/discover", "", ""))
		record(t, s, newRequest(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`))
	}
	server.Close()
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t, leaks)
}

// TestNothingGrowsWithTheNumberOfHandshakes is not parallel: it looks at all memory
// and all goroutines there are.
func TestNothingGrowsWithTheNumberOfHandshakes(t *testing.T) {
	s := newServer(t)
	greet := func(times int) {
		for range times {
			record(t, s, modern("server/discover", "", ""))
			record(t, s, newRequest(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`))
		}
	}
	living := func() (heap uint64, goroutines int) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	const most = 1 << 20 // bytes, for what the test framework itself keeps
	greet(100)
	heap, goroutines := living()
	greet(10_000)
	after, left := living()
	if after > heap+most || left > goroutines {
		t.Errorf("after 10,000 of each handshake there are %d bytes and %d goroutines more", int64(after)-int64(heap), left-goroutines)
	}
}

// to turns a request made for a recorder into one for the network.
func to(tb testing.TB, server string, req *http.Request) *http.Request {
	tb.Helper()
	out, err := http.NewRequestWithContext(tb.Context(), req.Method, server+req.URL.Path, req.Body)
	if err != nil {
		tb.Fatal(err)
	}
	out.Header = req.Header
	return out
}

func TestALegacyCallGoesOnWhenItsClientLeavesButAStreamDoesNot(t *testing.T) {
	t.Parallel()
	s, begun, ended := waiting(t)
	left, finished := make(chan struct{}), make(chan error)
	s.Methods["work"] = Method{Handle: func(ctx context.Context, _ *Call) (any, error) {
		begun <- struct{}{}
		<-left
		finished <- ctx.Err()
		return nil, nil
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { left <- struct{}{} })
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	leave(t, newRequest(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"events/stream"}`), begun)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the stream ended with %v", err)
	}
	<-left
	leave(t, newRequest(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"work"}`), begun)
	if err := <-finished; err != nil {
		t.Errorf("the call was cancelled: %v", err)
	}
}

func BenchmarkCall(b *testing.B) {
	s := newServer(b)
	b.ReportAllocs()
	for b.Loop() {
		record(b, s, modern("tools/call", "echo", `"name":"echo"`))
	}
}
