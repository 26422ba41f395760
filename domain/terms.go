package domain

import "time"

// Terms are the frozen request: what was asked for, with everything that was
// left open filled in. They never change, and requestHash is their hash.
type Terms struct {
	RequestID          RequestID   `json:"requestId"`
	Board              string      `json:"boardId"` // slug
	ChainID            int64       `json:"chainId"`
	Creator            Party       `json:"creator"`
	Title              string      `json:"title"`
	Brief              string      `json:"brief"`
	AcceptanceCriteria []string    `json:"acceptanceCriteria"`
	Tags               []Tag       `json:"tags,omitempty"`
	Tokens             []Token     `json:"tokens"`           // one of them pays
	Budget             *Budget     `json:"budget,omitempty"` // its token is then the only one
	Invite             *Party      `json:"invite,omitempty"` // a notice, not an exclusive right
	CreatorBond        Amount      `json:"creatorBond"`      // in the token of the picked quote, as are rewards
	WorkerBond         Amount      `json:"workerBond"`
	CreatedAt          time.Time   `json:"createdAt"` // whole seconds, as are the deadlines
	QuoteDeadline      time.Time   `json:"quoteDeadline"`
	DeliveryDeadline   time.Time   `json:"deliveryDeadline"`
	RequiredChecks     []string    `json:"requiredChecks,omitempty"`
	Approver           Address     `json:"approver"`
	Windows            Windows     `json:"windows"`
	Arbitrator         Address     `json:"arbitrator"`
	Stack              string      `json:"stack,omitempty"`
	Deliverable        Deliverable `json:"deliverable"`
}

// A Tag sorts requests by craft.
type Tag string

// A Budget is the one token a request pays in and the most it pays.
type Budget struct {
	Token Address `json:"token" jsonschema_description:"Address of a reward token of this board; protocol_info lists them."`
	Max   Amount  `json:"max" jsonschema_description:"The most you will pay, in token units, such as 25 or 0.5. Quotes above it are refused."`
}

// Windows are the times, in seconds, that the steps after delivery may take.
type Windows struct {
	ReviewSeconds      int64 `json:"reviewSeconds,omitempty" jsonschema:"minimum=1" jsonschema_description:"How long the approver may review a delivery, in seconds; silence pays the worker. Usually 1 hour to 14 days."`
	DisputeSeconds     int64 `json:"disputeSeconds,omitempty" jsonschema:"minimum=1" jsonschema_description:"How long the worker may dispute a rejection, in seconds; silence refunds the creator. Usually 1 hour to 14 days."`
	ArbitrationSeconds int64 `json:"arbitrationSeconds,omitempty" jsonschema:"minimum=1" jsonschema_description:"How long the arbitrator may take to rule, in seconds; silence refunds the creator. Usually 12 hours to 14 days."`
}

// A DeliverableKind is a form in which work is handed over.
type DeliverableKind string

// deliverableKinds lists every form there is.
func deliverableKinds() []DeliverableKind {
	return []DeliverableKind{"git", "patch", "artifact", "url", "onchain"}
}

// A Deliverable says what will be accepted as delivery.
type Deliverable struct {
	Accepts []DeliverableKind `json:"accepts" jsonschema:"minItems=1,maxItems=5,uniqueItems=true,enum=git,enum=patch,enum=artifact,enum=url,enum=onchain" jsonschema_description:"The kinds of deliverable you accept."`
	Target  Foreign           `json:"target,omitempty" jsonschema:"minLength=1,maxLength=500" jsonschema_description:"Where the work goes, such as the repository or contract it is for."`
}

// An Invite names the agent to tell about a request.
type Invite struct {
	AgentID AgentID `json:"agentId" jsonschema_description:"Agent id of the agent to invite. It is told at once; everyone else may still quote."`
}

// fit returns the windows with the omitted ones filled in, or the first that is
// out of bounds. A longer job takes longer to judge: review and dispute get half
// of the time until delivery each and arbitration all of it, clamped to the
// bounds of the board.
func (w Windows) fit(bounds WindowBounds, untilDelivery time.Duration) (Windows, error) {
	whole := int64(untilDelivery / time.Second)
	review, err1 := bounds.Review.fit("/windows/reviewSeconds", w.ReviewSeconds, whole/2)
	dispute, err2 := bounds.Dispute.fit("/windows/disputeSeconds", w.DisputeSeconds, whole/2)
	arbitration, err3 := bounds.Arbitration.fit("/windows/arbitrationSeconds", w.ArbitrationSeconds, whole)
	return Windows{review, dispute, arbitration}, first(err1, err2, err3)
}

// fit returns the explicit window if it is within the range, and the proposed one
// moved into the range if none (0) was given.
func (r WindowRange) fit(field string, explicit, proposed int64) (int64, error) {
	if explicit == 0 {
		return min(max(proposed, r.MinSeconds), r.MaxSeconds), nil
	}
	if explicit < r.MinSeconds || explicit > r.MaxSeconds {
		return 0, RefuseAs(Invalid, "window-bounds", "this window is %d to %d seconds on this board; stay within, or leave it out to have it fitted",
			r.MinSeconds, r.MaxSeconds).At(field)
	}
	return explicit, nil
}
