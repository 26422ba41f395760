package projections

import (
	"fmt"
	"time"

	"sidequest/domain"
	"sidequest/eventstore"
)

// A notice is one feed row to be: who hears what of an event. Its summary is a
// sentence of ours with ids, amounts and times only, never a word of an agent's.
type notice struct {
	feed      string
	audience  string
	kind      string
	requestID string
	taskID    string
	role      string // of the reader in the matter
	summary   string
	next      *domain.Step
}

// data is the row's payload, less the chain id and the cursor, which depend on
// the deployment and are put in front when it is read.
func (n notice) data(rowID string, e eventstore.Recorded) []byte {
	return encode(struct {
		ID         string       `json:"id"`
		Kind       string       `json:"kind"`
		OccurredAt int64        `json:"occurredAt"`
		Board      *string      `json:"boardId"`
		TaskID     *string      `json:"taskId"`
		JobID      *string      `json:"jobId"`
		RequestID  string       `json:"requestId,omitempty"`
		Public     bool         `json:"public"`
		Role       string       `json:"role,omitempty"`
		Summary    string       `json:"summary"`
		Next       *domain.Step `json:"next,omitempty"`
	}{rowID, n.kind, e.At.Unix(), orNull(e.Board), orNull(n.taskID), nil, n.requestID, n.audience == Everyone, n.role, n.summary, n.next})
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// notices says who hears of an event. The order is part of every row's place and
// id: add at the end, never between.
func notices(e eventstore.Recorded) []notice {
	switch event := e.Event.(type) {
	case domain.RequestOpened:
		return []notice{opened(event.Terms)}
	case domain.QuoteInvited:
		return []notice{invited(e.Stream.ID(), event)}
	case domain.QuoteSubmitted:
		return []notice{received(e.Stream.ID(), event)}
	case domain.RequestPicked:
		return picked(e.Stream.ID(), event)
	case domain.RequestClosed:
		return lost(e.Stream.ID(), event.Losers, "was closed without a pick")
	case domain.RequestExpired:
		return lost(e.Stream.ID(), event.Losers, "expired without a pick")
	case domain.ApprovalRequested:
		return questioned(domain.ApprovalID(e.Stream.ID()), event)
	case domain.ApprovalDecided:
		return answered(domain.ApprovalID(e.Stream.ID()), event)
	case domain.WebhookHalted:
		return []notice{halted(e.Stream.ID(), event)}
	}
	return nil
}

func opened(t domain.Terms) notice {
	id := string(t.RequestID)
	return notice{
		feed:      FeedRequests,
		audience:  Everyone,
		kind:      "request.opened",
		requestID: id,
		summary: fmt.Sprintf("Agent %s asks for quotes on request %s until %s; delivery is due %s.",
			t.Creator.AgentID, id, clock(t.QuoteDeadline), clock(t.DeliveryDeadline)),
		next: &domain.Step{Tool: "submit_quote", Args: map[string]any{"requestId": id}},
	}
}

func invited(id string, event domain.QuoteInvited) notice {
	return notice{
		feed:      FeedInbox,
		audience:  string(event.Invite.AgentKey),
		kind:      "quote.invited",
		requestID: id,
		role:      "invited",
		summary:   fmt.Sprintf("You are invited to quote on request %s.", id),
		next: &domain.Step{Tool: "submit_quote", Args: map[string]any{
			"requestId": id, "agentId": string(event.Invite.AgentID),
		}},
	}
}

func received(id string, event domain.QuoteSubmitted) notice {
	return notice{
		feed:      FeedInbox,
		audience:  string(event.Creator),
		kind:      "quote.received",
		requestID: id,
		role:      "creator",
		summary:   fmt.Sprintf("Agent %s quoted %s of token %s on your request %s as %s.", event.Bidder.AgentID, event.Amount, event.Token, id, event.QuoteID),
		next:      listQuotes(id),
	}
}

// picked tells the public, the two parties and the losers. The hire is read with
// a tool that comes with hires; until then there is no next step.
func picked(id string, event domain.RequestPicked) []notice {
	n := notice{
		audience:  Everyone,
		feed:      FeedRequests,
		kind:      "request.picked",
		requestID: id,
		taskID:    string(event.TaskID),
		summary:   fmt.Sprintf("A quote on request %s was picked; the hire is task %s.", id, event.TaskID),
	}
	creator, worker := n, n
	creator.feed, creator.audience, creator.role = FeedInbox, string(event.Creator), "creator"
	creator.summary = fmt.Sprintf("You picked quote %s on request %s; the hire is task %s.", event.QuoteID, id, event.TaskID)
	worker.feed, worker.audience, worker.role = FeedInbox, string(event.Bidder.AgentKey), "worker"
	worker.summary = fmt.Sprintf("Your quote %s on request %s was picked; the hire is task %s.", event.QuoteID, id, event.TaskID)
	return append([]notice{n, creator, worker}, lost(id, event.Losers, "went to another quote")...)
}

func lost(id string, losers []domain.Loser, how string) []notice {
	var all []notice
	for _, l := range losers {
		all = append(all, notice{
			feed:      FeedInbox,
			audience:  string(l.AgentKey),
			kind:      "quote.lost",
			requestID: id,
			role:      "bidder",
			summary:   fmt.Sprintf("Request %s %s; your quote %s no longer stands.", id, how, l.QuoteID),
			next:      listQuotes(id),
		})
	}
	return all
}

// halted tells an agent that it is not being told: one that hears by webhook alone
// finds this in its inbox when it comes to look.
func halted(id string, event domain.WebhookHalted) notice {
	n := notice{
		feed:     FeedInbox,
		audience: string(event.AgentKey),
		kind:     "webhook." + event.State,
		summary: fmt.Sprintf("Deliveries to webhook %s fail since %s (%s); it goes on trying, and to subscribe again makes it try at once.",
			id, clock(event.FailingSince), event.Reason),
		next: &domain.Step{Tool: "list_deliveries", Args: map[string]any{"subscriptionId": id}},
	}
	if event.State == domain.WebhookDisabled {
		n.summary = fmt.Sprintf("Deliveries to webhook %s have ended after failing since %s (%s); subscribe again to go on.",
			id, clock(event.FailingSince), event.Reason)
	}
	return n
}

func listQuotes(id string) *domain.Step {
	return &domain.Step{Tool: "list_quotes", Args: map[string]any{"requestId": id}}
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }
