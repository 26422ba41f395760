package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// An answer is what a tool said: a success or a refusal.
type answer struct {
	OK          bool            `json:"ok"`
	OperationID string          `json:"operationId"`
	Result      json.RawMessage `json:"result"`
	Code        string          `json:"code"`
	Reason      string          `json:"reason"`

	raw string // all of it, as it came
}

// attemptLimit bounds one attempt: a process may have been stopped.
const attemptLimit = 3 * time.Second

// call makes one attempt at a tool.
func (a *agent) call(ctx context.Context, origin, tool string, args map[string]any) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	body, err := json.Marshal(args)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, origin+"/api/"+tool, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+a.tokens[0])
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	got := answer{raw: string(raw)}
	if err := json.Unmarshal(raw, &got); err != nil {
		return answer{}, fmt.Errorf("status %d: %w: %s", res.StatusCode, err, raw)
	}
	return got, nil
}

// final says whether an answer is for good.
func (a answer) final() bool {
	return a.OK || a.Code != "overloaded" && a.Code != "unavailable"
}

// insist repeats a call over any process until it is answered for good.
func (f *field) insist(ctx context.Context, a *agent, tool string, args map[string]any) (answer, error) {
	for {
		got, err := a.call(ctx, f.anywhere(), tool, args)
		if err == nil && got.final() {
			return got, nil
		}
		if ctx.Err() != nil {
			return answer{}, fmt.Errorf("%s of %s: %w; the last attempt: %w %s", tool, a.name, ctx.Err(), err, got.raw)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// A frame is one message of a stream.
type frame struct {
	Method string `json:"method"`
	Params struct {
		EventID   string `json:"eventId"`
		Cursor    string `json:"cursor"`
		Truncated bool   `json:"truncated"`
	} `json:"params"`
}

const modern = "2026-07-28"

// stream opens a stream and passes on what comes until it ends.
func (a *agent) stream(ctx context.Context, origin, token, feed, cursor string, hear func(frame)) error {
	params := map[string]any{"name": feed, "_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion": modern, "io.modelcontextprotocol/clientCapabilities": struct{}{},
	}}
	if cursor != "" {
		params["cursor"] = cursor
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "events/stream", "params": params})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, origin+"/mcp", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", modern)
	req.Header.Set("Mcp-Method", "events/stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return errors.New("no stream")
	}
	for lines := bufio.NewReader(res.Body); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		data, found := bytes.CutPrefix(line, []byte("data: "))
		if !found {
			continue
		}
		var got frame
		if err := json.Unmarshal(data, &got); err != nil {
			return err
		}
		hear(got)
	}
}
