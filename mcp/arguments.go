package mcp

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

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
	if value, err = canonicalValue(value, nil); err != nil {
		return arguments{}, err
	}
	if err := t.In.Check(value); err != nil {
		return arguments{}, err
	}
	object := value.(map[string]any) // the schema has seen to that
	if _, err := canonicalAddresses(t.In.doc, object, nil); err != nil {
		return arguments{}, err
	}
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
	hash, err := eventstore.HashArgs(asked(t.Name, c.Board), rest)
	if err != nil {
		return eventstore.Operation{}, err
	}
	owner := c.AgentKey
	if t.Setup {
		owner = domain.AgentKey(c.GrantID)
	}
	return eventstore.Operation{
		Owner: owner, Key: key, Tool: t.Name, ArgsHash: hash, Board: c.Board, At: m.Now(),
	}, nil
}

// asked names what a call asks for, in its hash: the tool, and the board where that
// is not main, whose receipts are older than other boards. The same words on another
// board are another wish.
func asked(tool, board string) string {
	if board == MainBoard {
		return tool
	}
	return tool + " on " + board
}

// mostItems bounds lists and objects before a schema looks at them: naming a fault
// of each of a million items would take seconds. No tool takes as many.
const mostItems = 1000

// canonicalValue puts all text into Unicode normal form C, in which its length is
// counted and in which equal texts are equal, and writes whole numbers as such:
// JSON knows no difference between 50 and 50.0 or 5e1. path is where the value
// stands.
func canonicalValue(value any, path []string) (_ any, err error) {
	switch v := value.(type) {
	case string:
		return norm.NFC.String(v), nil
	case json.Number:
		return canonicalNumber(v, path)
	case []any:
		if len(v) > mostItems {
			return nil, refuseAt(path, "must have at most %d items; it has %d", mostItems, len(v))
		}
		for i := range v {
			if v[i], err = canonicalValue(v[i], within(path, strconv.Itoa(i))); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		if len(v) > mostItems {
			return nil, refuseAt(path, "must have at most %d members; there are %d", mostItems, len(v))
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if v[name], err = canonicalValue(v[name], within(path, name)); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// canonicalNumber refuses what other programs would read as another number: they
// keep numbers as floating point, which is exact up to here (RFC 8259, section 6).
func canonicalNumber(n json.Number, path []string) (json.Number, error) {
	const exact = 1<<53 - 1
	f, err := n.Float64()
	if err != nil || math.Abs(f) > exact {
		return "", refuseAt(path, "must be a number from -%d to %d", exact, exact)
	}
	if f == math.Trunc(f) {
		return json.Number(strconv.FormatInt(int64(f), 10)), nil
	}
	return n, nil
}

// canonicalAddresses puts every address into its checksummed form (EIP-55). It
// accepts one in a single case, and one in mixed case only with the right
// checksum: mixed case is a promise that it was not mistyped. The value fits the
// schema.
func canonicalAddresses(s *jsonschema.Schema, value any, path []string) (_ any, err error) {
	switch v := value.(type) {
	case string:
		if s.Pattern == addressPattern {
			return canonicalAddress(v, path)
		}
	case []any:
		for i := range v {
			if v[i], err = canonicalAddresses(s.Items, v[i], within(path, strconv.Itoa(i))); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if p, ok := s.Properties.Get(name); ok {
				if v[name], err = canonicalAddresses(p, v[name], within(path, name)); err != nil {
					return nil, err
				}
			}
		}
	}
	return value, nil
}

func canonicalAddress(s string, path []string) (string, error) {
	checksummed := common.HexToAddress(s).Hex()
	digits := s[len("0x"):]
	if s == checksummed || digits == strings.ToLower(digits) || digits == strings.ToUpper(digits) {
		return checksummed, nil
	}
	return "", refuseAt(path, "has a wrong checksum (EIP-55); check that it is complete and unchanged")
}

// within returns the path of a member of what stands at path.
func within(path []string, name string) []string { return append(slices.Clip(path), name) }
