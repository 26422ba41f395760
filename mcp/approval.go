package mcp

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// approvalKey names the question whether an operator has decided.
const approvalKey = "approval"

const approvalMessage = "Sidequest needs a decision of the operator. Show them this page; nothing is done before they decide there."

// approvalOr returns the result of a tool call that came to an answer. Where the
// answer is that a human has to decide, a client that can show its user a page is
// asked to, and repeats the call when that is done. A user who does not want to
// ends this call, not the approval: the answer then has the link and says what it
// would have said to any other client.
func (c *Call) approvalOr(answer jsontext.Value, asked Elicited) (any, error) {
	if !c.Lane.Declares("elicitation", "url") {
		return newToolResult(answer, false), nil
	}
	var a struct {
		Status      string `json:"status"`
		OperationID string `json:"operationId"`
		ApproveURL  string `json:"approveUrl"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return nil, err
	}
	if c.Inputs.State != nil && string(c.Inputs.State) != a.OperationID {
		return nil, InvalidParams("params.requestState names another operation than this call.")
	}
	declined := asked.Action == "decline" || asked.Action == "cancel"
	if a.Status != "approval" || a.ApproveURL == "" || declined {
		return newToolResult(answer, false), nil
	}
	return InputRequired{
		Requests: map[string]InputRequest{approvalKey: {
			Method: "elicitation/create",
			Params: URLElicitation{Mode: "url", Message: approvalMessage, URL: a.ApproveURL},
		}},
		State: []byte(a.OperationID),
	}, nil
}
