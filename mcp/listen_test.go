package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A bell can be rung once and again.
type bell struct {
	mu   sync.Mutex
	rung chan struct{}
}

func newBell() *bell { return &bell{rung: make(chan struct{})} }

func (b *bell) next(Caller) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
}

// A hall is a server that clients listen to, and what happens around it.
type hall struct {
	url            string
	server         *Server
	tools, prompts *bell
	ended          chan struct{}
	revoked        chan struct{}
	stopping       chan struct{}
	left           chan struct{} // has a value for each stream that is over
}

func openHall(t *testing.T, changes ...func(*Listening)) *hall {
	t.Helper()
	h := &hall{
		server: newServer(t), tools: newBell(), prompts: newBell(),
		ended: make(chan struct{}), revoked: make(chan struct{}), stopping: make(chan struct{}), left: make(chan struct{}, 10),
	}
	h.server.Methods["prompts/list"] = Method{Handle: listNothing}
	h.server.Listening = &Listening{
		Tools: h.tools.next, Prompts: h.prompts.next,
		Enter: func(context.Context, Caller) (Listener, error) {
			return Listener{h.ended, func() { h.left <- struct{}{} }}, nil
		},
		Revoked:  func(string) <-chan struct{} { return h.revoked },
		Stopping: h.stopping, Life: time.Hour, KeepAlive: time.Hour,
	}
	for _, change := range changes {
		change(h.server.Listening)
	}
	h.url = serve(t, h.server)
	return h
}

// A stream is what a client hears, line by line.
type heard struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
}

// listen opens a stream under an id that is JSON.
func (h *hall) listen(t *testing.T, id, notifications string) *heard {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"subscriptions/listen","params":{"notifications":%s,"_meta":{%q:%q,%q:{}}}}`,
		id, notifications, metaProtocolVersion, V20260728, metaClientCapabilities)
	req := newRequest(t, h.url, body).WithContext(ctx)
	req.Header.Set("Mcp-Protocol-Version", V20260728)
	req.Header.Set("Mcp-Method", "subscriptions/listen")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	once := sync.OnceFunc(func() { cancel(); res.Body.Close() })
	t.Cleanup(once)
	return &heard{t, bufio.NewScanner(res.Body), once}
}

// next returns the next frame, "" at the end of the stream.
func (s *heard) next() string {
	s.t.Helper()
	for s.lines.Scan() {
		if data, ok := strings.CutPrefix(s.lines.Text(), "data: "); ok {
			return data
		}
	}
	return ""
}

// hears expects frames, or "" for the end.
func (s *heard) hears(want ...string) {
	s.t.Helper()
	for _, w := range want {
		if diff := cmp.Diff(w, s.next()); diff != "" {
			s.t.Fatal(diff)
		}
	}
}

// ends expects the final result and the end.
func (s *heard) ends(why string) {
	s.t.Helper()
	var last struct {
		ID     any `json:"id"`
		Result struct {
			ResultType string         `json:"resultType"`
			Meta       map[string]any `json:"_meta"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(s.next()), &last); err != nil {
		s.t.Fatal(err)
	}
	if last.Result.ResultType != "complete" || last.Result.Meta["exchange.sidequest/ended"] != why ||
		last.Result.Meta[metaSubscriptionID] != last.ID {
		s.t.Errorf("the stream ends with %+v", last)
	}
	s.hears("")
}

