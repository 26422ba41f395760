package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	"sidequest/mcp"
)

// A connection is one agent's way to a server: as much of the protocol as a
// client needs that calls tools and listens, in plain HTTP.
type connection struct {
	http    *http.Client
	origin  string // of the server, without a slash at the end
	token   string
	version string // the revision it speaks, such as [mcp.V20260728]
}

// An answer is what a tool said: a success or a refusal.
type answer struct {
	OK          bool            `json:"ok"`
	Status      string          `json:"status"`
	OperationID string          `json:"operationId"`
	Result      json.RawMessage `json:"result"`

	Code       string `json:"code"`
	Reason     string `json:"reason"`
	Message    string `json:"message"`
	Field      string `json:"field"`
	RetryAfter int    `json:"retryAfter"` // seconds

	raw string // all of it, as it came
}

// A notice is what a feed tells of one occurrence.
type notice struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	RequestID string `json:"requestId"`
	Public    bool   `json:"public"`
	Summary   string `json:"summary"`
}

// An occurrence is a notice on its way to a listener.
type occurrence struct {
	EventID string `json:"eventId"`
	Name    string `json:"name"`
	Data    notice `json:"data"`
	Cursor  string `json:"cursor"`
}

// The notifications of a stream.
const (
	frameActive     = "notifications/events/active"
	frameEvent      = "notifications/events/event"
	frameTerminated = "notifications/events/terminated"
)

// A frame is one message of a stream. Every kind but the final result has a
// method; all that move the listener's place have a cursor.
type frame struct {
	Method string `json:"method"`
	Params struct {
		occurrence
		Truncated bool         `json:"truncated"`
		Error     *remoteError `json:"error"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *remoteError    `json:"error"`
}

// A page is what a poll answers.
type page struct {
	Events    []occurrence `json:"events"`
	Cursor    string       `json:"cursor"`
	HasMore   bool         `json:"hasMore"`
	Truncated bool         `json:"truncated"`
}

// A remoteError is a JSON-RPC error of the server.
type remoteError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *remoteError) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

// call calls a tool. A refusal is an answer, not an error.
func (c connection) call(ctx context.Context, tool string, args map[string]any) (answer, error) {
	var result struct {
		Structured json.RawMessage `json:"structuredContent"`
	}
	if err := c.ask(ctx, "tools/call", map[string]any{"name": tool, "arguments": args}, &result); err != nil {
		return answer{}, fmt.Errorf("call %s: %w", tool, err)
	}
	a := answer{raw: string(result.Structured)}
	if err := json.Unmarshal(result.Structured, &a); err != nil {
		return answer{}, fmt.Errorf("read the answer of %s: %w", tool, err)
	}
	return a, nil
}

// poll asks for a page of a feed.
func (c connection) poll(ctx context.Context, params map[string]any) (p page, err error) {
	err = c.ask(ctx, "events/poll", params, &p)
	return p, err
}

// ask sends a request and reads its one answer into result.
func (c connection) ask(ctx context.Context, method string, params map[string]any, result any) error {
	res, err := c.post(ctx, method, params)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return readAnswer(res, result)
}

func readAnswer(res *http.Response, result any) error {
	var reply struct {
		Result json.RawMessage `json:"result"`
		Error  *remoteError    `json:"error"`
	}
	if err := json.NewDecoder(res.Body).Decode(&reply); err != nil {
		return fmt.Errorf("read an answer with status %d: %w", res.StatusCode, err)
	}
	if reply.Error != nil {
		return reply.Error
	}
	return json.Unmarshal(reply.Result, result)
}

// listen opens a stream and passes on what comes, until the stream ends or hear
// returns an error, which it then returns. The end is nil if the server meant it
// and [io.ErrUnexpectedEOF] if not.
func (c connection) listen(ctx context.Context, params map[string]any, hear func(frame) error) error {
	res, err := c.post(ctx, "events/stream", params)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return readAnswer(res, new(json.RawMessage))
	}
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		data, found := bytes.CutPrefix(line, []byte("data: "))
		if !found {
			continue // a comment, or the empty line behind a frame
		}
		var f frame
		if err := json.Unmarshal(data, &f); err != nil {
			return fmt.Errorf("read a frame: %w", err)
		}
		if err := hear(f); err != nil {
			return err
		}
		if f.Method == "" {
			return nil
		}
	}
}

// post sends one request. Those of the modern era describe themselves; those of
// the legacy one name their revision in a header and no more.
func (c connection) post(ctx context.Context, method string, params map[string]any) (*http.Response, error) {
	modern := c.version == mcp.V20260728
	if modern {
		params = maps.Clone(params)
		params["_meta"] = map[string]any{
			"io.modelcontextprotocol/protocolVersion":    c.version,
			"io.modelcontextprotocol/clientCapabilities": struct{}{},
		}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.origin+"/mcp", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", c.version)
	if modern {
		req.Header.Set("Mcp-Method", method)
		if name, ok := params["name"].(string); ok && method == "tools/call" {
			req.Header.Set("Mcp-Name", name)
		}
	}
	return c.http.Do(req)
}
