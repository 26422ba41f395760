package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	attemptLimit = 10 * time.Second // from the lookup of the name to the end of the answer
	maxBody      = 262_144          // bytes that receivers must take
	maxReply     = 64 << 10         // bytes that are read of an answer
)

// A message is one POST: an event or an envelope of ours.
type message struct {
	url          string
	subscription string
	id           string // the same in every attempt, so that receivers recognise a repeat
	body         []byte
	secrets      [][]byte
}

// errAborted is an attempt that we ended ourselves: it says nothing about anybody.
var errAborted = errors.New("the attempt was ended")

// post makes one attempt and returns what came of it, with the answer's first
// bytes. The only error is that ctx was done.
func (h *Hooks) post(ctx context.Context, m message, limit time.Duration) (Outcome, []byte, error) {
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	o, reply := h.send(within, m)
	o.Took = time.Since(began)
	if ctx.Err() != nil && o.Fault != NoFault {
		return Outcome{}, nil, errAborted
	}
	return o, reply, nil
}

func (h *Hooks) send(ctx context.Context, m message) (Outcome, []byte) {
	at := h.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(m.body))
	if err != nil {
		return Outcome{Fault: EndpointFault, Error: errConnection}, nil
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "sidequest-webhooks")
	req.Header.Set("Webhook-Id", m.id)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	req.Header.Set("Webhook-Signature", h.Signer.signature(m.id, at, m.body, m.secrets))
	req.Header["X-MCP-Subscription-Id"] = []string{m.subscription}
	// An empty list sends nothing, but tells the transport that a connection which
	// turns out to have been closed before may be replaced without a word.
	req.Header["X-Idempotency-Key"] = []string{}

	res, err := h.client.Do(req)
	if err != nil {
		return Outcome{Fault: EndpointFault, Error: category(err)}, nil
	}
	defer res.Body.Close()
	// The status alone acknowledges. The rest is read so that the connection can be
	// used again, and for challenges; trouble with it is no news of the delivery.
	reply, _ := io.ReadAll(io.LimitReader(res.Body, maxReply))
	return classify(res, h.Now()), reply
}

// classify says what an answer means for the lane.
func classify(res *http.Response, now time.Time) Outcome {
	o := Outcome{Status: res.StatusCode, Error: err4xx, Fault: RowRefused}
	switch status := res.StatusCode; {
	case status >= 200 && status < 300:
		return Outcome{Status: status}
	case status == http.StatusGone:
		o.Fault = RowGone
	case status == http.StatusRequestEntityTooLarge:
		o.Fault = RowTooLarge
	case status >= 500:
		o.Fault, o.Error = EndpointFault, err5xx
	case status < 400, status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		o.Fault = EndpointFault
	}
	if o.Fault == EndpointFault {
		o.RetryAfter = retryAfter(res.Header.Get("Retry-After"), now)
	}
	return o
}

// retryAfter reads the header of RFC 9110 §10.2.3, in either form.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return max(time.Duration(seconds)*time.Second, 1)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 1)
	}
	return 0
}
