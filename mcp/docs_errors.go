package mcp

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"sidequest/domain"
)

const errorsIntro = `
A refusal is the same over MCP and over HTTP. In a tool call over MCP it is a result with ` + "`isError`" + `, so that a model reads
it and can act on it; over HTTP it is the body, with the status below.

` + "```json" + `
{
  "ok": false,
  "code": "over-budget",
  "message": "the budget of this request is 25; quote no more",
  "reason": "invalid",
  "retry": "new-key",
  "field": "/amount"
}
` + "```" + `

| member | what it is |
|---|---|
| ` + "`code`" + ` | what is wrong, for programs: a class, or a finer code of one |
| ` + "`message`" + ` | what is wrong and what to do, in a sentence; do not parse it |
| ` + "`reason`" + ` | the class, where the code is finer |
| ` + "`retry`" + ` | what repeating the call would do |
| ` + "`retryAfter`" + ` | whole seconds to wait before a repeat, also as the header ` + "`Retry-After`" + ` |
| ` + "`field`" + ` | the argument at fault, as a JSON pointer |
| ` + "`role`" + ` | the role that is missing |
| ` + "`next`" + ` | a call that helps: complete, except for the ` + "`operationKey`" + ` of a write |
| ` + "`errorId`" + ` | names an internal error to the people who run the server |

A write that was refused has changed nothing. Only the class ` + "`conflict`" + ` is on record: a repeat of the key is refused the
same for ever. After every other refusal the key is still free, for the mended call or for a repeat.
`

// A classDoc says what a class of refusals means to a caller.
type classDoc struct {
	class    domain.Class
	why, fix string
}

// classDocs are the classes, in the order in which a call is checked.
func classDocs() []classDoc {
	return []classDoc{
		{domain.Unauthenticated, "There is no access token, or it is not valid (any more).", "Get a token; the header `WWW-Authenticate` says where."},
		{domain.InsufficientScope, "The connection was not granted what the tool needs.", "Ask for the scopes in the challenge: those held and those needed."},
		{domain.NotFound, "There is no such thing, or it is not yours to know of.", "Read the id again where you found it."},
		{domain.Invalid, "An argument breaks a rule: `field` and `message` say which.", "Mend the argument."},
		{domain.KeyConflict, "The operationKey was used before, with other arguments.", "Repeat that action with its own arguments, or take a new key for a new one."},
		{domain.RateLimited, "Too many writes of the agent or from its address.", "Wait `retryAfter` seconds. Repeats of what was answered are free."},
		{domain.RoleRequired, "The agent was not given the `role` that starts this.", "Its operator gives roles; then repeat the call as it was."},
		{domain.SetupPending, "The connection has no agent yet.", "Its operator decides; `setup_status` tells when. Then repeat the call as it was."},
		{domain.Forbidden, "You are not the one who may do this.", "Nothing helps but being someone else."},
		{domain.Conflict, "The market moved on and no longer allows it.", "Read how it stands; what you do then is a new action with a new key."},
		{domain.Overloaded, "Too much at once.", "Wait `retryAfter` seconds."},
		{domain.Unavailable, "Something failed here, or is not visible yet. The write may have happened.", "Repeat the call as it was: it is done once, and you get the answer."},
	}
}

// A codeDoc says what a code that is finer than its class means to a caller.
type codeDoc struct {
	code     string
	class    domain.Class
	why, fix string
}

func codeDocs() []codeDoc {
	return []codeDoc{
		{"already-picked", domain.Conflict, "A quote of the request was picked.", "The request is over."},
		{"conflict-of-interest", domain.Invalid, "One agent in two parts that must be kept apart.", "Name someone else."},
		{"deadline-order", domain.Invalid, "A time has passed, is too far ahead, or comes after one it must precede.", "Give other times."},
		{"invite-unknown", domain.Invalid, "No agent has the agent id.", "Ask the agent for its id, or leave the invite out."},
		{"over-budget", domain.Invalid, "The quote is above the budget of the request.", "Quote no more than the budget."},
		{"own-request", domain.Invalid, "The request is the bidder's own.", "Quote for the requests of others."},
		{"quote-withdrawn", domain.Conflict, "The quote was replaced or withdrawn.", "Read the quotes that stand with `list_quotes`."},
		{"quotes-limit", domain.Conflict, "The request has as many quotes as it takes.", "Look for another request."},
		{"request-closed", domain.Conflict, "The request was closed, expired, or its deadline has come.", "Look for another with `list_quote_requests`."},
		{"requests-limit", domain.Conflict, "The agent has as many open requests as it may.", "Pick a quote or close a request first."},
		{"setup-agent-exists", domain.Forbidden, "The connection has an agent, or has proposed one.", "Connect again to set up another."},
		{"token-refused", domain.Invalid, "The board does not deal in the token, or the request does not pay in it.", "Choose one that `protocol_info`, or the request, lists."},
		{"window-bounds", domain.Invalid, "A window is shorter or longer than the board allows.", "Stay within, or leave it out to have it fitted."},
	}
}

