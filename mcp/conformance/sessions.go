package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"sidequest/mcp"
)

// askTime bounds how long a tool waits for a client's answer.
const askTime = 10 * time.Second

// sessions is what the older revisions know besides the lane: a client that was
// introduced once is remembered under an id, can set what it wants to be told, and
// can be asked things while one of its calls is under way. Nothing here is shared
// by processes, which is why the product does without.
type sessions struct {
	next http.Handler

	mu  sync.Mutex
	all map[string]*session
}

// A session is a client that was introduced.
type session struct {
	mu      sync.Mutex
	level   string // of the messages it wants
	asked   int
	waiting map[string]chan json.RawMessage // by the id of what was asked
}

const sessionHeader = "Mcp-Session-Id"

// envelope is what matters of a message.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// ServeHTTP implements [http.Handler].
func (s *sessions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Mcp-Method") != "" || r.Header.Get("Mcp-Protocol-Version") >= mcp.V20260728 {
		s.next.ServeHTTP(w, r)
		return
	}
	id := r.Header.Get(sessionHeader)
	current := s.find(id)
	if id != "" && current == nil {
		http.Error(w, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"There is no such session; begin with initialize."}}`, http.StatusNotFound)
		return
	}
	if r.Method == http.MethodDelete && current != nil {
		s.end(id)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mcp.MaxBody))
	if err != nil {
		http.Error(w, "the body did not arrive whole", http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var e envelope
	_ = json.Unmarshal(body, &e) // the lane says what is wrong with it
	switch {
	case e.Method == "initialize" && current == nil:
		w.Header().Set(sessionHeader, s.begin())
	case current != nil && e.Method == "" && current.answer(e):
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), sessionKey{}, current)))
}

type sessionKey struct{}

// sessionOf returns the session that a call belongs to, nil for none.
func sessionOf(ctx context.Context) *session {
	s, _ := ctx.Value(sessionKey{}).(*session)
	return s
}

func (s *sessions) begin() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := rand.Text()
	s.all[id] = &session{level: "info", waiting: map[string]chan json.RawMessage{}}
	return id
}

func (s *sessions) find(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id]
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
}

// answer hands a client's response to the call that waits for it.
func (s *session) answer(e envelope) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting, known := s.waiting[string(e.ID)]
	if !known {
		return false
	}
	delete(s.waiting, string(e.ID))
	if e.Result == nil {
		e.Result = e.Error
	}
	waiting <- e.Result
	return true
}

// ask sends a request on the stream of a call and waits for what the client
// answers in a request of its own.
func (s *session) ask(ctx context.Context, c *mcp.Call, method string, params any) (json.RawMessage, error) {
	sse, err := c.OpenReply()
	if err != nil {
		return nil, err
	}
	answer := make(chan json.RawMessage, 1)
	s.mu.Lock()
	s.asked++
	id := fmt.Sprintf(`"ask-%d"`, s.asked)
	s.waiting[id] = answer
	s.mu.Unlock()
	message := map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": method, "params": params}
	if err := sse.Message(message); err != nil {
		return nil, err
	}
	if err := sse.Flush(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	select {
	case result := <-answer:
		return result, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the client's answer: %w", ctx.Err())
	}
}

// setLevel answers logging/setLevel.
func setLevel(ctx context.Context, c *mcp.Call) (any, error) {
	var params struct {
		Level string `json:"level"`
	}
	if err := c.Request.Decode(&params); err != nil {
		return nil, err
	}
	if s := sessionOf(ctx); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.level = params.Level
	}
	return nil, nil
}

// subscribe answers resources/subscribe and resources/unsubscribe. The fixtures
// never change, so there is nothing to remember.
func subscribe(_ context.Context, c *mcp.Call) (any, error) {
	var params struct {
		URI string `json:"uri"`
	}
	if err := c.Request.Decode(&params); err != nil {
		return nil, err
	}
	if params.URI != "test://watched-resource" {
		return nil, mcp.InvalidParams("params.uri names nothing that changes.")
	}
	return nil, nil
}
