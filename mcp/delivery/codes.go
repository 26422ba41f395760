package delivery

import (
	"time"

	"sidequest/mcp"
)

// Codes are the JSON-RPC codes of refusals that the events extension has of its
// own. Its drafts differ in them and clients of both are about, so they are a
// matter of configuration. Bad parameters, arguments and cursors are
// [mcp.CodeInvalidParams], and access that ended is [mcp.CodeForbidden], in either.
type Codes struct {
	NotFound          int // there is no such event
	ResourceExhausted int // the caller has used up what it may use
}

// SketchCodes returns the codes of the design sketch, which clients use today.
func SketchCodes() Codes { return Codes{NotFound: -32011, ResourceExhausted: -32013} }

// SEP3415Codes returns the codes of the draft SEP-3415.
func SEP3415Codes() Codes { return Codes{NotFound: -32023, ResourceExhausted: -32025} }

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
