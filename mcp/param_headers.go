package mcp

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A ParamHeader is an argument that modern clients repeat in a header, so that
// what stands in front of the server can act on it without reading bodies. None of
// our tools has one: clients in browsers cannot send such headers.
type ParamHeader struct {
	name string   // behind Mcp-Param-
	path []string // members of the arguments, outermost first
	kind string   // "string", "integer" or "boolean"
}

const paramHeaderPrefix = "Mcp-Param-"

// token is what a header's name may be (RFC 9110, section 5.6.2).
var token = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// ParamHeaders returns the arguments with the keyword x-mcp-header in a schema
// that was decoded from JSON. Clients drop a tool that breaks a rule of the
// keyword, so it is an error here.
func ParamHeaders(schema map[string]any) ([]ParamHeader, error) {
	found, err := paramHeaders(schema, nil)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, p := range found {
		name := strings.ToLower(p.name)
		if seen[name] {
			return nil, fmt.Errorf("two arguments have the header %s%s", paramHeaderPrefix, p.name)
		}
		seen[name] = true
	}
	return found, nil
}

func paramHeaders(schema map[string]any, path []string) (found []ParamHeader, err error) {
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, ok := properties[name].(map[string]any)
		if !ok {
			continue
		}
		at := within(path, name)
		if header, annotated := property["x-mcp-header"]; annotated {
			p, err := newParamHeader(header, property["type"], at)
			if err != nil {
				return nil, err
			}
			found = append(found, p)
		}
		inner, err := paramHeaders(property, at)
		if err != nil {
			return nil, err
		}
		found = append(found, inner...)
	}
	return found, nil
}

func newParamHeader(header, kind any, path []string) (ParamHeader, error) {
	name, _ := header.(string)
	of, _ := kind.(string)
	if !token.MatchString(name) {
		return ParamHeader{}, fmt.Errorf("the x-mcp-header of %q is not a token", path)
	}
	if !slices.Contains([]string{"string", "integer", "boolean"}, of) {
		return ParamHeader{}, fmt.Errorf("the x-mcp-header of %q is on neither a string, an integer nor a boolean", path)
	}
	return ParamHeader{name, path, of}, nil
}

// CheckParamHeaders compares headers with the arguments they repeat. Legacy
// requests have none.
func (c *Call) CheckParamHeaders(all []ParamHeader, arguments jsontext.Value) error {
	if !c.Lane.Modern() {
		return nil
	}
	for _, p := range all {
		value := arguments
		for _, name := range p.path {
			value = member(value, name)
		}
		if !p.matches(c.header, value) {
			return badRequest(CodeHeaderMismatch, "The header %s%s must be present and equal to the argument %s, or absent where that is.",
				paramHeaderPrefix, p.name, strings.Join(p.path, "."))
		}
	}
	return nil
}

// matches says whether the header is as the argument demands. A value of another
// kind than its schema's is left to the schema's check.
func (p ParamHeader) matches(h http.Header, value jsontext.Value) bool {
	sent := h.Values(paramHeaderPrefix + p.name)
	if value == nil || value.Kind() == 'n' {
		return len(sent) == 0
	}
	if len(sent) != 1 {
		return false
	}
	got, ok := decodeHeader(sent[0])
	if !ok {
		return false
	}
	switch p.kind {
	case "integer":
		return sameInteger(got, string(value))
	case "boolean":
		return got == string(value)
	}
	want, ok := text(value)
	return ok && got == want
}

// sameInteger compares by value: 42 and 42.0 are the same.
func sameInteger(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y && x == math.Trunc(x)
}
