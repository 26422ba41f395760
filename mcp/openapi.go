package mcp

import (
	"cmp"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/invopop/jsonschema"

	"sidequest/domain"
)

// A node of the OpenAPI document.
type object = map[string]any

// openAPI returns the description of every tool over HTTP (OpenAPI 3.1). All of it
// comes from the tool table and the classes of refusals.
func (d *Discovery) openAPI() object {
	paths := object{}
	for _, t := range d.Tools {
		paths["/api/"+t.Name] = object{"post": t.operationOverHTTP()}
	}
	return object{
		"openapi": "3.1.0",
		"info": said("Each tool is a POST with its arguments as the body. The same tools answer over MCP at "+d.Origin+"/mcp, to the same tokens.",
			object{"title": Title, "version": Version, "summary": Tagline}),
		"jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
		"servers": []object{
			said("The main board.", object{"url": d.Origin}),
			said("Another board; it needs a token of its own.", object{"url": d.Origin + "/b/{board}", "variables": object{"board": object{"default": "board"}}}),
		},
		"externalDocs": said("Documentation", object{"url": d.Origin + "/docs"}),
		"paths":        paths,
		"components": object{
			"schemas":         object{"Failure": failureSchema()},
			"responses":       d.refusedResponses(),
			"securitySchemes": d.oauthScheme(),
		},
	}
}

// said puts a description to what it describes.
func said(description string, of object) object {
	of["description"] = description
	return of
}

// operationOverHTTP is the tool as an operation of OpenAPI.
func (t Tool) operationOverHTTP() object {
	responses := object{"200": said("What the tool answers.", object{"content": object{jsonType: object{"schema": t.grantedSchema()}}})}
	for _, status := range refusedStatuses() {
		responses[strconv.Itoa(status)] = object{"$ref": "#/components/responses/" + responseName(status)}
	}
	var security []object
	for _, scope := range t.Scopes {
		security = append(security, object{"oauth": []string{scope}})
	}
	return said(t.Description, object{
		"operationId": t.Name,
		"summary":     t.Title,
		"security":    security,
		"requestBody": object{
			"required": len(t.In.doc.Required) > 0,
			"content":  object{jsonType: object{"schema": t.In.JSON}},
		},
		"responses": responses,
	})
}

// granted are the forms of what the tool answers unless it refuses: the last form of
// an answer is the refusal.
func (t Tool) granted() []*jsonschema.Schema { return t.Out.doc.OneOf[:len(t.Out.doc.OneOf)-1] }

func (t Tool) grantedSchema() any {
	if forms := t.granted(); len(forms) > 1 {
		return object{"oneOf": forms}
	}
	return t.granted()[0]
}

// failureSchema is that of every refusal.
func failureSchema() *jsonschema.Schema {
	s := reflectSchema(reflect.TypeFor[Failure]())
	setConst(s, false)
	return s
}

// refusedStatuses are those that refusals have over HTTP, in order.
func refusedStatuses() []int {
	all := append(slices.Collect(maps.Values(restStatus)), http.StatusInternalServerError)
	slices.Sort(all)
	return slices.Compact(all)
}

// responseName names the refusals of a status in the components.
func responseName(status int) string { return "Refused" + strconv.Itoa(status) }

// refusedResponses has an example for each code, under its status.
func (d *Discovery) refusedResponses() object {
	examples := map[int]object{http.StatusInternalServerError: {"internal": example(Failure{
		Code: string(domain.Unavailable), Message: "Something went wrong on our side.", Reason: "internal", Retry: domain.RetrySameKey, ErrorID: "0123456789ab",
	})}}
	add := func(code string, class domain.Class, message string) {
		f := Failure{Code: code, Message: message, Retry: class.Retry()}
		if code != string(class) {
			f.Reason = string(class)
		}
		status := restStatus[class]
		if examples[status] == nil {
			examples[status] = object{}
		}
		examples[status][code] = example(f)
	}
	for _, c := range classDocs() {
		add(string(c.class), c.class, c.why+" "+c.fix)
	}
	for _, c := range codeDocs() {
		add(c.code, c.class, c.why+" "+c.fix)
	}
	responses := object{}
	for status, all := range examples {
		response := said(cmp.Or(http.StatusText(status), "Refused")+". "+d.Origin+"/docs/errors says what to do about each code.",
			object{"content": object{jsonType: object{"schema": object{"$ref": "#/components/schemas/Failure"}, "examples": all}}})
		if headers := refusedHeaders(status); headers != nil {
			response["headers"] = headers
		}
		responses[responseName(status)] = response
	}
	return responses
}

func example(f Failure) object { return object{"value": f} }

func refusedHeaders(status int) object {
	text := object{"type": "string"}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return object{"WWW-Authenticate": said("Which token would do (RFC 6750, RFC 9728).", object{"schema": text})}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return object{"Retry-After": said("Whole seconds to wait.", object{"schema": object{"type": "integer"}})}
	}
	return nil
}

// oauthScheme says where tokens come from.
func (d *Discovery) oauthScheme() object {
	return object{"oauth": said("Authorization code with PKCE (S256). The document at "+d.Origin+"/.well-known/oauth-authorization-server has all there is to know.", object{
		"type": "oauth2",
		"flows": object{"authorizationCode": object{
			"authorizationUrl": d.Origin + "/authorize",
			"tokenUrl":         d.Origin + "/token",
			"refreshUrl":       d.Origin + "/token",
			"scopes":           scopeTexts(),
		}},
	})}
}
