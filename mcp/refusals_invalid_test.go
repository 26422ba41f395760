package mcp_test

import (
	"encoding/json"
	"strings"

	"sidequest/domain"
)

// invalidRequests break a rule of the schema of request_quotes.
func invalidRequests() []refusal {
	long := func(n int) string { return strings.Repeat("é", n) }
	deep := func(member string, v any) object {
		return object{"budget": with(object{"token": usd.Address, "max": "25"}, object{member: v})}
	}
	var all []refusal
	for _, c := range []struct {
		name   string
		change object
		field  string
		rule   string
	}{
		{"a missing argument", object{"title": nil}, "/title", "title is required"},
		{"a missing inner argument", object{"budget": object{"max": "1"}}, "/budget/token", "budget/token is required"},
		{"an operation key of other letters", object{"operationKey": "a key"}, "/operationKey", "must match the pattern"},
		{"an operation key that is too long", object{"operationKey": long(129)}, "/operationKey", "must match the pattern"},
		{"a wrong type", object{"title": 5}, "/title", "must be of type string"},
		{"null for an argument", object{"title": json.RawMessage("null")}, "/title", "must be of type string"},
		{"a wrong type inside", deep("max", 25), "/budget/max", "must be of type string"},
		{"an unknown argument", object{"colour": "red"}, "/colour", "not an argument of the tool"},
		{"an unknown argument inside", deep("colour", "red"), "/budget/colour", "not an argument of the tool"},
		{"an argument in another case", object{"Title": "x"}, "/Title", "not an argument of the tool"},
		{"an amount of another form", deep("max", "1,5"), "/budget/max", "decimal number"},
		{"a tag that is not listed", object{"tags": []string{"coding", "cooking"}}, "/tags/1", "must be one of coding, design"},
		{"a text that is too short", object{"title": ""}, "/title", "at least 1 characters (minLength); it has 0"},
		{"a text that is too long", object{"title": long(121)}, "/title", "at most 120 characters (maxLength); it has 121"},
		{"a text that is far too long", object{"brief": long(200_000)}, "/brief", "at most 20000 characters (maxLength); it has 200000"},
		{"too few items", object{"acceptanceCriteria": []string{}}, "/acceptanceCriteria", "at least 1 items (minItems); it has 0"},
		{"too many items", object{"requiredChecks": strings.Split("abcdefghijk", "")}, "/requiredChecks", "at most 10 items (maxItems); it has 11"},
		{"an item twice", object{"tags": []string{"coding", "coding"}}, "/tags", "must not repeat an item (uniqueItems)"},
		{"an item that is too short", object{"acceptanceCriteria": []string{"a", ""}}, "/acceptanceCriteria/1", "acceptanceCriteria/1 must have at least 1"},
		{"a number that is too small", object{"windows": object{"reviewSeconds": 0}}, "/windows/reviewSeconds", "at least 1 (minimum)"},
		{"a number with a fraction", object{"windows": object{"reviewSeconds": 7200.5}}, "/windows/reviewSeconds", "must be of type integer"},
		{"a number that programs round", object{"windows": object{"reviewSeconds": json.Number("9007199254740993")}}, "/windows/reviewSeconds", "to 9007199254740991"},
		{"a number beyond all bounds", object{"quoteDeadline": json.Number("1e999999999")}, "/quoteDeadline", "to 9007199254740991"},
		{"a time before all time", object{"quoteDeadline": -5}, "/quoteDeadline", "must be Unix seconds, an RFC 3339 time, or a duration"},
		{"a time with a fraction", object{"quoteDeadline": 1.5}, "/quoteDeadline", "must be Unix seconds, an RFC 3339 time, or a duration"},
		{"a time of far too many letters", object{"quoteDeadline": long(100_000)}, "/quoteDeadline", "must be Unix seconds, an RFC 3339 time, or a duration"},
		{"an address that is mistyped", object{"approver": "0x52908400098527886E0F7030069857D2E4169Ee7"}, "/approver", "approver has a wrong checksum (EIP-55)"},
		{"an address that is mistyped in a list", object{"budget": nil, "tokens": []string{"0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}}, "/tokens/0", "wrong checksum"},
		{"an address that is cut short", object{"approver": "0x5290"}, "/approver", "40 hex digits"},
	} {
		all = append(all, refusal{name: c.name, by: "ann", tool: "request_quotes", args: wish(c.change), code: "invalid", field: c.field, rule: c.rule})
	}
	all = append(all, refusal{
		name: "a missing operation key", by: "ann", tool: "request_quotes", args: wish(), code: "invalid", field: "/operationKey", rule: "operationKey is required",
		arrange: func(*scene) object { return object{"operationKey": nil} },
	}, refusal{
		name: "a name of far too many letters", by: "ann", tool: "request_quotes", args: wish(object{strings.Repeat("x", 100_000): 1}),
		code: "invalid", field: "/" + strings.Repeat("x", 99) + "…", rule: "not an argument of the tool",
	})
	return all
}

// invalidOthers break a rule of another schema.
func invalidOthers() []refusal {
	return []refusal{
		{name: "an argument for a tool without", by: "ann", tool: "whoami", args: object{"x": 1}, code: "invalid", field: "/x", rule: "not an argument of the tool"},
		{name: "a key for a tool that reads", by: "ann", tool: "inbox", args: object{"operationKey": "k"}, code: "invalid", field: "/operationKey", rule: "not an argument of the tool"},
		{name: "a page that is too long", by: "ann", tool: "inbox", args: object{"limit": 101}, code: "invalid", field: "/limit", rule: "at most 100 (maximum)"},
		{name: "a kind of another form", by: "ann", tool: "inbox", args: object{"kinds": []string{"quote"}}, code: "invalid", field: "/kinds/0", rule: "pattern"},
		{name: "a cursor that is forged", by: "ann", tool: "inbox", args: object{"cursor": "c1.AAAA"}, code: "invalid", field: "/cursor", rule: "not a cursor of this list"},
		{name: "a cursor with a control character", by: "ann", tool: "inbox", args: object{"cursor": "\x00"}, code: "invalid", field: "/cursor", rule: "not a cursor of this list"},
		{name: "a page of another list", by: "ann", tool: "list_quote_requests", args: object{"cursor": "c1.AAAA"}, code: "invalid", field: "/cursor", rule: "not a cursor of this list"},
		{name: "a cursor that is too long", by: "ann", tool: "list_quote_requests", args: object{"cursor": strings.Repeat("c", 201)}, code: "invalid", field: "/cursor", rule: "at most 200 characters"},
		{name: "a request id of other letters", by: "ann", tool: "list_quotes", args: object{"requestId": "rq 1"}, code: "invalid", field: "/requestId", rule: "pattern"},
		{name: "an operation id with a control character", by: "ann", tool: "check_operation", args: object{"operationId": "op\x00"}, code: "invalid", field: "/operationId", rule: "pattern"},
	}
}

// brokenRules break a rule of the market that no schema can tell.
func brokenRules() []refusal {
	both := []string{string(usd.Address), string(eth.Address)}
	var all []refusal
	for _, c := range []struct {
		name   string
		change object
		code   string
		field  string
		rule   string
	}{
		{"a title with U+0000", object{"title": "a\x00b"}, "invalid", "/title", "control characters"},
		{"a brief with a bell", object{"brief": "ding\a"}, "invalid", "/brief", "control characters"},
		{"a criterion with an escape", object{"acceptanceCriteria": []string{"a", "\x1b[2J"}}, "invalid", "/acceptanceCriteria/1", "control characters"},
		{"a target with a control character", object{"deliverable": object{"accepts": []string{"git"}, "target": "\u0085"}}, "invalid", "/deliverable/target", "control characters"},
		{"a blank title", object{"title": " \t "}, "invalid", "/title", "blank"},
		{"neither tokens nor budget", object{"budget": nil}, "invalid", "/tokens", "either tokens or budget"},
		{"both tokens and budget", object{"tokens": both}, "invalid", "/tokens", "either tokens or budget"},
		{"a token twice in two spellings", object{"budget": nil, "tokens": []string{string(usd.Address), strings.ToLower(string(usd.Address))}}, "invalid", "/tokens/1", "once"},
		{"an amount of nothing", object{"budget": object{"token": usd.Address, "max": "0.0"}}, "invalid", "/budget/max", "above zero"},
		{"an amount with leading zeros", object{"budget": object{"token": usd.Address, "max": "01"}}, "invalid", "/budget/max", "leading zeros"},
		{"an amount finer than its token", object{"budget": object{"token": usd.Address, "max": "1.0000001"}}, "invalid", "/budget/max", "fraction digits"},
		{"a bond that is too small", object{"workerBond": "0.5"}, "invalid", "/workerBond", "at least 1"},
		{"a bond that one token cannot express", object{"budget": nil, "tokens": both, "creatorBond": "1.0000001"}, "invalid", "/creatorBond", "fraction digits"},
		{"a time that is none", object{"quoteDeadline": "soon"}, "invalid", "/quoteDeadline", "72h or 3d"},
		{"a time beyond all time", object{"deliveryDeadline": 253402300800}, "invalid", "/deliveryDeadline", "years 1970 to 9999"},
		{"a time with control characters", object{"quoteDeadline": "\x001h"}, "invalid", "/quoteDeadline", "72h or 3d"},
		{"the zero address", object{"approver": "0x0000000000000000000000000000000000000000"}, "invalid", "/approver", "not zero"},
		{"an unknown stack", object{"stack": "\x00"}, "invalid", "/stack", "no such stack"},

		{"a quote deadline that has passed", object{"quoteDeadline": "0s"}, "deadline-order", "/quoteDeadline", "in the future"},
		{"a quote deadline at delivery", object{"quoteDeadline": "3d"}, "deadline-order", "/quoteDeadline", "before the delivery deadline"},
		{"a delivery too far ahead", object{"deliveryDeadline": "366d"}, "deadline-order", "/deliveryDeadline", "within a year"},
		{"a review that is too short", object{"windows": object{"reviewSeconds": 60}}, "window-bounds", "/windows/reviewSeconds", "3600 to 1209600 seconds"},
		{"an arbitration that is too long", object{"windows": object{"arbitrationSeconds": 1e9}}, "window-bounds", "/windows/arbitrationSeconds", "43200 to 1209600 seconds"},
		{"one judge for both", object{"approver": "0x00000000000000000000000000000000000000A1"}, "conflict-of-interest", "/arbitrator", "cannot be the approver"},
		{"an invitation to a stranger", object{"invite": object{"agentId": "999999"}}, "invite-unknown", "/invite/agentId", "no agent has this agent id"},
		{"a budget in a foreign token", object{"budget": object{"token": art, "max": "1"}}, "token-refused", "/budget/token", "protocol_info"},
		{"a foreign token among tokens", object{"budget": nil, "tokens": []string{string(usd.Address), art}}, "token-refused", "/tokens/1", "protocol_info"},
	} {
		r := refusal{name: c.name, by: "ann", tool: "request_quotes", args: wish(c.change), code: c.code, field: c.field, rule: c.rule}
		if c.code != "invalid" {
			r.class = domain.Invalid
		}
		all = append(all, r)
	}
	return all
}
