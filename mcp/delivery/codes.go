package delivery

import (
	"time"

	"github.com/go-json-experiment/json"

	"sidequest/mcp"
	"sidequest/webhook"
)

// Codes are the JSON-RPC codes of refusals that the events extension has of its
// own. Its drafts differ in them and clients of both are about, so they are a
// matter of configuration. Bad parameters, arguments and cursors are
// [mcp.CodeInvalidParams], and access that ended is [mcp.CodeForbidden], in either.
type Codes struct {
	NotFound          int // there is no such event
	ResourceExhausted int // the caller has used up what it may use
	Unsupported       int // a way of delivery that there is not
	CallbackEndpoint  int // a webhook's endpoint did not answer as it should
}

// SketchCodes returns the codes of the design sketch, which clients use today.
func SketchCodes() Codes {
	return Codes{NotFound: -32011, ResourceExhausted: -32013, Unsupported: -32014, CallbackEndpoint: -32015}
}

// SEP3415Codes returns the codes of the draft SEP-3415.
func SEP3415Codes() Codes {
	return Codes{NotFound: -32023, ResourceExhausted: -32025, Unsupported: -32026, CallbackEndpoint: -32027}
}

func (c Codes) unknownEvent() *mcp.ProtocolError {
	return &mcp.ProtocolError{
		Code:    c.NotFound,
		Message: "There is no such event; events/list names those there are.",
		Data: struct {
			Kind string `json:"kind"`
		}{"event"},
	}
}

func (c Codes) tooManyOpenings(wait time.Duration) *mcp.ProtocolError {
	return &mcp.ProtocolError{
		Code:    c.ResourceExhausted,
		Message: "This connection opens streams too often; wait, then continue from the last cursor.",
		Data: struct {
			Limit        string `json:"limit"`
			Max          int    `json:"max"` // in a minute
			RetryAfterMS int64  `json:"retryAfterMs"`
		}{"stream-openings", int(time.Minute / openingEvery), wait.Milliseconds()},
		RetryAfter: int((wait + time.Second - 1) / time.Second),
	}
}

// limited is for what a grant may not have more of.
func (c Codes) limited(e *webhook.LimitError) *mcp.ProtocolError {
	message := "This connection has as many webhooks as it may have; end one that is not needed any more."
	if e.RetryAfter > 0 {
		message = "Too many endpoints are being verified; wait, then subscribe again."
	}
	return &mcp.ProtocolError{
		Code:    c.ResourceExhausted,
		Message: message,
		Data: struct {
			Limit        string `json:"limit"`
			Max          int    `json:"max"`
			RetryAfterMS int64  `json:"retryAfterMs,omitzero"`
		}{e.Limit, e.Max, e.RetryAfter.Milliseconds()},
		RetryAfter: int((e.RetryAfter + time.Second - 1) / time.Second),
	}
}

func (c Codes) unsupportedMode(mode string) *mcp.ProtocolError {
	return &mcp.ProtocolError{
		Code:    c.Unsupported,
		Message: "params.delivery.mode must be webhook; events/poll and events/stream need no subscription.",
		Data: struct {
			Feature string `json:"feature"`
			Value   string `json:"value"`
		}{"deliveryMode", mode},
	}
}

func (c Codes) callback(e *webhook.CallbackError) *mcp.ProtocolError {
	return &mcp.ProtocolError{
		Code:    c.CallbackEndpoint,
		Message: "The endpoint did not show that it wants these deliveries: it must answer the signed verification with 2xx and its challenge, within 5 seconds.",
		Data: struct {
			Reason string `json:"reason"`
		}{e.Reason},
	}
}

// EndedError is the error that webhooks are told of when their subscription ends.
func EndedError() ([]byte, error) {
	e := revoked()
	return json.Marshal(errorBody{e.Code, e.Message, e.Data})
}

// revoked is what a reader is told whose access has ended.
func revoked() *mcp.ProtocolError {
	return &mcp.ProtocolError{
		Code:    mcp.CodeForbidden,
		Message: "The access of this connection has been revoked.",
		Data: struct {
			Reason string `json:"reason"`
		}{"access-revoked"},
	}
}
