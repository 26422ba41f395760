package mcp

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// flushTimeout is how long a client may take to accept what is flushed.
	flushTimeout = 10 * time.Second

	// flushSize is how many bytes wait for a flush before they are sent anyway.
	flushSize = 64 << 10
)

// ErrAbrupt ends an open stream without its final result, as the client would see
// it if the network had failed. A client that resumes from its cursor loses
// nothing.
var ErrAbrupt = errors.New("end the stream without a result")

// An SSE is the answer to one request as a stream of JSON-RPC messages, one in
// each frame. Frames wait until they are flushed, so that many cost one write.
// It belongs to the goroutine of the handler that opened it.
//
// A failed write means that the client is gone; the handler returns the error.
type SSE struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	id     jsontext.Value // of a request that is a subscription, whose id it is; else nil
	b      []byte         // frames that wait
	broken bool           // a write failed
}

// openSSE sends the headers at once: a client learns that it is heard before the
// first event. The read deadline goes, or it would end a quiet stream.
func openSSE(w http.ResponseWriter, id jsontext.Value) (*SSE, error) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx holds frames back without it
	s := &SSE{w: w, rc: http.NewResponseController(w), id: id}
	setDeadline(s.rc.SetReadDeadline, time.Time{})
	w.WriteHeader(http.StatusOK)
	err := s.send()
	return s, err
}

// Notify adds a notification. Its params must encode to a JSON object. Those of a
// subscription must have no _meta, which is added with the subscription's id. To
// send the same params to many streams, encode them once and pass the
// [jsontext.Value].
func (s *SSE) Notify(method string, params any) error {
	raw, err := encode(params)
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	s.b = append(s.b, `data: {"jsonrpc":"2.0","method":"`...)
	s.b = append(s.b, method...)
	s.b = append(s.b, `","params":`...)
	if s.id == nil {
		s.b = append(append(s.b, raw...), "}\n\n"...)
		return s.sendIfLarge()
	}
	s.b = append(s.b, raw[:len(raw)-1]...)
	if len(raw) > len("{}") {
		s.b = append(s.b, ',')
	}
	s.b = append(s.b, `"_meta":{"`+metaSubscriptionID+`":`...)
	s.b = append(s.b, s.id...)
	s.b = append(s.b, "}}}\n\n"...)
	return s.sendIfLarge()
}

// Message adds a JSON-RPC message as it is. The lane itself has no use for it: no
// revision it serves statelessly lets a server ask anything.
func (s *SSE) Message(message any) error {
	raw, err := encode(message)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	s.b = append(append(append(s.b, "data: "...), raw...), "\n\n"...)
	return s.sendIfLarge()
}

// KeepAlive adds a comment, which no client sees but every proxy on the way does.
// Proxies close connections that are quiet for a minute or two.
func (s *SSE) KeepAlive() error {
	s.b = append(s.b, ": keepalive\n\n"...)
	return s.sendIfLarge()
}

// Flush sends the frames that wait.
func (s *SSE) Flush() error {
	if len(s.b) == 0 {
		return nil
	}
	return s.send()
}

// finish adds a response as the last frame and sends it.
func (s *SSE) finish(response []byte) error {
	s.b = append(s.b, "data: "...)
	s.b = append(s.b, response...)
	s.b = append(s.b, "\n\n"...)
	return s.send()
}

func (s *SSE) sendIfLarge() error {
	if len(s.b) < flushSize {
		return nil
	}
	return s.send()
}

// send writes and flushes under a deadline that is lifted afterwards: HTTP/2
// resets a stream whose deadline passes even when nothing is being written.
func (s *SSE) send() error {
	setDeadline(s.rc.SetWriteDeadline, time.Now().Add(flushTimeout))
	defer setDeadline(s.rc.SetWriteDeadline, time.Time{})
	_, err := s.w.Write(s.b) //nolint:gosec // it is an event stream and says so
	if err == nil {
		err = s.rc.Flush()
	}
	s.b = s.b[:0]
	if err != nil {
		s.broken = true
		return fmt.Errorf("send frames: %w", err)
	}
	return nil
}

// setDeadline sets a deadline where the connection has one. A recorder in a test
// has none; a connection that is closed says so at the next write.
func setDeadline(set func(time.Time) error, t time.Time) { _ = set(t) }
