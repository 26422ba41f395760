package mcp

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a request body.
const (
	MaxBody  = 2 << 20 // bytes; holds one sample image
	MaxDepth = 32      // arrays and objects inside each other
	MaxBatch = 20      // messages
	maxID    = 256     // bytes of a request id; it is repeated in every frame
)

const (
	metaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	metaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaServerInfo         = "io.modelcontextprotocol/serverInfo"
	metaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	metaLogLevel           = "io.modelcontextprotocol/logLevel"
)

// A Message is one JSON-RPC message. Its values are parts of the body, not
// copies: whoever keeps one beyond the request clones it.
type Message struct {
	ID     jsontext.Value // a string or an integer exactly as sent; nil in a notification
	Method string
	Params jsontext.Value // an object; nil when absent or null
	Meta   Meta

	name, uri, taskID jsontext.Value // the parameters that Mcp-Name may repeat
	arguments         jsontext.Value
	state, responses  jsontext.Value // requestState and inputResponses
	version, method   jsontext.Value
	response          bool // result or error is present
}

// Meta is the _meta member of the parameters. Members are nil when absent and of
// any kind when present.
type Meta struct {
	Raw                jsontext.Value // an object; nil when absent or null
	ProtocolVersion    jsontext.Value
	ClientCapabilities jsontext.Value
	ProgressToken      jsontext.Value
	LogLevel           jsontext.Value
}

// IsNotification says whether the message wants no answer.
func (m *Message) IsNotification() bool { return m.ID == nil }

// Decode reads the parameters into dst, a pointer to a struct, by exact names.
// Members dst does not have are ignored. The error is a [*ProtocolError].
func (m *Message) Decode(dst any) error {
	params := m.Params
	if params == nil {
		params = jsontext.Value("{}")
	}
	err := json.Unmarshal(params, dst)
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		return InvalidParams("params%s has the wrong type.", e.JSONPointer)
	}
	if err != nil {
		return InvalidParams("The parameters cannot be read.")
	}
	return nil
}

// named returns the parameter that Mcp-Name repeats, nil when absent.
func (m *Message) named(param string) jsontext.Value {
	switch param {
	case "name":
		return m.name
	case "uri":
		return m.uri
	case "taskId":
		return m.taskID
	}
	return nil
}

// parse reads a body that holds one message. The message has its id even when it
// is refused, if the id could be read.
func parse(body []byte) (Message, *ProtocolError) {
	if tooDeep(body) {
		return Message{}, badRequest(CodeInvalidRequest, "The body is nested deeper than %d levels.", MaxDepth)
	}
	s := scanner{body: body, dec: jsontext.NewDecoder(bytes.NewBuffer(body))}
	if s.dec.PeekKind() != '{' {
		if err := s.whole(); err != nil {
			return Message{}, notJSON(err)
		}
		return Message{}, badRequest(CodeInvalidRequest, "The body is not a JSON-RPC message.")
	}
	m, err := s.message()
	if err != nil {
		return Message{}, notJSON(err)
	}
	refused := m.check(s.mistake)
	return m, refused
}

// parseBatch splits a body that holds an array into its messages, unread.
func parseBatch(body []byte) ([]jsontext.Value, *ProtocolError) {
	if tooDeep(body) {
		return nil, badRequest(CodeInvalidRequest, "The body is nested deeper than %d levels.", MaxDepth)
	}
	s := scanner{body: body, dec: jsontext.NewDecoder(bytes.NewBuffer(body))}
	var elements []jsontext.Value
	_, err := s.dec.ReadToken()
	for err == nil && s.dec.PeekKind() != ']' {
		var v jsontext.Value
		v, err = s.value()
		elements = append(elements, v)
	}
	if err == nil {
		_, err = s.dec.ReadToken()
	}
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, notJSON(err)
	}
	if len(elements) == 0 || len(elements) > MaxBatch {
		return nil, badRequest(CodeInvalidRequest, "A batch holds 1 to %d messages.", MaxBatch)
	}
	return elements, nil
}

