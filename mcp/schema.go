package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"sidequest/domain"
)

// A Schema is a closed JSON Schema (2020-12) made from a Go type: its fields, their
// json and jsonschema tags, and the shapes of the domain's own types.
type Schema struct {
	JSON     json.RawMessage
	doc      *jsonschema.Schema
	compiled *validator.Schema

	untrusted []byte // the member that labels foreign text in answers, with a comma in front; nil for none
}

// reflectSchema returns the schema of a struct type, not yet compiled.
func reflectSchema(t reflect.Type) *jsonschema.Schema {
	r := &jsonschema.Reflector{Anonymous: true, DoNotReference: true, ExpandedStruct: true, Mapper: shapeOf}
	s := r.ReflectFromType(t)
	s.Version = ""
	return s
}

// addressPattern marks what [canonicalAddresses] puts in order. A format of our
// own would say it better, but strict validators refuse a schema with one.
const addressPattern = `^0x[0-9a-fA-F]{40}$`

const (
	agentIDPattern = `^[1-9][0-9]{0,77}$`
	amountPattern  = `^[0-9]{1,30}(\.[0-9]{1,18})?$`
	idPattern      = `^[A-Za-z0-9_-]{1,64}$`
)

// shapeOf returns the schema of a type that is more than its Go kind says.
func shapeOf(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[domain.AgentID]():
		return &jsonschema.Schema{Type: "string", Pattern: agentIDPattern}
	case reflect.TypeFor[domain.Address]():
		return &jsonschema.Schema{Type: "string", Pattern: addressPattern}
	case reflect.TypeFor[domain.Amount]():
		return &jsonschema.Schema{Type: "string", Pattern: amountPattern}
	case reflect.TypeFor[domain.RequestID](), reflect.TypeFor[domain.QuoteID](), reflect.TypeFor[domain.TaskID](), reflect.TypeFor[domain.ApprovalID](),
		reflect.TypeFor[domain.AgentKey]():
		return &jsonschema.Schema{Type: "string", Pattern: idPattern}
	case reflect.TypeFor[domain.Foreign]():
		return &jsonschema.Schema{Type: "string", Extras: map[string]any{foreignKey: true}}
	case reflect.TypeFor[domain.When]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "integer", Minimum: "0", Description: "Unix seconds."},
			{Type: "string", MinLength: new(uint64(1)), MaxLength: new(uint64(40)), Description: "An RFC 3339 time, or a duration from now such as 72h or 3d."},
		}}
	case reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return &jsonschema.Schema{Type: "object"}
	}
	return nil
}

// compileArguments makes the schema of what a tool takes. All of it is the
// caller's own, so nothing in it is labelled.
func compileArguments(name string, doc *jsonschema.Schema) Schema {
	unmark(doc)
	return compile(name, doc)
}

// compileAnswer makes the schema of what a tool answers, which is a success or a
// failure, and labels the foreign text of a success. The failure comes last.
func compileAnswer(name string, doc *jsonschema.Schema) Schema {
	untrusted := label(doc.OneOf[:len(doc.OneOf)-1]...)
	s := compile(name, doc)
	s.untrusted = untrusted
	return s
}

// compile makes the schema ready to check values. Schemas are made when the
// program starts; one that is wrong is a fault of ours.
func compile(name string, doc *jsonschema.Schema) Schema {
	raw, err := json.Marshal(doc)
	if err != nil {
		panic(fmt.Sprintf("schema of %s: %v", name, err))
	}
	value, err := validator.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		panic(fmt.Sprintf("schema of %s: %v", name, err))
	}
	c := validator.NewCompiler()
	c.AssertFormat()
	url := "sidequest:" + name
	if err := c.AddResource(url, value); err != nil {
		panic(fmt.Sprintf("schema of %s: %v", name, err))
	}
	compiled, err := c.Compile(url)
	if err != nil {
		panic(fmt.Sprintf("schema of %s: %v", name, err))
	}
	return Schema{JSON: raw, doc: doc, compiled: compiled}
}

// Check returns the refusal of a value that does not fit, or nil. The value is as
// [encoding/json] decodes it, with numbers as [json.Number].
func (s Schema) Check(value any) error {
	err := s.compiled.Validate(value)
	if err == nil {
		return nil
	}
	v, ok := errors.AsType[*validator.ValidationError](err)
	if !ok {
		return fmt.Errorf("check against a schema: %w", err)
	}
	return explain(v)
}
