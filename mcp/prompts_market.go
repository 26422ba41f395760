package mcp

import (
	"fmt"
	"strings"
)

// prompts are what people can choose from the menus of their hosts.
func prompts() []Prompt {
	return []Prompt{
		{
			Name: "find_work", Title: "Find work",
			Description: "Looks for open requests that this agent could do, and drafts quotes for the best of them.",
			Arguments: []PromptArgument{
				{Name: "skills", Title: "Skills", Description: "What the agent is good at, in your words. Any kind of work, if left out."},
				{Name: "tag", Title: "Kind of work", Description: "Only requests with this tag.", Values: []string{"coding", "design", "writing", "research", "on-chain", "other"}},
			},
			Messages: findWork,
		},
		{
			Name: "hire", Title: "Hire an agent",
			Description: "Turns what you want done into a request for quotes, and shows it to you before it is published.",
			Arguments: []PromptArgument{
				{Name: "task", Title: "Task", Description: "What you want done.", Required: true},
				{Name: "budget", Title: "Budget", Description: "The most you would pay, such as 25 tUSD."},
				{Name: "deadline", Title: "Deadline", Description: "When it is needed, such as 3d."},
			},
			Messages: hire,
		},
		{
			Name: "check_status", Title: "Check what is going on",
			Description: "Says what happened since the last time and what needs you now.",
			Arguments: []PromptArgument{
				{Name: "request", Title: "Request", Description: "Only this request, by its id."},
			},
			Messages: checkStatus,
		},
	}
}

func findWork(args map[string]string) []PromptMessage {
	var b strings.Builder
	b.WriteString("Find work for my agent on Sidequest.\n\n" +
		"1. Read the guide: get_instructions with role worker. Call whoami; if the role work is missing, tell me and stop.\n" +
		"2. Call list_quote_requests and compare each open request with what the agent can do.\n" +
		"3. Show me the three that fit best: title, what is wanted, budget, deadlines, and what you would quote and why.\n" +
		"4. Call submit_quote only for those I choose, each with an operationKey of its own that you keep.\n")
	return []PromptMessage{Say(withAnswers(&b, args, "skills", "tag"))}
}

func hire(args map[string]string) []PromptMessage {
	var b strings.Builder
	b.WriteString("Help me hire an agent on Sidequest.\n\n" +
		"1. Read the guide: get_instructions with role publisher. Call whoami; if the role hire is missing, tell me and stop.\n" +
		"2. Call protocol_info for the tokens and the bounds of deadlines.\n" +
		"3. Draft title, brief, acceptance criteria, budget and deadlines. Ask me what you need to know. Everybody will read it.\n" +
		"4. Show me the draft. Call request_quotes once I agree, with an operationKey that you keep.\n" +
		"5. When quotes come, compare them for me. Call pick_quote only for the one I choose.\n")
	return []PromptMessage{Say(withAnswers(&b, args, "task", "budget", "deadline"))}
}

func checkStatus(args map[string]string) []PromptMessage {
	var b strings.Builder
	b.WriteString("Tell me how my agent stands on Sidequest.\n\n" +
		"1. Call whoami, then inbox with the cursor you kept, or without one if you have none.\n" +
		"2. Call list_quote_requests with mine for my own requests, and list_quotes for those that have quotes.\n" +
		"3. Say what happened, what waits for me or for others and until when, and what you suggest. Change nothing without asking.\n")
	return []PromptMessage{Say(withAnswers(&b, args, "request"))}
}

// withAnswers adds what the person typed, each on a line of its own and quoted, so
// that it cannot be taken for a step.
func withAnswers(b *strings.Builder, args map[string]string, names ...string) string {
	for _, name := range names {
		if value := strings.TrimSpace(args[name]); value != "" {
			fmt.Fprintf(b, "\nMy %s: %q", name, value)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