// checkObject refuses a body that is not one object by the rules of every body.
func checkObject(body []byte) *ProtocolError {
	if tooDeep(body) {
		return badRequest(CodeInvalidRequest, "The body is nested deeper than %d levels.", MaxDepth)
	}
	s := scanner{body: body, dec: jsontext.NewDecoder(bytes.NewBuffer(body))}
	kind := s.dec.PeekKind()
	if err := s.whole(); err != nil {
		return notJSON(err)
	}
	if kind != '{' {
		return badRequest(CodeInvalidRequest, "The body must be a JSON object of arguments.")
	}
	return nil
}

// isBatch says whether a body begins like an array.
func isBatch(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("["))
}

func notJSON(err error) *ProtocolError {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return badRequest(CodeParse, "The body has an object with the same name twice.")
	}
	return badRequest(CodeParse, "The body is not valid JSON in UTF-8.")
}

// tooDeep counts brackets outside strings, before anything costlier looks at the
// body.
func tooDeep(body []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// A scanner walks the envelope of a message once. Inner values are checked for
// syntax on the way and kept as they are.
type scanner struct {
	body    []byte
	dec     *jsontext.Decoder
	mistake string // the first mistake in the envelope that is not one of syntax
}

// value returns the next value as a part of the body.
func (s *scanner) value() (jsontext.Value, error) {
	v, err := s.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(s.dec.InputOffset())
	return jsontext.Value(s.body[end-len(v) : end : end]), nil
}

// end checks that nothing follows.
func (s *scanner) end() error {
	if _, err := s.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("more follows"), err)
	}
	return nil
}

// whole reads a body that is a single value.
func (s *scanner) whole() error {
	if _, err := s.value(); err != nil {
		return err
	}
	return s.end()
}

// object reads an object and calls read at every value, which read must consume.
func (s *scanner) object(known []string, read func(name string) error) error {
	if _, err := s.dec.ReadToken(); err != nil {
		return err
	}
	for s.dec.PeekKind() == '"' {
		token, err := s.dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		s.refuseVariant(name, known)
		if err := read(name); err != nil {
			return err
		}
	}
	_, err := s.dec.ReadToken()
	return err
}

// refuseVariant notes a name that differs from a known one by case alone. A
// reader that folds case would take it for the known one and see another message
// than we do.
func (s *scanner) refuseVariant(name string, known []string) {
	for _, k := range known {
		if s.mistake == "" && name != k && strings.EqualFold(name, k) {
			s.mistake = "The member " + k + " must be written exactly so."
		}
	}
}

var (
	envelopeNames = []string{"jsonrpc", "id", "method", "params", "result", "error"}
	paramNames    = []string{
		"_meta", "name", "uri", "taskId",
		// Not read here, but a name that only looks like one of them must not pass as
		// left out: a cursor that was not seen would begin somewhere else.
		"arguments", "cursor", "maxEvents", "maxAgeMs", "timeoutMs", "requestState", "inputResponses", "notifications",
	}
	metaNames = []string{metaProtocolVersion, metaClientCapabilities, metaLogLevel, "progressToken"}
)

func (s *scanner) message() (Message, error) {
	var m Message
	err := s.object(envelopeNames, func(name string) (err error) {
		switch name {
		case "jsonrpc":
			m.version, err = s.value()
		case "id":
			m.ID, err = s.value()
		case "method":
			m.method, err = s.value()
		case "params":
			m.Params, err = s.maybeObject("params", func() error { return s.params(&m) })
		case "result", "error":
			m.response = true
			err = s.dec.SkipValue()
		default:
			err = s.dec.SkipValue()
		}
		return err
	})
	if err != nil {
		return Message{}, err
	}
	return m, s.end()
}

