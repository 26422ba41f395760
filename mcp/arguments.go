package mcp

import (
	"bytes"
	"encoding/json"

	"github.com/ethereum/go-ethereum/common"
	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/unicode/norm"

	"sidequest/domain"
	"sidequest/eventstore"
)

// arguments checks the arguments of a call and puts them in canonical form. raw
// is an object that the strict parser has accepted, or empty for none.
func (m *Market) arguments(t Tool, c Caller, raw []byte) (arguments, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = []byte("{}")
	}
	value, err := validator.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return arguments{}, domain.Refuse(domain.Invalid, "the arguments are not JSON")
	}
	value = canonicalText(value)
	if err := t.In.Check(value); err != nil {
		return arguments{}, err
	}
	object := value.(map[string]any) // the schema has seen to that
	canonicalAddresses(t.In.doc, object)
	var in arguments
	if t.Write {
		if in.op, err = m.operation(t, c, raw, object); err != nil {
			return arguments{}, err
		}
	}
	in.canonical, err = json.Marshal(object)
	return in, err
}

// operation takes the operation key out of the arguments. The hash that makes a
// repeat recognisable covers the other arguments as they were sent, so that a
// relative time repeats as what it meant the first time.
func (m *Market) operation(t Tool, c Caller, raw []byte, object map[string]any) (eventstore.Operation, error) {
	key := object["operationKey"].(string) // required by the schema
	delete(object, "operationKey")
	var sent map[string]json.RawMessage
	if err := json.Unmarshal(raw, &sent); err != nil {
		return eventstore.Operation{}, err
	}
	delete(sent, "operationKey")
	rest, err := json.Marshal(sent)
	if err != nil {
		return eventstore.Operation{}, err
	}
	hash, err := eventstore.HashArgs(t.Name, rest)
	if err != nil {
		return eventstore.Operation{}, err
	}
	return eventstore.Operation{
		Owner: c.AgentKey, Key: key, Tool: t.Name, ArgsHash: hash, Board: c.Board, At: m.Now(),
	}, nil
}

// canonicalText puts all text into Unicode normal form C, in which its length is
// counted and in which equal texts are equal.
func canonicalText(value any) any {
	switch v := value.(type) {
	case string:
		return norm.NFC.String(v)
	case []any:
		for i := range v {
			v[i] = canonicalText(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = canonicalText(v[name])
		}
	}
	return value
}

// canonicalAddresses puts every address into its checksummed form (EIP-55). The
// value fits the schema.
func canonicalAddresses(s *jsonschema.Schema, value any) any {
	switch v := value.(type) {
	case string:
		if s.Format == "eip55" {
			return common.HexToAddress(v).Hex()
		}
	case []any:
		for i := range v {
			v[i] = canonicalAddresses(s.Items, v[i])
		}
	case map[string]any:
		for name := range v {
			if p, ok := s.Properties.Get(name); ok {
				v[name] = canonicalAddresses(p, v[name])
			}
		}
	}
	return value
}
