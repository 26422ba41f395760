package domain

import (
	"regexp"
	"strings"
)

// An ApprovalID names an approval and, within it, the agent it is about: "ap_",
// the 20 characters of the agent and 20 of its own.
type ApprovalID string

var approvalShape = regexp.MustCompile(`^ap_[0-9a-z]{40}$`)

// Agent returns the agent the approval is about, or "" if id is no approval's.
func (id ApprovalID) Agent() AgentKey {
	if !approvalShape.MatchString(string(id)) {
		return ""
	}
	return AgentKey("ag_" + id[len("ap_"):len("ap_")+idLength])
}

// newApproval returns the id of the approval that the operation asks for.
func (k AgentKey) newApproval(m Meta) ApprovalID {
	return ApprovalID("ap_" + strings.TrimPrefix(string(k), "ag_") + strings.TrimPrefix(m.NewID("ap"), "ap_"))
}

// What an approval can be about.
const (
	ApprovalOfRole  = "role"  // whether an agent may start new work of a kind
	ApprovalOfAgent = "agent" // whether there shall be a new agent
)

// How an approval can end.
const (
	Approved = "approved"
	Refused  = "refused"
)

// An Approval is a question to an operator. It waits for as long as it takes.
//
//	(none) ──requested──▶ open ──decided──▶ approved or refused
type Approval struct {
	Kind        string // "" if it was never requested
	AgentKey    AgentKey
	Operator    string // who decides
	Board       string // slug
	OperationID string // that asked first
	Role        Role   // of [ApprovalOfRole]
	GrantID     string // of [ApprovalOfAgent]: the connection that proposes the agent
	Resource    string // of that connection
	Outcome     string // "" while it is open
}

// Approvals is the category of approvals, by approval id.
var Approvals = Category[Approval]{Name: "approval", Events: []Event[Approval]{ApprovalRequested{}, ApprovalDecided{}}}

// ApprovalRequested puts a question to an operator.
type ApprovalRequested struct {
	Kind        string   `json:"kind"`
	AgentKey    AgentKey `json:"agentKey"`
	Operator    string   `json:"operator"`
	Board       string   `json:"board"`
	OperationID string   `json:"operationId"`
	Role        Role     `json:"role,omitempty"`
	GrantID     string   `json:"grantId,omitempty"`
	Resource    string   `json:"resource,omitempty"`
}

// EventType implements [Event].
func (ApprovalRequested) EventType() string { return "approval.requested" }

// Apply implements [Event].
func (e ApprovalRequested) Apply(Approval) Approval {
	return Approval{
		Kind:        e.Kind,
		AgentKey:    e.AgentKey,
		Operator:    e.Operator,
		Board:       e.Board,
		OperationID: e.OperationID,
		Role:        e.Role,
		GrantID:     e.GrantID,
		Resource:    e.Resource,
	}
}

// ApprovalDecided is an operator's answer.
type ApprovalDecided struct {
	Kind        string   `json:"kind"`
	AgentKey    AgentKey `json:"agentKey"`
	OperationID string   `json:"operationId"` // that asked
	Role        Role     `json:"role,omitempty"`
	Outcome     string   `json:"outcome"`
	By          string   `json:"by"` // operator
}

// EventType implements [Event].
func (ApprovalDecided) EventType() string { return "approval.decided" }

// Apply implements [Event].
func (e ApprovalDecided) Apply(a Approval) Approval {
	a.Outcome = e.Outcome
	return a
}

// decided is the answer to the approval.
func (a Approval) decided(outcome string) ApprovalDecided {
	return ApprovalDecided{
		Kind: a.Kind, AgentKey: a.AgentKey, OperationID: a.OperationID, Role: a.Role, Outcome: outcome, By: a.Operator,
	}
}
