package mcp

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// The revisions of the protocol that are served.
const (
	V20260728 = "2026-07-28"
	V20251125 = "2025-11-25"
	V20250618 = "2025-06-18"
	V20250326 = "2025-03-26"
	V20241105 = "2024-11-05"
)

// supportedVersions lists the served revisions, newest first.
func supportedVersions() []string {
	return []string{V20260728, V20251125, V20250618, V20250326, V20241105}
}

// An Era is one of the two families of revisions.
type Era string

// Modern requests describe themselves in params._meta and need no handshake.
// Legacy ones begin with initialize.
const (
	Modern Era = "modern"
	Legacy Era = "legacy"
)

// A Lane is how one request wants to be understood and answered.
type Lane struct {
	Era     Era
	Version string

	// Capabilities are the client's own, as sent with this request; nil in the
	// legacy era, where nothing is remembered of the handshake.
	Capabilities jsontext.Value

	// LogLevel is the least severe level of messages the client wants with this
	// request; empty for none. Legacy clients set one per session, and there are
	// none.
	LogLevel string
}

// Modern says whether the request is of the modern era.
func (l Lane) Modern() bool { return l.Era == Modern }

// Declares says whether the client declared a capability on this very request:
// l.Declares("elicitation", "url").
func (l Lane) Declares(path ...string) bool {
	v := l.Capabilities
	for _, name := range path {
		if v = member(v, name); v == nil {
			return false
		}
	}
	return v.Kind() == '{'
}

// laneOf decides the era from the message first and the headers second, so that
// a proxy that adds or drops a header cannot turn one era into the other.
func laneOf(h http.Header, m Message) (Lane, *ProtocolError) {
	header := headerValue(h, "MCP-Protocol-Version")
	switch {
	case m.Method == "initialize" && m.Meta.ProtocolVersion == nil:
		return Lane{Era: Legacy, Version: V20251125}, nil
	case m.Meta.ProtocolVersion != nil || header != "" && !isOlderDate(header):
		return modernLane(header, h, m)
	case header == "":
		return Lane{Era: Legacy, Version: V20250326}, nil
	case slices.Contains(supportedVersions(), header):
		return Lane{Era: Legacy, Version: header}, nil
	}
	return Lane{}, unsupportedVersion(header)
}

// modernLane makes the checks of a modern request in the order that clients
// which probe for the era rely on: _meta, header version, version, method, and
// the name later, once the method is known.
func modernLane(header string, h http.Header, m Message) (Lane, *ProtocolError) {
	if m.Meta.Raw == nil {
		return Lane{}, badRequest(CodeInvalidParams, "params._meta is required and must be an object.")
	}
	requested, ok := text(m.Meta.ProtocolVersion)
	if !ok {
		return Lane{}, badRequest(CodeInvalidParams, "params._meta needs %q, a string.", metaProtocolVersion)
	}
	if m.Meta.ClientCapabilities.Kind() != '{' {
		return Lane{}, badRequest(CodeInvalidParams, "params._meta needs %q, an object.", metaClientCapabilities)
	}
	if header != requested {
		return Lane{}, badRequest(CodeHeaderMismatch, "The header MCP-Protocol-Version must be present and equal to the version in params._meta.")
	}
	if requested != V20260728 {
		return Lane{}, unsupportedVersion(requested)
	}
	if headerValue(h, "Mcp-Method") != m.Method {
		return Lane{}, badRequest(CodeHeaderMismatch, "The header Mcp-Method must be present and equal to the method.")
	}
	if refused := checkMeta(m.Meta); refused != nil {
		return Lane{}, refused
	}
	level, _ := text(m.Meta.LogLevel)
	return Lane{Era: Modern, Version: requested, Capabilities: m.Meta.ClientCapabilities, LogLevel: level}, nil
}

// checkName compares the header Mcp-Name with the parameter it repeats.
func checkName(h http.Header, m Message, param string) *ProtocolError {
	values := h.Values("Mcp-Name")
	want, ok := text(m.named(param))
	if len(values) == 1 && ok {
		if got, ok := decodeHeader(values[0]); ok && got == want {
			return nil
		}
	}
	return badRequest(CodeHeaderMismatch, "The header Mcp-Name must be present and equal to params.%s.", param)
}

// isOlderDate says whether a version is the date of a revision before the modern
// era. Everything else that is unknown counts as newer.
func isOlderDate(version string) bool {
	_, err := time.Parse(time.DateOnly, version)
	return err == nil && version < V20260728
}

// headerValue returns a header without optional white space. Values of a header
// sent more than once are joined, so that none of them is believed alone.
func headerValue(h http.Header, name string) string {
	return strings.Trim(strings.Join(h.Values(name), ", "), " \t")
}

// decodeHeader returns the text that a header value of the kind of Mcp-Name
// stands for. Text outside printable ASCII arrives as =?base64?…?=.
func decodeHeader(value string) (string, bool) {
	value = strings.Trim(value, " \t")
	if inner, ok := strings.CutPrefix(value, "=?base64?"); ok {
		if inner, ok = strings.CutSuffix(inner, "?="); ok {
			b, err := base64.StdEncoding.Strict().DecodeString(inner)
			return string(b), err == nil && utf8.Valid(b)
		}
	}
	outside := func(r rune) bool { return r > '~' || r < ' ' && r != '\t' }
	return value, !strings.ContainsFunc(value, outside)
}
