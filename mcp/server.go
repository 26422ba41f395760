package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"sidequest/domain"
)

const (
	// legacyTimeout bounds a call whose client may have left: in the legacy era a
	// closed connection does not cancel what it asked for.
	legacyTimeout = 60 * time.Second

	// readTimeout and writeTimeout bound the body and an answer in one piece.
	readTimeout  = 30 * time.Second
	writeTimeout = 30 * time.Second
)

// A Handler answers one method. The result must encode to a JSON object by the
// rules of encoding/json/v2: a nil slice is [], and a zero number or false is
// left out by omitzero, not by omitempty. It need not carry resultType, ttlMs,
// cacheScope or the server's identity. Nil is an empty object.
//
// An error that is a [*ProtocolError] or a [*domain.Error] is shown to the
// client; any other is logged and hidden.
type Handler func(ctx context.Context, c *Call) (any, error)

// A Method is a row of the method table.
type Method struct {
	Handle Handler

	// AllowedInSetup lets callers in who cannot read: those of a connection that
	// has no agent yet. The handler decides what they may do.
	AllowedInSetup bool

	// Stream lets the handler open a stream with [Call.OpenStream]. Such a method
	// cannot be part of a batch, and a closed connection ends it in either era.
	Stream bool

	// Permit refuses what the caller's scopes do not cover, with a [*domain.Error].
	// It does nothing else and is quick. Nil leaves it to AllowedInSetup.
	Permit func(ctx context.Context, c *Call) error

	// NameParam is the parameter that the header Mcp-Name repeats: "name", "uri",
	// "taskId" or none.
	NameParam string

	// Cacheable results tell clients how long they may keep them, by TTL. The
	// scope is private, because an answer here depends on who asks.
	Cacheable bool
	TTL       time.Duration

	// Asks lets the handler answer with [InputRequired].
	Asks bool

	ModernOnly, LegacyOnly bool
}

// A Call is one request on its way through a method.
type Call struct {
	Caller  Caller
	Request Message
	Lane    Lane

	// Inputs are what the client sends back with a repeated call, see
	// [InputRequired].
	Inputs Inputs

	w           http.ResponseWriter // nil within a batch
	header      http.Header         // of the request; nil within a batch
	path        string
	takesStream bool
	stream      *SSE
	refused     *ProtocolError // why an element of a batch is not carried out
}

// A Server answers the MCP endpoint of a board, in every revision.
type Server struct {
	// Methods are the methods beside those of the handshake. What a client is
	// told the server can do follows from them.
	Methods map[string]Method

	// Extensions are those that modern clients are told of, with their settings,
	// beside the one that events/list brings.
	Extensions map[string]any

	// Authenticate says who sends a request. It refuses with a [*domain.Error] of
	// the class unauthenticated, or another class if that is the matter.
	Authenticate func(*http.Request) (Caller, error)

	// BaseURL is the public origin, such as "https://sidequest.example", without
	// a slash at the end. If it is a loopback origin, requests must name a
	// loopback host.
	BaseURL string

	// States seals what calls that ask for input get back. It may be zero where no
	// method asks.
	States States

	// Listening serves subscriptions/listen; nil if nothing changes that a client
	// could hear of.
	Listening *Listening

	Log *slog.Logger
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if refused := s.admit(w.Header(), r); refused != nil {
		s.writeError(w, nil, refused)
		return
	}
	if r.Method == http.MethodOptions {
		preflight(w)
		return
	}
	caller, refused := s.authenticate(r)
	if refused != nil {
		s.writeError(w, nil, refused)
		return
	}
	body, refused := readBody(w, r)
	if refused != nil {
		s.writeError(w, nil, refused)
		return
	}
	c := &Call{Caller: caller, w: w, header: r.Header, path: pathOf(r), takesStream: takesStream(r.Header)}
	if isBatch(body) {
		s.serveBatch(c, r, body)
		return
	}
	s.serveMessage(c, r, body)
}

