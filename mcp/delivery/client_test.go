package delivery_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client is one agent's way to a process.
type client struct {
	url   string
	token string
	old   bool // it speaks a legacy revision
	via   *http.Client
}

func (p *process) as(token string) client {
	return client{url: p.url, token: token, via: http.DefaultClient}
}

func (c client) legacy() client {
	c.old = true
	return c
}

// An occurrence is one notice as clients get it.
type occurrence struct {
	EventID   string         `json:"eventId"`
	Name      string         `json:"name"`
	Timestamp string         `json:"timestamp"`
	Data      map[string]any `json:"data"`
	Cursor    string         `json:"cursor"`
}

func (o occurrence) kind() string { return fmt.Sprint(o.Data["kind"]) }

// An answer is what came of a call.
type answer struct {
	status int
	header http.Header
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    map[string]any `json:"data"`
	} `json:"error"`
}

type pollResult struct {
	ResultType string       `json:"resultType"`
	Events     []occurrence `json:"events"`
	Cursor     string       `json:"cursor"`
	HasMore    bool         `json:"hasMore"`
	Truncated  bool         `json:"truncated"`
	NextPollMS int          `json:"nextPollMs"`
}

// post sends a request; params are members of the parameters.
func (c client) post(ctx context.Context, method, params string) (*http.Response, error) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	switch {
	case c.old:
	case params == "":
		params = meta
	default:
		params += "," + meta
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{%s}}`, method, params)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	if !c.old {
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", method)
	}
	return c.via.Do(req)
}

// call sends a request and reads its one answer.
func (c client) call(t testing.TB, method, params string) answer {
	t.Helper()
	a, err := c.send(method, params)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (c client) send(method, params string) (answer, error) {
	res, err := c.post(context.Background(), method, params)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	a := answer{status: res.StatusCode, header: res.Header}
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
		return a, fmt.Errorf("read the answer to %s: %w", method, err)
	}
	return a, nil
}

// poll polls and expects a result.
func (c client) poll(t testing.TB, params string) pollResult {
	t.Helper()
	a := c.call(t, "events/poll", params)
	if a.Error != nil {
		t.Fatalf("poll %s: %d %s", params, a.Error.Code, a.Error.Message)
	}
	return a.page(t)
}

func (a answer) page(t testing.TB) pollResult {
	t.Helper()
	var r pollResult
	if err := json.Unmarshal(a.Result, &r); err != nil {
		t.Error(err)
	}
	return r
}

// pollAside polls while the test goes on.
func (c client) pollAside(t testing.TB, params string) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		a, err := c.send("events/poll", params)
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	return done
}

// A frame is one message of a stream.
type frame struct {
	Method string `json:"method"`
	Params struct {
		occurrence
		Truncated bool `json:"truncated"`
		Error     *struct {
			Code int `json:"code"`
		} `json:"error"`
		Meta map[string]any `json:"_meta"`
	} `json:"params"`
	ID     any             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// A listening is an open stream.
type listening struct {
	header http.Header
	close  context.CancelFunc
	frames chan frame // closed at the end of the stream
}

// listen opens a stream and expects it to be active.
func (c client) listen(t testing.TB, params string) (*listening, frame) {
	t.Helper()
	l, refused := c.tryListen(t, params)
	if refused != nil {
		t.Fatalf("listen %s: %d %+v", params, refused.status, refused.Error)
	}
	active := l.next(t)
	if active.Method != "notifications/events/active" {
		t.Fatalf("the first frame is %+v, not active", active)
	}
	return l, active
}

// tryListen opens a stream of events, or returns the refusal.
func (c client) tryListen(t testing.TB, params string) (*listening, *answer) {
	t.Helper()
	return c.open(t, "events/stream", params)
}

// open opens a stream, or returns the refusal.
func (c client) open(t testing.TB, method, params string) (*listening, *answer) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	res, err := c.post(ctx, method, params)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	if res.Header.Get("Content-Type") != "text/event-stream" {
		defer res.Body.Close()
		defer cancel()
		a := &answer{status: res.StatusCode, header: res.Header}
		if err := json.NewDecoder(res.Body).Decode(a); err != nil {
			t.Fatal(err)
		}
		return nil, a
	}
	l := &listening{res.Header, cancel, make(chan frame, 1)}
	go l.read(ctx, res.Body)
	return l, nil
}

// read passes frames on until the stream or the client ends.
func (l *listening) read(ctx context.Context, body io.ReadCloser) {
	defer close(l.frames)
	defer body.Close()
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		var f frame
		if json.Unmarshal(data, &f) != nil {
			f.Method = "not JSON: " + string(data)
		}
		select {
		case l.frames <- f:
		case <-ctx.Done():
			return
		}
	}
}

// next returns the next frame.
func (l *listening) next(t testing.TB) frame {
	t.Helper()
	select {
	case f, open := <-l.frames:
		if !open {
			t.Fatal("the stream ended")
		}
		return f
	case <-time.After(20 * time.Second):
		t.Fatal("no frame comes")
	}
	panic("unreachable")
}

// event returns the next frame, which must be an event.
func (l *listening) event(t testing.TB) occurrence {
	t.Helper()
	f := l.next(t)
	if f.Method != "notifications/events/event" {
		t.Fatalf("the next frame is %+v, not an event", f)
	}
	return f.Params.occurrence
}

// final expects the final result and the end of the stream.
func (l *listening) final(t testing.TB) {
	t.Helper()
	f := l.next(t)
	var result struct {
		ResultType string         `json:"resultType"`
		Meta       map[string]any `json:"_meta"`
	}
	if f.ID != 7.0 || json.Unmarshal(f.Result, &result) != nil || result.ResultType != "complete" {
		t.Fatalf("the last frame is %+v, not the final result", f)
	}
	if result.Meta["io.modelcontextprotocol/subscriptionId"] != 7.0 {
		t.Errorf("the final result does not name its subscription: %s", f.Result)
	}
	l.ends(t)
}

// ends expects the end of the stream.
func (l *listening) ends(t testing.TB) {
	t.Helper()
	select {
	case f, open := <-l.frames:
		if open {
			t.Fatalf("the stream goes on with %+v", f)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the stream does not end")
	}
}

func encode(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
