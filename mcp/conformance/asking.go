package main

import (
	"context"
	"encoding/json"
	"fmt"

	"sidequest/mcp"
)

// form reads the answer to a question of one form. What is missing, or does not
// fit, has to be asked again; what has the wrong structure is refused.
func form(c *mcp.Call, key string, dst any) (given bool, err error) {
	e, given, err := c.Inputs.Elicited(key)
	if err != nil || !given || e.Action != "accept" || e.Content == nil {
		return false, err
	}
	return json.Unmarshal(e.Content, dst) == nil, nil
}

// elicit is a request for a form with one field, which is required.
func elicit(message, field, kind string) mcp.InputRequest {
	return mcp.InputRequest{Method: "elicitation/create", Params: object{
		"message": message,
		"requestedSchema": object{
			"type": "object", "properties": object{field: object{"type": kind}}, "required": []string{field},
		},
	}}
}

// question asks one thing and needs no state.
func question(key, message, field, kind string) mcp.InputRequired {
	return mcp.InputRequired{Requests: map[string]mcp.InputRequest{key: elicit(message, field, kind)}}
}

func sample(prompt string, most int) mcp.InputRequest {
	return mcp.InputRequest{Method: "sampling/createMessage", Params: object{
		"messages": []any{object{"role": "user", "content": text("%s", prompt)}}, "maxTokens": most,
	}}
}

var roots = mcp.InputRequest{Method: "roots/list", Params: object{}}

// askingTools ask by answering with a question, as the modern era has it.
func askingTools() []tool {
	return []tool{
		{name: "test_missing_capability", description: "Needs sampling.", run: func(_ context.Context, _ *fixture, c *mcp.Call, _ object) (any, error) {
			if refused := c.Lane.Needs("sampling"); refused != nil {
				return nil, refused
			}
			return content(text("The client can sample.")), nil
		}},
		{name: "test_streaming_elicitation", description: "Asks, and never on a stream.", run: askName},
		{name: "test_input_required_result_elicitation", description: "Asks for a name.", run: askName},
		{name: "test_input_required_result_sampling", description: "Asks a model.", run: askModel},
		{name: "test_input_required_result_list_roots", description: "Asks for roots.", run: askRoots},
		{name: "test_input_required_result_request_state", description: "Asks, and has a state.", run: askWithState},
		{name: "test_input_required_result_tampered_state", description: "Asks, and has a state.", run: askWithState},
		{name: "test_input_required_result_multiple_inputs", description: "Asks for three things.", run: askThree},
		{name: "test_input_required_result_multi_round", description: "Asks one thing after the other.", run: askTwice},
		{name: "test_input_required_result_capabilities", description: "Asks what the client can answer.", run: askWhatCanBe},
	}
}

func askName(_ context.Context, _ *fixture, c *mcp.Call, _ object) (any, error) {
	var answer struct {
		Name string `json:"name"`
	}
	given, err := form(c, "user_name", &answer)
	if err != nil || given {
		return content(text("Hello, %s!", answer.Name)), err
	}
	return question("user_name", "What is your name?", "name", "string"), nil
}

func askModel(_ context.Context, _ *fixture, c *mcp.Call, _ object) (any, error) {
	answer, given := c.Inputs.Answers["capital_question"]
	if given {
		return content(text("The model says: %s", answer)), nil
	}
	return mcp.InputRequired{Requests: map[string]mcp.InputRequest{"capital_question": sample("What is the capital of France?", 100)}}, nil
}

func askRoots(_ context.Context, _ *fixture, c *mcp.Call, _ object) (any, error) {
	answer, given := c.Inputs.Answers["client_roots"]
	if given {
		return content(text("The roots are: %s", answer)), nil
	}
	return mcp.InputRequired{Requests: map[string]mcp.InputRequest{"client_roots": roots}}, nil
}

func askWithState(_ context.Context, _ *fixture, c *mcp.Call, _ object) (any, error) {
	var answer struct {
		OK bool `json:"ok"`
	}
	given, err := form(c, "confirm", &answer)
	if err != nil {
		return nil, err
	}
	if given && string(c.Inputs.State) == "confirm" {
		return content(text("state-ok, confirmed: %v", answer.OK)), nil
	}
	q := question("confirm", "Please confirm", "ok", "boolean")
	q.State = []byte("confirm")
	return q, nil
}

func askThree(_ context.Context, _ *fixture, c *mcp.Call, _ object) (any, error) {
	q := mcp.InputRequired{State: []byte("three"), Requests: map[string]mcp.InputRequest{
		"user_name":    elicit("What is your name?", "name", "string"),
		"greeting":     sample("Generate a greeting", 50),
		"client_roots": roots,
	}}
	for key := range q.Requests {
		if _, given := c.Inputs.Answers[key]; !given {
			return q, nil
		}
	}
	return content(text("All three are answered.")), nil
}

func askTwice(_ context.Context, _ *fixture, c *mcp.Call, _ object) (any, error) {
	var first struct {
		Name string `json:"name"`
	}
	var second struct {
		Color string `json:"color"`
	}
	if name, over := string(c.Inputs.State), len(c.Inputs.State) > len("one"); over {
		given, err := form(c, "step2", &second)
		if err != nil || given {
			return content(text("%s likes %s.", name, second.Color)), err
		}
		return askColor(name), nil
	}
	given, err := form(c, "step1", &first)
	if err != nil {
		return nil, err
	}
	if given && c.Inputs.State != nil {
		return askColor(fmt.Sprintf("one: %s", first.Name)), nil
	}
	q := question("step1", "Step 1: What is your name?", "name", "string")
	q.State = []byte("one")
	return q, nil
}

func askColor(state string) mcp.InputRequired {
	q := question("step2", "Step 2: What is your favorite color?", "color", "string")
	q.State = []byte(state)
	return q
}

func askWhatCanBe(_ context.Context, _ *fixture, c *mcp.Call, _ object) (any, error) {
	q := mcp.InputRequired{Requests: map[string]mcp.InputRequest{}}
	if c.Lane.Declares("sampling") {
		q.Requests["sampled"] = sample("Say hello", 10)
	}
	if c.Lane.Declares("elicitation") {
		q.Requests["elicited"] = elicit("What is your name?", "name", "string")
	}
	if len(q.Requests) == 0 || len(c.Inputs.Answers) > 0 {
		return content(text("There is nothing to ask.")), nil
	}
	return q, nil
}