func note(method, params, id string) string {
	if params != "" {
		params += ","
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/%s","params":{%s"_meta":{%q:%s}}}`, method, params, metaSubscriptionID, id)
}

func TestAListenerIsAcknowledgedFirstAndToldThatItsToolsChangedAtOnce(t *testing.T) {
	t.Parallel()
	for _, id := range []string{`"a"`, `7`} {
		h := openHall(t)
		s := h.listen(t, id, `{"toolsListChanged":true,"promptsListChanged":false,"resourcesListChanged":true,"resourceSubscriptions":["a"],"x":{}}`)
		s.hears(note("subscriptions/acknowledged", `"notifications":{"toolsListChanged":true}`, id), note("tools/list_changed", "", id))
		h.prompts.ring() // it did not ask
		h.tools.ring()
		s.hears(note("tools/list_changed", "", id))
		h.tools.ring()
		s.hears(note("tools/list_changed", "", id))
	}
}

func TestEachListenerHearsOfWhatItAskedFor(t *testing.T) {
	t.Parallel()
	h := openHall(t)
	both, prompts := h.listen(t, "1", `{"toolsListChanged":true,"promptsListChanged":true}`), h.listen(t, "2", `{"promptsListChanged":true}`)
	both.hears(note("subscriptions/acknowledged", `"notifications":{"toolsListChanged":true,"promptsListChanged":true}`, "1"),
		note("tools/list_changed", "", "1"))
	prompts.hears(note("subscriptions/acknowledged", `"notifications":{"promptsListChanged":true}`, "2"))
	h.tools.ring()
	both.hears(note("tools/list_changed", "", "1"))
	h.prompts.ring()
	both.hears(note("prompts/list_changed", "", "1"))
	prompts.hears(note("prompts/list_changed", "", "2"))
	if n := h.server.Listening.Open(); n != 2 {
		t.Errorf("%d streams are open", n)
	}
}

func TestAListenerOfNothingThatThereIsIsToldSoAndLetGo(t *testing.T) {
	t.Parallel()
	for _, notifications := range []string{`{}`, `{"resourcesListChanged":true}`, `{"toolsListChanged":false}`} {
		s := openHall(t).listen(t, "1", notifications)
		s.hears(note("subscriptions/acknowledged", `"notifications":{}`, "1"))
		s.ends("nothing-to-hear")
	}
}

func TestAListenEndsInOrderUnlessItsTimeIsUp(t *testing.T) {
	t.Parallel()
	for why, end := range map[string]func(h *hall){
		"revoked":   func(h *hall) { close(h.revoked) },
		"displaced": func(h *hall) { h.ended <- struct{}{} },
		"stopping":  func(h *hall) { close(h.stopping) },
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			h := openHall(t)
			s := h.listen(t, "1", `{"toolsListChanged":true}`)
			s.next()
			s.next()
			end(h)
			s.ends(why)
			<-h.left
		})
	}
	t.Run("time", func(t *testing.T) {
		t.Parallel()
		h := openHall(t, func(l *Listening) { l.Life = 50 * time.Millisecond })
		s := h.listen(t, "1", `{"promptsListChanged":true}`)
		s.hears(note("subscriptions/acknowledged", `"notifications":{"promptsListChanged":true}`, "1"), "")
	})
}

func TestAQuietListenIsKeptAlive(t *testing.T) {
	t.Parallel()
	s := openHall(t, func(l *Listening) { l.KeepAlive = 10 * time.Millisecond }).listen(t, "1", `{"promptsListChanged":true}`)
	for s.lines.Scan() {
		if s.lines.Text() == ": keepalive" {
			return
		}
	}
	t.Error("the stream ended without one")
}

func TestAListenerThatLeavesLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	h := openHall(t)
	var all []*heard
	for range 5 {
		s := h.listen(t, "1", `{"toolsListChanged":true}`)
		s.next()
		all = append(all, s)
	}
	for _, s := range all {
		s.close()
	}
	for range all {
		<-h.left
	}
	if n := h.server.Listening.Open(); n != 0 {
		t.Errorf("%d streams are open still", n)
	}
}

func TestAListenIsRefusedBeforeItOpens(t *testing.T) {
	t.Parallel()
	h := openHall(t, func(l *Listening) {
		l.Enter = func(context.Context, Caller) (Listener, error) { return Listener{}, InvalidParams("too many") }
	})
	for params, want := range map[string]string{
		``:                     "params.notifications is required",
		`"notifications":null`: "params.notifications is required",
		`"notifications":[]`:   "has the wrong type",
		`"notifications":{"toolsListChanged":"yes"}`: "has the wrong type",
		`"Notifications":{}`:                         "must be written exactly so",
		`"notifications":{"toolsListChanged":true}`:  "too many",
	} {
		w := record(t, h.server, modern("subscriptions/listen", "", params))
		if !strings.Contains(w, want) || strings.Contains(w, "data: ") {
			t.Errorf("%s is answered with %s", params, w)
		}
	}
}

func TestOlderLanesDoNotListenAndAreNotOfferedTo(t *testing.T) {
	t.Parallel()
	h := openHall(t)
	r := newRequest(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{}}}`)
	r.Header.Set("Mcp-Protocol-Version", V20251125)
	if body := record(t, h.server, r); !strings.Contains(body, "-32601") {
		t.Errorf("it is answered with %s", body)
	}
	r = newRequest(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	if body := record(t, h.server, r); strings.Contains(body, "listChanged") {
		t.Errorf("a legacy client is offered %s", body)
	}
	if body := record(t, h.server, modern("server/discover", "", "")); !strings.Contains(body, `"tools":{"listChanged":true}`) {
		t.Errorf("a modern client is offered %s", body)
	}
}
