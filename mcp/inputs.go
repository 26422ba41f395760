package mcp

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// An InputRequest is something that a call needs of the client before it can be
// completed. Method is "elicitation/create", "sampling/createMessage" or
// "roots/list".
type InputRequest struct {
	Method string `json:"method"`
	Params any    `json:"params"`
}

// InputRequired is the result of a call that has to be repeated with answers. The
// server itself keeps nothing: State, if it is not nil, comes back unaltered in
// [Inputs], sealed on the way. Only a [Method] that asks may answer so, and only
// in the modern era; a client that has not declared what a request needs is
// refused with [CodeMissingCapability].
type InputRequired struct {
	Requests map[string]InputRequest
	State    []byte
}

// Inputs are what a repeated call brings: answers by the key of their request, and
// the state of the call that asked. Both are empty in a first call. A client may
// leave out answers, or the state, or add what nobody asked for.
type Inputs struct {
	Answers map[string]jsontext.Value
	State   []byte // nil when the client sent none
}

// An Elicited is what became of a question to the user.
type Elicited struct {
	Action  string         // "accept", "decline" or "cancel"
	Content jsontext.Value // of an accepted form, an object; else nil
}

// Elicited returns the answer to an elicitation, and whether there is one. The
// error is a [*ProtocolError] that says what is wrong with its form.
func (in Inputs) Elicited(key string) (e Elicited, given bool, err error) {
	raw, given := in.Answers[key]
	if !given {
		return e, false, nil
	}
	var ok bool
	if e.Action, ok = text(member(raw, "action")); !ok || !slices.Contains([]string{"accept", "decline", "cancel"}, e.Action) {
		return e, false, InvalidParams(`params.inputResponses: an answer to an elicitation needs an action: "accept", "decline" or "cancel".`)
	}
	if content := member(raw, "content"); e.Action == "accept" && content != nil {
		if content.Kind() != '{' {
			return e, false, InvalidParams("params.inputResponses: the content of an answer must be an object.")
		}
		e.Content = content
	}
	return e, true, nil
}

// takeInputs reads what the client brings with a repeated call. A state is opened
// before anything else is done, so that one which was altered, or which belongs to
// another caller or call, changes nothing.
func (s *Server) takeInputs(c *Call) error {
	if !c.Lane.Modern() {
		return nil
	}
	if r := c.Request.responses; r != nil && r.Kind() != 'n' {
		if r.Kind() != '{' || json.Unmarshal(r, &c.Inputs.Answers) != nil {
			return InvalidParams("params.inputResponses must be an object with an answer under each key.")
		}
	}
	if c.Request.state == nil || c.Request.state.Kind() == 'n' {
		return nil
	}
	sealed, ok := text(c.Request.state)
	if !ok || len(sealed) > maxState {
		return InvalidParams("params.requestState must be a string as this server gave it.")
	}
	for _, principal := range c.Caller.principals() {
		bound, err := c.binding(principal)
		if err != nil {
			return err
		}
		if c.Inputs.State, ok = s.States.open(bound, sealed); ok {
			return nil
		}
	}
	return InvalidParams("params.requestState is not one that this server gave to you for this call; leave it out to begin anew.")
}

// ask turns a question of a handler into the result that carries it.
func (s *Server) ask(c *Call, m Method, q InputRequired) (any, error) {
	if !m.Asks || len(q.Requests) == 0 && q.State == nil {
		return nil, errors.New("a method asks that may not, or for nothing")
	}
	if !c.Lane.Modern() {
		return nil, badRequest(CodeInvalidRequest, "This call needs answers in between, which the revision %s cannot carry.", c.Lane.Version)
	}
	for _, r := range q.Requests {
		if refused := c.Lane.checkAsked(r); refused != nil {
			return nil, refused
		}
	}
	result := struct {
		ResultType string                  `json:"resultType"`
		Requests   map[string]InputRequest `json:"inputRequests,omitzero"`
		State      string                  `json:"requestState,omitzero"`
	}{ResultType: "input_required", Requests: q.Requests}
	if q.State != nil {
		bound, err := c.binding(c.Caller.principals()[0])
		if err == nil {
			result.State, err = s.States.seal(bound, q.State)
		}
		if err != nil {
			return nil, fmt.Errorf("seal the state of %s: %w", c.Request.Method, err)
		}
	}
	return result, nil
}

// checkAsked refuses to ask for what the client has not declared with this very
// request.
func (l Lane) checkAsked(r InputRequest) *ProtocolError {
	switch r.Method {
	case "sampling/createMessage":
		return l.Needs("sampling")
	case "roots/list":
		return l.Needs("roots")
	}
	if url, ok := r.Params.(URLElicitation); ok && url.Mode == "url" {
		return l.Needs("elicitation", "url")
	}
	if l.Declares("elicitation") && !l.Declares("elicitation", "url") {
		return nil // an empty elicitation means forms
	}
	return l.Needs("elicitation", "form")
}

// Needs refuses a request whose client has not declared a capability that cannot
// be done without: l.Needs("elicitation", "url").
func (l Lane) Needs(path ...string) *ProtocolError {
	if l.Declares(path...) {
		return nil
	}
	required := map[string]any{}
	for _, name := range slices.Backward(path) {
		required = map[string]any{name: required}
	}
	e := badRequest(CodeMissingCapability, "This call needs a capability that the client does not declare with it.")
	e.Data = struct {
		Required map[string]any `json:"requiredCapabilities"`
	}{required}
	return e
}

// A URLElicitation asks the user to open a page and do there what has to be done.
type URLElicitation struct {
	Mode    string `json:"mode"`    // "url"
	Message string `json:"message"` // in our own words
	URL     string `json:"url"`
}