// serveMessage answers a body that holds one message.
func (s *Server) serveMessage(c *Call, r *http.Request, body []byte) {
	var refused *ProtocolError
	if c.Request, refused = parse(body); refused != nil {
		s.writeError(c.w, c.Request.ID, refused)
		return
	}
	if c.Request.response || c.Request.IsNotification() {
		s.acceptSilently(c, r)
		return
	}
	if c.Lane, refused = laneOf(r.Header, c.Request); refused != nil {
		s.writeError(c.w, c.Request.ID, refused)
		return
	}
	answer, refused := s.answer(r.Context(), r.Header, c)
	switch {
	case c.stream != nil && answer != nil:
		// A client that has left is not worth a line in the log.
		_ = c.stream.finish(answer)
	case c.stream != nil:
	case refused != nil:
		s.writeError(c.w, c.Request.ID, refused)
	case answer != nil:
		writeJSON(c.w, http.StatusOK, answer)
	}
}

// acceptSilently takes messages that want no answer. Nothing here acts on them:
// a server that remembers no request cannot cancel one by its id. Modern clients
// have nothing to respond to.
func (s *Server) acceptSilently(c *Call, r *http.Request) {
	version := headerValue(r.Header, "MCP-Protocol-Version")
	if c.Request.response && version != "" && !isOlderDate(version) {
		s.writeError(c.w, c.Request.ID, badRequest(CodeInvalidRequest, "This server asks its clients nothing, so it takes no responses."))
		return
	}
	c.w.WriteHeader(http.StatusAccepted)
}

// serveBatch answers an array of messages, which only one legacy revision has.
func (s *Server) serveBatch(c *Call, r *http.Request, body []byte) {
	elements, refused := parseBatch(body)
	if version := headerValue(r.Header, "MCP-Protocol-Version"); version != "" && version != V20250326 && refused == nil {
		refused = badRequest(CodeInvalidRequest, "Only the revision %s has batches.", V20250326)
	}
	if refused != nil {
		s.writeError(c.w, nil, refused)
		return
	}
	calls := make([]*Call, len(elements))
	for i, element := range elements {
		calls[i] = s.element(c, element)
	}
	if refused := s.permitBatch(r.Context(), c, calls); refused != nil {
		s.writeError(c.w, nil, refused)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), legacyTimeout)
	defer cancel()
	var answers []byte
	for _, a := range s.answerAll(ctx, calls) {
		if a != nil {
			answers = append(append(answers, ','), a...)
		}
	}
	if answers == nil {
		c.w.WriteHeader(http.StatusAccepted)
		return
	}
	answers[0] = '['
	writeJSON(c.w, http.StatusOK, append(answers, ']'))
}

// answerAll answers the messages of a batch all at once, since each may wait for
// something, and returns the answers in the order of the messages.
func (s *Server) answerAll(ctx context.Context, calls []*Call) [][]byte {
	answers := make([][]byte, len(calls))
	var all sync.WaitGroup
	for i, c := range calls {
		all.Go(func() { answers[i] = s.answerElement(ctx, c) })
	}
	all.Wait()
	return answers
}

// element reads one message of a batch.
func (s *Server) element(batch *Call, element []byte) *Call {
	c := &Call{Caller: batch.Caller, path: batch.path, Lane: Lane{Era: Legacy, Version: V20250326}}
	c.Request, c.refused = parse(element)
	if c.refused != nil || c.Request.response || c.Request.IsNotification() {
		return c
	}
	if c.Request.Method == "initialize" || c.Request.Meta.ProtocolVersion != nil || s.Methods[c.Request.Method].Stream {
		c.refused = badRequest(CodeInvalidRequest, "This request cannot be part of a batch.")
	}
	return c
}

// permitBatch refuses a whole batch, before any of it is done, if the scopes of the
// caller do not cover all of it. A status is of all answers or of none, so a client
// hears at once everything it has to ask for.
func (s *Server) permitBatch(ctx context.Context, batch *Call, calls []*Call) *ProtocolError {
	var needed []string
	for _, c := range calls {
		if c.refused != nil || c.Request.response || c.Request.IsNotification() {
			continue
		}
		_, err := s.methodFor(ctx, nil, c)
		if e, ok := errors.AsType[*domain.Error](err); ok && e.Class == domain.InsufficientScope {
			needed = append(needed, e.Scope)
		}
	}
	if needed == nil {
		return nil
	}
	e := domain.Refuse(domain.InsufficientScope, "Parts of this batch are outside the scopes of this connection, so none of it was done.")
	e.Scope = strings.Join(needed, " ")
	return s.stepUp(batch, e)
}

