package mcp

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestArgumentsOfPromptsAndTemplatesAreCompleted(t *testing.T) {
	t.Parallel()
	many := make([]string, 150)
	for i := range many {
		many[i] = fmt.Sprint("v", i)
	}
	l := shelf()
	l.Prompts[0].Arguments = append(l.Prompts[0].Arguments, PromptArgument{Name: "many", Values: many})
	prompt, template := `"ref":{"type":"ref/prompt","name":"greet"},`, `"ref":{"type":"ref/resource","uri":"test://numbers/{n}/square"},`
	for params, want := range map[string]completion{
		prompt + `"argument":{"name":"who","value":""}`:    {[]string{"Ann", "Bob"}, 2, false},
		prompt + `"argument":{"name":"who","value":"a"}`:   {[]string{"Ann"}, 1, false},
		prompt + `"argument":{"name":"who","value":"x"}`:   {[]string{}, 0, false},
		prompt + `"argument":{"name":"how","value":""}`:    {[]string{}, 0, false},
		prompt + `"argument":{"name":"many","value":"v"}`:  {many[:100], 150, true},
		template + `"argument":{"name":"n","value":"t"}`:   {[]string{"two"}, 1, false},
		template + `"argument":{"name":"who","value":"A"}`: {[]string{}, 0, false},
	} {
		var got struct {
			Result struct {
				Completion completion `json:"completion"`
			} `json:"result"`
		}
		s := newServer(t)
		s.Methods = l.Methods()
		if err := json.Unmarshal([]byte(record(t, s, modern("completion/complete", "", params))), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Result.Completion); diff != "" {
			t.Errorf("%s (-want +got):\n%s", params, diff)
		}
	}
}

func TestOnlyWhatThereIsCanBeCompleted(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Methods = shelf().Methods()
	for _, params := range []string{
		``,
		`"ref":{"type":"ref/prompt","name":"greet"}`,
		`"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who"}`,
		`"ref":{"type":"ref/prompt","name":"other"},"argument":{"name":"who","value":""}`,
		`"ref":{"type":"ref/resource","uri":"test://text"},"argument":{"name":"who","value":""}`,
		`"ref":{"type":"ref/tool","name":"greet"},"argument":{"name":"who","value":""}`,
		`"ref":7,"argument":{"name":"who","value":""}`,
	} {
		var got struct {
			Error struct {
				Code int `json:"code"`
			} `json:"error"`
		}
		body := record(t, s, modern("completion/complete", "", params))
		if err := json.Unmarshal([]byte(body), &got); err != nil || got.Error.Code != CodeInvalidParams {
			t.Errorf("%s is answered with %s", params, body)
		}
	}
}
