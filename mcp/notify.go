package mcp

import (
	"errors"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// logLevels are the levels of notifications/message, least severe first.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// Progress tells the client how far the call has come, if it asked to be told and
// can be: within a batch, or where the client takes JSON alone, nothing is sent.
// Each value must be above the one before. Zero is no total, and empty no message.
// The first notification turns the answer into a stream, so whatever is to be
// refused with an HTTP status of its own is refused before.
func (c *Call) Progress(progress, total float64, message string) error {
	if t := c.Request.Meta.ProgressToken; t == nil || !validID(t) {
		return nil
	}
	return c.tell("notifications/progress", struct {
		Token    jsontext.Value `json:"progressToken"`
		Progress float64        `json:"progress"`
		Total    float64        `json:"total,omitzero"`
		Message  string         `json:"message,omitzero"`
	}{c.Request.Meta.ProgressToken, progress, total, message})
}

// Tell sends a log message to the client, if it asked for messages of that level
// on this very request. It is for what a client can act on, never for internals.
func (c *Call) Tell(level, logger string, data any) error {
	if !c.Lane.hears(level) {
		return nil
	}
	return c.tell("notifications/message", struct {
		Level  string `json:"level"`
		Logger string `json:"logger,omitzero"`
		Data   any    `json:"data"`
	}{level, logger, data})
}

// hears says whether the client wants messages of a level.
func (l Lane) hears(level string) bool {
	return l.LogLevel != "" && slices.Index(logLevels, level) >= slices.Index(logLevels, l.LogLevel)
}

// tell sends a notification about this request on the stream that its answer is.
func (c *Call) tell(method string, params any) error {
	if c.stream == nil && (c.w == nil || !c.takesStream) {
		return nil
	}
	if c.stream == nil {
		var err error
		if c.stream, err = openSSE(c.w, nil); err != nil {
			return err
		}
	}
	if err := c.stream.Notify(method, params); err != nil {
		return err
	}
	return c.stream.Flush()
}

// OpenStream turns the answer to a subscription into a stream. The handler refuses
// what it must refuse before, while an ordinary error can still be sent, and
// flushes what it adds. When it returns a result, that is the last frame; after
// [ErrAbrupt] there is none.
func (c *Call) OpenStream() (*SSE, error) { return c.openStream(c.Request.ID) }

// OpenReply turns the answer to any other request into a stream, whose
// notifications are about that request alone.
func (c *Call) OpenReply() (*SSE, error) { return c.openStream(nil) }

func (c *Call) openStream(id jsontext.Value) (*SSE, error) {
	if c.w == nil || c.stream != nil {
		return nil, errors.New("open a stream: there can be none or it is open already")
	}
	var err error
	c.stream, err = openSSE(c.w, id)
	return c.stream, err
}

// checkMeta refuses a progress token or a log level that is of no use.
func checkMeta(m Meta) *ProtocolError {
	if t := m.ProgressToken; t != nil && !validID(t) {
		return badRequest(CodeInvalidParams, "params._meta.progressToken must be a string or an integer of at most %d bytes.", maxID)
	}
	if m.LogLevel == nil {
		return nil
	}
	if level, ok := text(m.LogLevel); !ok || !slices.Contains(logLevels, level) {
		return badRequest(CodeInvalidParams, "params._meta[%q] must be one of %q.", metaLogLevel, logLevels)
	}
	return nil
}

// takesStream says whether a client that accepts these types takes an event
// stream for an answer.
func takesStream(h http.Header) bool {
	accept := h.Values("Accept")
	return len(accept) == 0 || accepts(accept, "*/*", "text/*", "text/event-stream")
}
