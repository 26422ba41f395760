package delivery

import (
	"maps"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sidequest/mcp"
	"sidequest/projections"
)

// An argument narrows down what a reader hears. Its schema and its check stand
// together, so that neither promises what the other does not hold.
type argument struct {
	name   string
	schema string // JSON Schema 2020-12
	rule   string // the schema in words, for refusals
	set    func(*projections.Selector, jsontext.Value) bool
}

const maxKinds = 20

var kindForm = regexp.MustCompile(`^[a-z]+\.[a-z_]+$`)

var kindsArgument = argument{
	name:   "kinds",
	schema: `{"type":"array","maxItems":20,"items":{"type":"string","pattern":"^[a-z]+\\.[a-z_]+$"},"description":"Hear only of these kinds, such as quote.received. None means all."}`,
	rule:   "an array of at most 20 strings such as quote.received",
	set: func(s *projections.Selector, v jsontext.Value) bool {
		if v.Kind() != '[' || json.Unmarshal(v, &s.Kinds) != nil || len(s.Kinds) > maxKinds {
			return false
		}
		return !slices.ContainsFunc(s.Kinds, func(kind string) bool { return !kindForm.MatchString(kind) })
	},
}

var requestArgument = argument{
	name:   "requestId",
	schema: `{"type":"string","minLength":1,"description":"Hear only of this request."}`,
	rule:   "a string that is not empty",
	set:    func(s *projections.Selector, v jsontext.Value) bool { return setText(&s.RequestID, v) },
}

var taskArgument = argument{
	name:   "taskId",
	schema: `{"type":"string","minLength":1,"description":"Hear only of this task."}`,
	rule:   "a string that is not empty",
	set:    func(s *projections.Selector, v jsontext.Value) bool { return setText(&s.TaskID, v) },
}

func setText(dst *string, v jsontext.Value) bool {
	return v.Kind() == '"' && json.Unmarshal(v, dst) == nil && *dst != ""
}

// inputSchema returns the closed schema of the event's arguments.
func (d descriptor) inputSchema() jsontext.Value {
	b := []byte(`{"type":"object","properties":{`)
	for i, a := range d.arguments {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `"`+a.name+`":`+a.schema...)
	}
	return append(b, `},"additionalProperties":false}`...)
}

// choose applies the arguments of a request to what is selected.
func (d descriptor) choose(s *projections.Selector, arguments jsontext.Value) error {
	if !given(arguments) {
		return nil
	}
	if arguments.Kind() != '{' {
		return mcp.InvalidParams("params.arguments must be an object.")
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(arguments, &members); err != nil {
		return mcp.InvalidParams("params.arguments cannot be read.")
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		i := slices.IndexFunc(d.arguments, func(a argument) bool { return a.name == name })
		if i < 0 {
			return mcp.InvalidParams("params.arguments has the member %.60q; %s takes no such argument.", name, d.name)
		}
		if a := d.arguments[i]; !a.set(s, members[name]) {
			return mcp.InvalidParams("params.arguments.%s must be %s.", name, a.rule)
		}
	}
	return nil
}

// given says whether an optional member is there. Null counts as absent, since
// some clients write what they do not set.
func given(v jsontext.Value) bool { return v != nil && v.Kind() != 'n' }