func (s *scanner) params(m *Message) error {
	return s.object(paramNames, func(name string) (err error) {
		switch name {
		case "name":
			m.name, err = s.value()
		case "uri":
			m.uri, err = s.value()
		case "taskId":
			m.taskID, err = s.value()
		case "arguments":
			m.arguments, err = s.value()
		case "requestState":
			m.state, err = s.value()
		case "inputResponses":
			m.responses, err = s.value()
		case "_meta":
			m.Meta.Raw, err = s.maybeObject("params._meta", func() error { return s.meta(&m.Meta) })
		default:
			err = s.dec.SkipValue()
		}
		return err
	})
}

func (s *scanner) meta(meta *Meta) error {
	return s.object(metaNames, func(name string) (err error) {
		switch name {
		case metaProtocolVersion:
			meta.ProtocolVersion, err = s.value()
		case metaClientCapabilities:
			meta.ClientCapabilities, err = s.value()
		case "progressToken":
			meta.ProgressToken, err = s.value()
		case metaLogLevel:
			meta.LogLevel, err = s.value()
		default:
			err = s.dec.SkipValue()
		}
		return err
	})
}

// metaMistake is the one mistake of the envelope that is one of the parameters.
const metaMistake = "The member params._meta must be an object."

// maybeObject walks an object and returns it as a part of the body. Null counts
// as absent, since some clients write what they do not set; anything else is a
// mistake.
func (s *scanner) maybeObject(what string, walk func() error) (jsontext.Value, error) {
	kind := s.dec.PeekKind()
	if kind != '{' {
		if kind != 'n' && s.mistake == "" {
			s.mistake = "The member " + what + " must be an object."
		}
		return nil, s.dec.SkipValue()
	}
	before := int(s.dec.InputOffset())
	if err := walk(); err != nil {
		return nil, err
	}
	end := int(s.dec.InputOffset())
	start := before + bytes.IndexByte(s.body[before:end], '{')
	return jsontext.Value(s.body[start:end:end]), nil
}

// check says what is wrong with a message that is valid JSON. An id that cannot
// be used is removed, so that no answer repeats it.
func (m *Message) check(mistake string) *ProtocolError {
	id := m.ID
	if id != nil && !validID(id) {
		m.ID = nil
		return badRequest(CodeInvalidRequest, "The id must be a string or an integer of at most %d bytes.", maxID)
	}
	if mistake == metaMistake {
		return badRequest(CodeInvalidParams, "%s", mistake)
	}
	if mistake != "" {
		return badRequest(CodeInvalidRequest, "%s", mistake)
	}
	if version, ok := text(m.version); !ok || version != "2.0" {
		return badRequest(CodeInvalidRequest, `The member jsonrpc must be "2.0".`)
	}
	if m.method == nil && m.response {
		return nil
	}
	method, ok := text(m.method)
	if !ok || method == "" || m.response {
		return badRequest(CodeInvalidRequest, "A message is a request with a method, a notification, or a response.")
	}
	m.Method = method
	if id == nil && !strings.HasPrefix(method, "notifications/") {
		return badRequest(CodeInvalidRequest, "A request needs an id; only methods under notifications/ go without.")
	}
	return nil
}

func validID(id jsontext.Value) bool {
	if len(id) > maxID {
		return false
	}
	return id.Kind() == '"' || id.Kind() == '0' && !slices.ContainsFunc(id, func(b byte) bool {
		return b == '.' || b == 'e' || b == 'E'
	})
}

// text returns the string a value is, and whether it is one.
func text(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, v)
	return string(b), err == nil
}

// member returns the value of a name of an object that was parsed before, nil if
// there is none.
func member(object jsontext.Value, name string) jsontext.Value {
	if object.Kind() != '{' {
		return nil
	}
	s := scanner{body: object, dec: jsontext.NewDecoder(bytes.NewBuffer(object))}
	var found jsontext.Value
	err := s.object(nil, func(n string) (err error) {
		if n != name {
			return s.dec.SkipValue()
		}
		found, err = s.value()
		return err
	})
	if err != nil {
		return nil
	}
	return found
}
