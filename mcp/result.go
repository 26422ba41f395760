package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// serverInfo is the identity as it stands in the _meta of every modern result.
const serverInfo = `"` + metaServerInfo + `":{"name":"` + Name + `","title":"` + Title + `","version":"` + Version + `"}`

// encode returns a value as one line of JSON that is an object. Nil is an empty
// object; a [jsontext.Value] is trusted to be valid.
func encode(v any) (jsontext.Value, error) {
	raw, ok := v.(jsontext.Value)
	switch {
	case v == nil:
		return jsontext.Value("{}"), nil
	case !ok:
		b, err := json.Marshal(v, json.Deterministic(true), jsontext.PreserveRawStrings(true))
		if err != nil {
			return nil, err
		}
		raw = b
	case bytes.ContainsAny(raw, "\r\n"):
		raw = raw.Clone()
		if err := raw.Compact(); err != nil {
			return nil, err
		}
	}
	raw = bytes.TrimSpace(raw)
	if raw.Kind() != '{' {
		return nil, fmt.Errorf("%T does not encode to an object", v)
	}
	return raw, nil
}

// An envelope is a result taken apart: the members the lane decides about, and
// the rest as it is.
type envelope struct {
	resultType, meta, ttl, scope jsontext.Value
	rest                         []byte // ,"name":value for each other member
}

// open takes a result apart. Its JSON is our own, so names are not compared again.
func open(raw jsontext.Value) (envelope, error) {
	var e envelope
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() == '"' {
		err = e.readMember(raw, dec)
	}
	if err == nil {
		_, err = dec.ReadToken()
	}
	if err != nil {
		return envelope{}, fmt.Errorf("read a result: %w", err)
	}
	return e, nil
}

func (e *envelope) readMember(raw jsontext.Value, dec *jsontext.Decoder) error {
	name, err := part(raw, dec)
	if err != nil {
		return err
	}
	value, err := part(raw, dec)
	if err != nil {
		return err
	}
	switch string(name) {
	case `"resultType"`:
		e.resultType = value
	case `"_meta"`:
		e.meta = value
	case `"ttlMs"`:
		e.ttl = value
	case `"cacheScope"`:
		e.scope = value
	default:
		e.rest = append(e.rest, ',')
		e.rest = append(e.rest, name...)
		e.rest = append(e.rest, ':')
		e.rest = append(e.rest, value...)
	}
	return nil
}

// part returns the next value as a part of what is read.
func part(raw jsontext.Value, dec *jsontext.Decoder) (jsontext.Value, error) {
	v, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(dec.InputOffset())
	return raw[end-len(v) : end : end], nil
}

// response returns the JSON-RPC response with a result, in the form the lane
// demands. Every result is written here, so no handler can forget a member of
// the envelope or leak a modern one into a legacy lane.
func response(c *Call, m Method, result any) ([]byte, error) {
	raw, err := encode(result)
	if err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	e, err := open(raw)
	if err != nil {
		return nil, err
	}
	if e.meta != nil && e.meta.Kind() != '{' {
		return nil, errors.New("the _meta of a result is not an object")
	}
	b := make([]byte, 0, len(raw)+512)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, c.Request.ID...)
	b = append(b, `,"result":{`...)
	members := e.modern(m)
	if !c.Lane.Modern() {
		members = e.rest
	}
	members = e.appendMeta(members, c)
	b = append(b, bytes.TrimPrefix(members, []byte(","))...)
	return append(b, "}}"...), nil
}

// modern returns the members of a modern result, without _meta. Only a complete
// result can be kept by a cache.
func (e *envelope) modern(m Method) []byte {
	if e.resultType == nil {
		e.resultType = jsontext.Value(`"complete"`)
	}
	b := append([]byte(`,"resultType":`), e.resultType...)
	b = append(b, e.rest...)
	if !m.Cacheable || string(e.resultType) != `"complete"` {
		return b
	}
	if e.ttl == nil {
		e.ttl = strconv.AppendInt(nil, m.TTL.Milliseconds(), 10)
	}
	if e.scope == nil {
		e.scope = jsontext.Value(`"private"`)
	}
	b = append(append(b, `,"ttlMs":`...), e.ttl...)
	return append(append(b, `,"cacheScope":`...), e.scope...)
}

// appendMeta adds _meta: what the handler put there, the identity in the modern
// era, the subscription's id at the end of a stream.
func (e *envelope) appendMeta(b []byte, c *Call) []byte {
	var members []byte
	if c.Lane.Modern() {
		members = append(members, ","+serverInfo...)
	}
	if c.stream != nil && c.stream.id != nil {
		members = append(members, `,"`+metaSubscriptionID+`":`...)
		members = append(members, c.Request.ID...)
	}
	if inner := bytes.TrimSpace(e.meta); len(inner) > len("{}") {
		members = append(members, ',')
		members = append(members, inner[1:len(inner)-1]...)
	}
	if members == nil {
		return b
	}
	b = append(append(b, `,"_meta":{`...), members[1:]...)
	return append(b, '}')
}

// errorResponse returns the JSON-RPC response with an error. An id that could not
// be read is left out.
func errorResponse(id jsontext.Value, e *ProtocolError) ([]byte, error) {
	type body struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitzero"`
	}
	b, err := json.Marshal(struct {
		JSONRPC string         `json:"jsonrpc"`
		ID      jsontext.Value `json:"id,omitzero"`
		Error   body           `json:"error"`
	}{"2.0", id, body{e.Code, e.Message, e.Data}})
	return visible(b), err
}