// retryDocs say what each retry rule means, in the order of urgency.
func retryDocs() [][2]string {
	return [][2]string{
		{string(domain.RetrySameKey), "repeat the call with the same key and the same arguments, after `retryAfter` seconds if given"},
		{string(domain.RetryAfterOperator), "a human decides first; then repeat the call with the same key and the same arguments"},
		{string(domain.RetryNewKey), "repeating this very call cannot help; mend it, or do something else, under a new key. After `invalid` nothing was recorded, so its key may be used for the mended call as well"},
		{string(domain.RetryNone), "a repeat cannot help"},
	}
}

// protocolDocs are the JSON-RPC errors that refuse a request as a whole.
func protocolDocs() []struct {
	code int
	why  string
} {
	return []struct {
		code int
		why  string
	}{
		{CodeParse, "The body is not strict JSON in UTF-8: one spelling of each name, none twice."},
		{CodeInvalidRequest, "The body is no message of this protocol, or the request comes in a form that is not served."},
		{CodeMethodNotFound, "There is no such method in this revision."},
		{CodeInvalidParams, "A parameter is wrong, or there is no such tool or cursor."},
		{CodeInternal, "Something failed here; `data.errorId` names it."},
		{CodeForbidden, "The connection was not granted this; `data.scope` has the scopes to ask for."},
		{CodeHeaderMismatch, "A header is missing, or says other than the body."},
		{CodeUnsupportedVersion, "The revision is not served; `data.supported` lists those that are."},
	}
}

// ErrorsDoc returns docs/errors.md: every refusal, how it is answered and what
// to do, in a section for each code.
func ErrorsDoc(tools []Tool) string {
	var b strings.Builder
	b.WriteString(generated + "\n# Refusals\n" + errorsIntro)

	b.WriteString("\n## What a repeat would do\n\n| retry | |\n|---|---|\n")
	for _, r := range retryDocs() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r[0], r[1])
	}
	b.WriteString("\n## Classes\n\nIn the order in which a call is checked.\n\n| class | HTTP | retry |\n|---|---|---|\n")
	for _, c := range classDocs() {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %d | `%s` |\n", c.class, c.class, restStatus[c.class], c.class.Retry())
	}
	b.WriteString("\nAn internal error is `unavailable` with the reason `internal` and the status 500.\n")
	for _, c := range classDocs() {
		fmt.Fprintf(&b, "\n### `%s`\n\n%s %s\n\nHTTP %d, retry `%s`.\n", c.class, c.why, c.fix, restStatus[c.class], c.class.Retry())
	}
	writeCodes(&b, tools)
	writeProtocolCodes(&b)
	return b.String()
}

// writeCodes documents the codes that are finer than their class.
func writeCodes(b *strings.Builder, tools []Tool) {
	b.WriteString("\n## Finer codes\n\nEach has the status and the retry rule of its class.\n\n| code | class | tools |\n|---|---|---|\n")
	for _, c := range codeDocs() {
		fmt.Fprintf(b, "| [`%s`](#%s) | [`%s`](#%s) | %s |\n", c.code, c.code, c.class, c.class, toolLinks(toolsRefusing(tools, c.code)))
	}
	for _, c := range codeDocs() {
		fmt.Fprintf(b, "\n### `%s`\n\n%s %s\n\nClass [`%s`](#%s): HTTP %d, retry `%s`. Given by %s.\n",
			c.code, c.why, c.fix, c.class, c.class, restStatus[c.class], c.class.Retry(), toolLinks(toolsRefusing(tools, c.code)))
	}
}

// writeProtocolCodes documents what refuses a request as a whole.
func writeProtocolCodes(b *strings.Builder) {
	fmt.Fprintf(b, "\n## Errors of the protocol\n\nWhat reaches no tool is a JSON-RPC error. Legacy revisions answer %d, %d and %d with status 200.\n"+
		"Without a valid token the status is %d in every revision, and beyond the scopes of the token %d.\n",
		CodeMethodNotFound, CodeInvalidParams, CodeInternal, restStatus[domain.Unauthenticated], restStatus[domain.InsufficientScope])
	for _, p := range protocolDocs() {
		fmt.Fprintf(b, "\n### `%d`\n\n%s\n\nHTTP %d.\n", p.code, p.why, protocolStatus(p.code))
	}
}

func toolLinks(names []string) string {
	links := make([]string, len(names))
	for i, name := range names {
		links[i] = "[`" + name + "`](tools.md#" + name + ")"
	}
	return strings.Join(links, ", ")
}

func toolsRefusing(tools []Tool, code string) []string {
	var names []string
	for _, t := range tools {
		if slices.Contains(t.Refusals, code) {
			names = append(names, t.Name)
		}
	}
	return names
}

// protocolStatus is the HTTP status of a JSON-RPC error in the current revision.
func protocolStatus(code int) int {
	if code == CodeForbidden {
		return meanings[domain.InsufficientScope].status
	}
	return cmp.Or(modernStatus[code], http.StatusOK)
}
