package domain

import (
	"errors"
	"fmt"
)

// A Class groups refusal codes: it decides the HTTP status, what a repeat would
// do, and whether the refusal leaves a receipt.
type Class string

// The classes, which are also the codes of refusals that need no finer one.
const (
	Unauthenticated   Class = "unauthenticated"
	InsufficientScope Class = "insufficient-scope"
	RoleRequired      Class = "role-required"
	SetupPending      Class = "setup-pending"
	Forbidden         Class = "forbidden"
	Invalid           Class = "invalid"
	KeyConflict       Class = "key-conflict"
	Conflict          Class = "conflict"
	NotFound          Class = "not-found"
	RateLimited       Class = "rate-limited"
	Overloaded        Class = "overloaded"
	Unavailable       Class = "unavailable"
)

// Retry says what repeating a refused write would do.
type Retry string

// The retry rules: see docs/errors.md.
const (
	RetrySameKey       Retry = "same-key"
	RetryAfterOperator Retry = "after-operator"
	RetryNewKey        Retry = "new-key"
	RetryNone          Retry = "none"
)

// Retry returns what repeating a refusal of this class would do.
func (c Class) Retry() Retry {
	switch c {
	case RateLimited, Overloaded, Unavailable:
		return RetrySameKey
	case RoleRequired, SetupPending:
		return RetryAfterOperator
	case Invalid, Conflict:
		return RetryNewKey
	}
	return RetryNone
}

// LeavesReceipt says whether the refusal is part of the record, so that a repeat
// of the operation key answers the same. Only the state of the market does that;
// everything else may be mended and tried again with the same key.
func (c Class) LeavesReceipt() bool { return c == Conflict }

// A Step is a call the reader of an answer can make next.
type Step struct {
	Tool string         `json:"tool" jsonschema_description:"The tool to call."`
	Args map[string]any `json:"args" jsonschema_description:"Its arguments."`
}

// An Error is a refusal that may be shown to the caller. Every other error is
// internal: it is logged, and its text never leaves the program.
type Error struct {
	Class   Class  `json:"class"`
	Code    string `json:"code"`            // the class itself or a finer code, such as "request-closed"
	Message string `json:"message"`         // a sentence that says what is wrong and what to do
	Field   string `json:"field,omitempty"` // the argument at fault as a JSON pointer, if there is one
	Role    string `json:"role,omitempty"`  // the role that is missing, for RoleRequired
	Scope   string `json:"scope,omitempty"` // the scopes to ask for, space-separated, for InsufficientScope
	Next    *Step  `json:"next,omitempty"`  // what to call next, if anything helps
	After   int    `json:"after,omitempty"` // whole seconds before a repeat can help, if known
}

// Error implements error.
func (e *Error) Error() string {
	if e.Field != "" {
		return e.Code + ": " + e.Field + ": " + e.Message
	}
	return e.Code + ": " + e.Message
}

// Refuse makes a refusal with the class as its code.
func Refuse(c Class, format string, args ...any) *Error {
	return &Error{Class: c, Code: string(c), Message: fmt.Sprintf(format, args...)}
}

// RefuseAs makes a refusal with a finer code.
func RefuseAs(c Class, code, format string, args ...any) *Error {
	return &Error{Class: c, Code: code, Message: fmt.Sprintf(format, args...)}
}

// At returns the refusal with the argument it is about, as a JSON pointer
// (RFC 6901) into the arguments: "/budget/max".
func (e *Error) At(pointer string) *Error {
	e.Field = pointer
	return e
}

// CodeOf returns the code of a refusal, "" for nil and "internal" for anything else.
func CodeOf(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return "internal"
}
