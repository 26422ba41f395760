package mcp

import (
	"fmt"
	"strings"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"sidequest/domain"
)

// explain turns the first fault of a value into a refusal that names the field
// and the rule. It never repeats the value: that is someone else's text.
func explain(v *validator.ValidationError) *domain.Error {
	for len(v.Causes) > 0 {
		if k, ok := v.ErrorKind.(*kind.OneOf); ok && len(k.Subschemas) == 0 {
			break // which alternative was meant cannot be told
		}
		if _, ok := v.ErrorKind.(*kind.AnyOf); ok {
			break
		}
		v = v.Causes[0]
	}
	field := v.InstanceLocation
	var rule string
	switch k := v.ErrorKind.(type) {
	case *kind.Required:
		field, rule = append(field, k.Missing[0]), "is required"
	case *kind.AdditionalProperties:
		field, rule = append(field, k.Properties[0]), "is not an argument of this tool"
	case *kind.Type:
		rule = "must be of type " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		rule = fmt.Sprintf("must be one of %s", words(k.Want))
	case *kind.Const:
		rule = fmt.Sprintf("must be %v", k.Want)
	case *kind.Pattern:
		rule = "must match the pattern " + k.Want
	case *kind.Format:
		rule = formatRule(k.Want)
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
	if len(field) == 0 {
		return domain.Refuse(domain.Invalid, "the arguments %s", rule)
	}
	return domain.Refuse(domain.Invalid, "%s %s", field[len(field)-1], rule).At(pointer(field))
}

func formatRule(format string) string {
	if format == "eip55" {
		return "has a wrong checksum (EIP-55); check that it is complete and unchanged"
	}
	return "must be a " + format
}

func words(values []any) string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = fmt.Sprint(v)
	}
	return strings.Join(all, ", ")
}
