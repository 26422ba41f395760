package mcp

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"sidequest/domain"
)

// explain turns the first fault of a value into a refusal that names the field
// and the rule. It never repeats the value: that is someone else's text.
func explain(v *validator.ValidationError) *domain.Error {
	v = firstFault(v)
	field := v.InstanceLocation
	var rule string
	switch k := v.ErrorKind.(type) {
	case *kind.Required:
		field, rule = append(field, k.Missing[0]), "is required"
	case *kind.AdditionalProperties:
		return domain.Refuse(domain.Invalid, "this is not an argument of the tool; leave it out").At(place(append(field, slices.Min(k.Properties))))
	case *kind.Type:
		rule = "must be of type " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		rule = fmt.Sprintf("must be one of %s", words(k.Want))
	case *kind.Const:
		rule = fmt.Sprintf("must be %v", k.Want)
	case *kind.Pattern:
		rule = patternRule(k.Want)
	case *kind.Format:
		rule = "must be a " + k.Want
	case *kind.MinLength:
		rule = fmt.Sprintf("must have at least %d characters (minLength); it has %d", k.Want, k.Got)
	case *kind.MaxLength:
		rule = fmt.Sprintf("must have at most %d characters (maxLength); it has %d", k.Want, k.Got)
	case *kind.MinItems:
		rule = fmt.Sprintf("must have at least %d items (minItems); it has %d", k.Want, k.Got)
	case *kind.MaxItems:
		rule = fmt.Sprintf("must have at most %d items (maxItems); it has %d", k.Want, k.Got)
	case *kind.UniqueItems:
		rule = "must not repeat an item (uniqueItems)"
	case *kind.Minimum:
		rule = "must be at least " + k.Want.RatString() + " (minimum)"
	case *kind.Maximum:
		rule = "must be at most " + k.Want.RatString() + " (maximum)"
	case *kind.AnyOf:
		rule = "must be Unix seconds, an RFC 3339 time, or a duration such as 72h or 3d"
	default:
		rule = "does not fit its schema"
	}
	return refuseAt(field, "%s", rule)
}

// patternRule says in words what the patterns of the domain's own types ask for.
func patternRule(pattern string) string {
	words := map[string]string{
		amountPattern:  "must be a decimal number of token units, such as 25 or 0.5",
		addressPattern: "must be an address: 0x and 40 hex digits",
		agentIDPattern: "must be an agent id: a whole number from 1, without leading zeros",
	}[pattern]
	if words == "" {
		return "must match the pattern " + pattern
	}
	return words + " (pattern " + pattern + ")"
}

// firstFault returns the fault to name: of all there are the one whose field comes
// first, so that a repeated call hears the same. An alternative is named as a
// whole, since which one was meant cannot be told.
func firstFault(v *validator.ValidationError) *validator.ValidationError {
	if _, alternatives := v.ErrorKind.(*kind.AnyOf); alternatives || len(v.Causes) == 0 {
		return v
	}
	first := firstFault(v.Causes[0])
	for _, cause := range v.Causes[1:] {
		if other := firstFault(cause); slices.Compare(other.InstanceLocation, first.InstanceLocation) < 0 {
			first = other
		}
	}
	return first
}

// refuseAt refuses the argument at a path by a rule, of which it is the subject.
func refuseAt(path []string, rule string, args ...any) *domain.Error {
	return domain.Refuse(domain.Invalid, "%s %s", subject(path), fmt.Sprintf(rule, args...)).At(place(path))
}

// subject is a path as a sentence of ours may hold it: as far as its names are
// plain words. Others are someone else's text and stand in the field alone.
func subject(path []string) string {
	const longest = 100 // characters
	plain := func(name string) bool {
		return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
			return r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
		})
	}
	foreign := slices.IndexFunc(path, func(name string) bool { return !plain(name) })
	s := strings.Join(path, "/")
	switch {
	case len(path) == 0:
		return "the arguments"
	case foreign >= 0 || len(s) > longest:
		return "a member of the arguments"
	}
	return s
}

// place is a path as refusals show it: a JSON pointer (RFC 6901), cut short where
// a name in it is foreign text without end.
func place(path []string) string {
	const longest = 100 // characters
	var b strings.Builder
	for _, name := range path {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	if r := []rune(b.String()); len(r) > longest {
		return string(r[:longest]) + "…"
	}
	return b.String()
}

func words(values []any) string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = fmt.Sprint(v)
	}
	return strings.Join(all, ", ")
}