// answerElement answers one message of a batch, with nil if it wants no answer.
func (s *Server) answerElement(ctx context.Context, c *Call) []byte {
	refused := c.refused
	switch {
	case refused != nil:
	case c.Request.response || c.Request.IsNotification():
		return nil
	default:
		var answer []byte
		if answer, refused = s.answer(ctx, nil, c); refused == nil {
			return answer
		}
	}
	answer, err := errorResponse(c.Request.ID, refused)
	if err != nil {
		s.Log.ErrorContext(ctx, "encode an error", "error", err)
	}
	return answer
}

// answer runs the call and returns its response, or the refusal if nothing was
// sent yet. Both are nil if there is nothing to send any more.
func (s *Server) answer(ctx context.Context, h http.Header, c *Call) ([]byte, *ProtocolError) {
	m, err := s.methodFor(ctx, h, c)
	if err == nil && m.Asks {
		err = s.takeInputs(c)
	}
	var result any
	if err == nil {
		result, err = s.call(ctx, m, c)
	}
	if asked, ok := result.(InputRequired); ok && err == nil {
		result, err = s.ask(c, m, asked)
	}
	var answer []byte
	if err == nil {
		answer, err = response(c, m, result)
	}
	if err == nil {
		return answer, nil
	}
	if c.stream != nil && (c.stream.broken || errors.Is(err, ErrAbrupt)) {
		return nil, nil
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil, nil
	}
	refused := s.protocolError(ctx, c, err).in(c.Lane)
	if c.stream == nil {
		return nil, refused
	}
	answer, err = errorResponse(c.Request.ID, refused)
	if err != nil {
		s.Log.ErrorContext(ctx, "encode an error", "error", err)
	}
	return answer, nil
}

// methodFor finds the method of a call and checks what can be refused without it.
func (s *Server) methodFor(ctx context.Context, h http.Header, c *Call) (Method, error) {
	m, known := s.method(c.Request.Method)
	if !known || m.ModernOnly && !c.Lane.Modern() || m.LegacyOnly && c.Lane.Modern() {
		return Method{}, methodNotFound()
	}
	if c.Lane.Modern() && m.NameParam != "" {
		if refused := checkName(h, c.Request, m.NameParam); refused != nil {
			return Method{}, refused
		}
	}
	if !m.AllowedInSetup && !c.Caller.Has(domain.ScopeRead) {
		refused := domain.Refuse(domain.InsufficientScope, "This method needs a connection that may read.")
		refused.Scope = domain.ScopeRead
		return Method{}, refused
	}
	if m.Permit != nil {
		if err := m.Permit(ctx, c); err != nil {
			return Method{}, err
		}
	}
	return m, nil
}

// call runs the handler. A panic is an internal error like any other, so that the
// client still gets an answer it understands.
func (s *Server) call(ctx context.Context, m Method, c *Call) (result any, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if e, ok := p.(error); ok && c.w != nil && errors.Is(e, http.ErrAbortHandler) {
			panic(p) // net/http knows what it means
		}
		err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}()
	if !c.Lane.Modern() && !m.Stream {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), legacyTimeout)
		defer cancel()
	}
	return m.Handle(ctx, c)
}

// writeError sends a refusal with the headers that belong to it.
func (s *Server) writeError(w http.ResponseWriter, id jsontext.Value, e *ProtocolError) {
	if e.Challenge != "" {
		w.Header().Set("WWW-Authenticate", e.Challenge)
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	body, err := errorResponse(id, e)
	if err != nil {
		s.Log.Error("encode an error", "error", err)
	}
	writeJSON(w, e.Status, body)
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	setDeadline(http.NewResponseController(w).SetWriteDeadline, time.Now().Add(writeTimeout))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // it is JSON and says so, and a client that has left is not worth a line in the log
}
