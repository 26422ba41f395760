package projections

import (
	"fmt"

	"sidequest/domain"
)

// questioned tells an agent that its operator was asked something.
func questioned(id domain.ApprovalID, event domain.ApprovalRequested) []notice {
	summary := fmt.Sprintf("Your operator was asked whether you may have the role %s; the question is %s.", event.Role, id)
	if event.Kind == domain.ApprovalOfAgent {
		summary = fmt.Sprintf("Your operator was asked whether you shall be registered; the question is %s.", id)
	}
	return inBothFeeds(notice{
		audience: string(event.AgentKey),
		kind:     "approval.requested",
		summary:  summary,
		next:     &domain.Step{Tool: "list_approvals", Args: map[string]any{"state": ApprovalOpen}},
	})
}

// answered tells an agent what its operator said. The operation that waited for it
// can be looked up; its own repeat carries on as well.
func answered(id domain.ApprovalID, event domain.ApprovalDecided) []notice {
	all := inBothFeeds(notice{
		audience: string(event.AgentKey),
		kind:     "approval.decided",
		summary:  fmt.Sprintf("Your operator answered question %s: %s.", id, event.Outcome),
		next:     &domain.Step{Tool: "check_operation", Args: map[string]any{"operationId": event.OperationID}},
	})
	if event.Kind != domain.ApprovalOfRole {
		return all
	}
	n := notice{
		audience: string(event.AgentKey),
		kind:     "role.granted",
		summary:  fmt.Sprintf("You have the role %s now.", event.Role),
		next:     &domain.Step{Tool: "whoami", Args: map[string]any{}},
	}
	if event.Outcome != domain.Approved {
		n.kind, n.summary = "role.refused", fmt.Sprintf("Your operator did not give you the role %s.", event.Role)
	}
	return append(all, inBothFeeds(n)...)
}

// inBothFeeds puts a notice into the agent's inbox and where it follows approvals.
func inBothFeeds(n notice) []notice {
	inbox, approvals := n, n
	inbox.feed, approvals.feed = FeedInbox, FeedApprovals
	return []notice{inbox, approvals}
}
