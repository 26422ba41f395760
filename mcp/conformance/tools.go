package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"sidequest/mcp"
)

// A tool is a row of what the suite calls.
type tool struct {
	name        string
	description string
	schema      string // of the arguments; empty for none
	run         func(ctx context.Context, f *fixture, c *mcp.Call, args object) (any, error)
}

const noArguments = `{"type":"object","additionalProperties":false}`

// tools are all there are, in the order of their list.
func tools() []tool {
	return slices.Concat(plainTools(), tellingTools(), askingTools(), sessionTools())
}

func (t tool) input() string {
	if t.schema == "" {
		return noArguments
	}
	return t.schema
}

func (f *fixture) listTools(context.Context, *mcp.Call) (any, error) {
	all := []object{}
	for _, t := range f.tools {
		all = append(all, object{"name": t.name, "description": t.description, "inputSchema": jsontext.Value(t.input())})
	}
	return object{"tools": all}, nil
}

func (f *fixture) callTool(ctx context.Context, c *mcp.Call) (any, error) {
	var params struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if err := c.Request.Decode(&params); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(f.tools, func(t tool) bool { return t.name == params.Name })
	if i < 0 {
		return nil, mcp.InvalidParams("params.name names no tool.")
	}
	var schema object
	if err := json.Unmarshal([]byte(f.tools[i].input()), &schema); err != nil {
		return nil, err
	}
	headers, err := mcp.ParamHeaders(schema)
	if err != nil {
		return nil, err
	}
	if err := c.CheckParamHeaders(headers, params.Arguments); err != nil {
		return nil, err
	}
	args := object{}
	if params.Arguments != nil {
		if err := json.Unmarshal(params.Arguments, &args); err != nil {
			return nil, mcp.InvalidParams("params.arguments must be an object.")
		}
	}
	return f.tools[i].run(ctx, f, c, args)
}

// content is a result of content blocks.
func content(blocks ...any) object { return object{"content": blocks} }

func text(format string, args ...any) object {
	return object{"type": "text", "text": fmt.Sprintf(format, args...)}
}

// says makes a tool that always answers the same.
func says(name, description string, result object) tool {
	return tool{name: name, description: description, run: func(context.Context, *fixture, *mcp.Call, object) (any, error) {
		return result, nil
	}}
}

// schema2020 has the keywords of JSON Schema 2020-12 that a server must not lose.
const schema2020 = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
	`"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},` +
	`"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},` +
	`"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},` +
	`"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],` +
	`"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},` +
	`"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`

func plainTools() []tool {
	audio := object{"type": "audio", "data": hush, "mimeType": "audio/wav"}
	refused := content(text("This tool intentionally returns an error for testing"))
	refused["isError"] = true
	repeated := says("test_param_headers", "Has arguments that headers repeat.", content(text("The headers agree.")))
	repeated.schema = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},` +
		`"level":{"type":"integer","x-mcp-header":"Level"}},"required":["region"],"additionalProperties":false}`
	keywords := says("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", content(text("done")))
	keywords.schema = schema2020
	return []tool{
		says("test_simple_text", "Answers a text.", content(text("This is a simple text response for testing."))),
		says("test_image_content", "Answers a picture.", content(image())),
		says("test_audio_content", "Answers a sound.", content(audio)),
		says("test_embedded_resource", "Answers a resource.",
			content(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))),
		says("test_multiple_content_types", "Answers several things.", content(text("Multiple content types test:"), image(),
			embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`))),
		says("test_error_handling", "Always fails.", refused),
		says("test_reconnection", "Answers at once, so that nobody has to come back for it.", content(text("done"))),
		repeated,
		keywords,
	}
}

// step is how long the tools that tell of their work rest in between.
const step = 50 * time.Millisecond

