package domain_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
)

// roleQuestion is the approval that Ann's operation asks for.
var roleQuestion = domain.ApprovalID("ap_" +
	strings.TrimPrefix(string(ann.AgentKey), "ag_") + strings.TrimPrefix(meta(ann.AgentKey, noon).NewID("ap"), "ap_"))

// questioned is Ann's question whether she may work.
func questioned() []domain.Fact {
	return []domain.Fact{
		domain.Approvals.Record(string(roleQuestion), domain.ApprovalRequested{
			Kind: domain.ApprovalOfRole, AgentKey: ann.AgentKey, Operator: string(operator), Board: "main",
			OperationID: meta(ann.AgentKey, noon).OperationID(), Role: domain.RoleWork,
		}),
		domain.Agents.Record(string(ann.AgentKey), domain.AgentRoleRequested{Role: domain.RoleWork, ApprovalID: roleQuestion}),
	}
}

// answered is what her operator's answer records.
func answered(outcome string) []domain.Fact {
	return []domain.Fact{
		domain.Approvals.Record(string(roleQuestion), domain.ApprovalDecided{
			Kind: domain.ApprovalOfRole, AgentKey: ann.AgentKey, OperationID: meta(ann.AgentKey, noon).OperationID(),
			Role: domain.RoleWork, Outcome: outcome, By: string(operator),
		}),
		domain.Agents.Record(string(ann.AgentKey), domain.AgentRoleDecided{
			Role: domain.RoleWork, ApprovalID: roleQuestion, Granted: outcome == domain.Approved,
		}),
	}
}

func bothRoles() domain.Fact {
	return domain.Agents.Record(string(ann.AgentKey), domain.AgentRolesSet{Roles: domain.Roles()})
}

func TestRequestRole(t *testing.T) {
	t.Parallel()

	want := func(role domain.Role) deed { return do(domain.RequestRole{Role: role}) }
	asked := domain.RequestRoleAnswer{Role: domain.RoleWork, ApprovalID: roleQuestion}
	run(t, []row{
		{name: "an agent asks its operator", given: market(), by: ann.AgentKey, when: want("work"), then: questioned(), answer: asked},
		{name: "it asks once", given: with(market(), questioned()...), by: ann.AgentKey, when: want("work"), answer: asked},
		{name: "a role it has needs no question", given: market(), by: ann.AgentKey, when: want("hire"), answer: domain.RequestRoleAnswer{Role: domain.RoleHire}},
		{name: "a role it was given meanwhile needs none", given: with(market(), append(questioned(), bothRoles())...), by: ann.AgentKey, when: want("work"), answer: domain.RequestRoleAnswer{Role: domain.RoleWork}},
		{name: "there are two roles", given: market(), by: ann.AgentKey, when: want("king"), err: "invalid", field: "/role"},
		{name: "a stranger has no operator to ask", given: market(), by: "ag_stranger", when: want("work"), err: "forbidden"},
	})
}

func TestAnAgentMayAskAgainAfterARefusal(t *testing.T) {
	t.Parallel()

	facts, _, err := do(domain.RequestRole{Role: domain.RoleWork}).play(t,
		with(market(), append(questioned(), answered(domain.Refused)...)...),
		domain.Meta{Actor: ann.AgentKey, Board: "main", OperationKey: "another", At: noon, Hash: keccak})
	if err != nil || len(facts) != 2 {
		t.Fatalf("facts %v, error %v; want a new question", facts, err)
	}
	if facts[0].Stream == domain.Approvals.Stream(string(roleQuestion)) {
		t.Error("the question that was refused was opened again")
	}
}

func TestDecideARole(t *testing.T) {
	t.Parallel()

	answer := func(outcome string) deed {
		return do(domain.DecideApproval{ApprovalID: roleQuestion, Outcome: outcome})
	}
	given := with(market(), questioned()...)
	said := func(outcome string) domain.DecideApprovalAnswer {
		return domain.DecideApprovalAnswer{ApprovalID: roleQuestion, Outcome: outcome, AgentKey: ann.AgentKey}
	}
	run(t, []row{
		{name: "yes gives the role", given: given, by: operator, when: answer("approved"), then: append(answered("approved"), bothRoles()), answer: said("approved")},
		{name: "no gives nothing", given: given, by: operator, when: answer("refused"), then: answered("refused"), answer: said("refused")},
		{name: "yes to a role it was given meanwhile", given: with(given, bothRoles()), by: operator, when: answer("approved"), then: answered("approved")},
		{name: "the same answer again records nothing", given: with(given, answered("refused")...), by: operator, when: answer("refused"), answer: said("refused")},
		{name: "another answer is refused", given: with(given, answered("refused")...), by: operator, when: answer("approved"), err: "already-decided", class: domain.Conflict, field: "/approvalId"},
		{name: "an agent does not answer itself", given: given, by: ann.AgentKey, when: answer("approved"), err: "not-found", field: "/approvalId"},
		{name: "a question to another operator is unknown", given: given, by: "stranger", when: answer("approved"), err: "not-found", field: "/approvalId"},
		{name: "a question that was never put is unknown", given: market(), by: operator, when: answer("approved"), err: "not-found", field: "/approvalId"},
		{name: "an answer is yes or no", given: given, by: operator, when: answer("perhaps"), err: "invalid", field: "/outcome"},
		{name: "roles are known", given: given, by: operator, when: do(domain.DecideApproval{ApprovalID: roleQuestion, Outcome: "approved", Roles: []domain.Role{"king"}}), err: "invalid", field: "/roles"},
		{name: "connections are given once", given: given, by: operator, when: do(domain.DecideApproval{ApprovalID: roleQuestion, Outcome: "approved", Grants: []string{"a", "a"}}), err: "invalid", field: "/grants/1"},
		{name: "connections are bounded", given: given, by: operator, when: do(domain.DecideApproval{ApprovalID: roleQuestion, Outcome: "approved", Grants: make([]string, 101)}), err: "invalid", field: "/grants"},
	})
}

func TestAnAnswerIsGivenOnTheBoardOfTheQuestion(t *testing.T) {
	t.Parallel()

	m := meta(operator, noon)
	m.Board = "elsewhere"
	_, _, err := do(domain.DecideApproval{ApprovalID: roleQuestion, Outcome: domain.Approved}).play(t, with(market(), questioned()...), m)
	if domain.CodeOf(err) != "invalid" {
		t.Errorf("error %v, want invalid", err)
	}
}

func TestAnApprovalNamesItsAgent(t *testing.T) {
	t.Parallel()

	got := []domain.AgentKey{roleQuestion.Agent(), domain.ApprovalID("ap_short").Agent(), domain.ApprovalID("").Agent()}
	if diff := cmp.Diff([]domain.AgentKey{ann.AgentKey, "", ""}, got); diff != "" {
		t.Error(diff)
	}
}