// tellingTools tell of what they do while they do it.
func tellingTools() []tool {
	return []tool{
		{name: "test_tool_with_progress", description: "Reports progress.", run: func(_ context.Context, _ *fixture, c *mcp.Call, _ object) (any, error) {
			for i := range 3 {
				if i > 0 {
					time.Sleep(step)
				}
				if err := c.Progress(float64(50*i), 100, ""); err != nil {
					return nil, err
				}
			}
			return content(text("Tool with progress executed successfully")), nil
		}},
		{name: "test_tool_with_logging", description: "Sends messages.", run: tellThrice},
		{name: "test_logging_tool", description: "Sends messages.", run: tellThrice},
		{name: "test_trigger_tool_change", description: "Says that the tools changed.", run: change("tools")},
		{name: "test_trigger_prompt_change", description: "Says that the prompts changed.", run: change("prompts")},
	}
}

func tellThrice(ctx context.Context, _ *fixture, c *mcp.Call, _ object) (any, error) {
	if s := sessionOf(ctx); s != nil {
		c.Lane.LogLevel = s.level
	}
	for i, message := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		if i > 0 {
			time.Sleep(step)
		}
		if err := c.Tell("info", "fixture", message); err != nil {
			return nil, err
		}
	}
	return content(text("Tool with logging executed successfully")), nil
}

func change(list string) func(context.Context, *fixture, *mcp.Call, object) (any, error) {
	return func(_ context.Context, f *fixture, _ *mcp.Call, _ object) (any, error) {
		f.changes[list].fire()
		return content(text("The %s changed.", list)), nil
	}
}

// sessionTools ask the client during the call, as revisions with sessions can.
func sessionTools() []tool {
	return []tool{
		{
			name: "test_sampling", description: "Asks the client's model.",
			schema: `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`,
			run: inSession("sampling/createMessage", "LLM response: %s", func(args object) object {
				return object{"messages": []any{object{"role": "user", "content": text("%v", args["prompt"])}}, "maxTokens": 100}
			}),
		},
		{
			name: "test_elicitation", description: "Asks the user.",
			schema: `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`,
			run: inSession("elicitation/create", "User response: %s", func(args object) object {
				return object{"message": args["message"], "requestedSchema": jsontext.Value(`{"type":"object","properties":{` +
					`"username":{"type":"string","description":"User's response"},` +
					`"email":{"type":"string","description":"User's email address"}},"required":["username","email"]}`)}
			}),
		},
		{
			name: "test_elicitation_sep1034_defaults", description: "Asks the user, with defaults.",
			run: inSession("elicitation/create", "Elicitation completed: %s", func(object) object {
				return object{"message": "Please check these.", "requestedSchema": jsontext.Value(`{"type":"object","properties":{` +
					`"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},` +
					`"score":{"type":"number","default":95.5},` +
					`"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},` +
					`"verified":{"type":"boolean","default":true}}}`)}
			}),
		},
		{
			name: "test_elicitation_sep1330_enums", description: "Asks the user to choose.",
			run: inSession("elicitation/create", "Elicitation completed: %s", func(object) object {
				return object{"message": "Please choose.", "requestedSchema": jsontext.Value(`{"type":"object","properties":{` +
					`"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},` +
					`"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},` +
					`"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},` +
					`"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},` +
					`"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}}`)}
			}),
		},
	}
}

// inSession makes a tool that asks during the call and answers what it heard.
func inSession(method, says string, params func(args object) object) func(context.Context, *fixture, *mcp.Call, object) (any, error) {
	return func(ctx context.Context, _ *fixture, c *mcp.Call, args object) (any, error) {
		s := sessionOf(ctx)
		if s == nil {
			refused := content(text("This tool needs a session of an older revision."))
			refused["isError"] = true
			return refused, nil
		}
		heard, err := s.ask(ctx, c, method, params(args))
		if err != nil {
			return nil, err
		}
		var answer struct {
			Action  string          `json:"action"`
			Content json.RawMessage `json:"content"`
		}
		if err := json.Unmarshal(heard, &answer); err != nil {
			return nil, err
		}
		if answer.Action == "" {
			return content(text(says, heard)), nil
		}
		return content(text(says, "action="+answer.Action+", content="+string(answer.Content))), nil
	}
}
