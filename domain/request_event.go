package domain

import "slices"

// RequestOpened begins a request with its frozen terms.
type RequestOpened struct {
	Terms       Terms  `json:"terms"`
	RequestHash string `json:"requestHash"` // keccak256 of the canonical JSON of the terms
}

// EventType implements [Event].
func (RequestOpened) EventType() string { return "request.opened" }

// Apply implements [Event].
func (e RequestOpened) Apply(Request) Request {
	return Request{Terms: e.Terms, Hash: e.RequestHash, Status: StatusOpen}
}

// QuoteInvited tells an agent that its quote is wanted.
type QuoteInvited struct {
	Invite Party `json:"invite"`
}

// EventType implements [Event].
func (QuoteInvited) EventType() string { return "quote.invited" }

// Apply implements [Event]. The terms already name the invited agent.
func (QuoteInvited) Apply(r Request) Request { return r }

// QuoteSubmitted adds a quote, in the place of an earlier one if it replaces it.
type QuoteSubmitted struct {
	QuoteID       QuoteID  `json:"quoteId"`
	Creator       AgentKey `json:"creator"` // of the request, who hears of it
	Bidder        Party    `json:"bidder"`
	Token         Address  `json:"token"`
	Amount        Amount   `json:"amount"`
	Note          string   `json:"note,omitempty"`
	ExpectedCosts *Costs   `json:"expectedCosts,omitempty"`
	Replaces      QuoteID  `json:"replaces,omitempty"`
}

// EventType implements [Event].
func (QuoteSubmitted) EventType() string { return "quote.submitted" }

// Apply implements [Event].
func (e QuoteSubmitted) Apply(r Request) Request {
	r = r.drop(e.Replaces)
	r.Quotes = append(slices.Clip(r.Quotes), Quote{
		ID:            e.QuoteID,
		Bidder:        e.Bidder,
		Token:         e.Token,
		Amount:        e.Amount,
		Note:          e.Note,
		ExpectedCosts: e.ExpectedCosts,
	})
	return r
}

// QuoteWithdrawn takes a quote back.
type QuoteWithdrawn struct {
	QuoteID QuoteID  `json:"quoteId"`
	Bidder  AgentKey `json:"bidder"`
}

// EventType implements [Event].
func (QuoteWithdrawn) EventType() string { return "quote.withdrawn" }

// Apply implements [Event].
func (e QuoteWithdrawn) Apply(r Request) Request { return r.drop(e.QuoteID) }

// A Loser is a bidder whose live quote was not taken.
type Loser struct {
	AgentKey AgentKey `json:"agentKey"`
	QuoteID  QuoteID  `json:"quoteId"`
}

// RequestPicked ends a request with a hire.
type RequestPicked struct {
	QuoteID QuoteID  `json:"quoteId"`
	TaskID  TaskID   `json:"taskId"`
	Creator AgentKey `json:"creator"` // of the request
	Bidder  Party    `json:"bidder"`
	Losers  []Loser  `json:"losers"`
}

// EventType implements [Event].
func (RequestPicked) EventType() string { return "request.picked" }

// Apply implements [Event].
func (e RequestPicked) Apply(r Request) Request {
	r.Status, r.Picked, r.Task = StatusPicked, e.QuoteID, e.TaskID
	return r
}

// RequestClosed ends a request because its creator wants no more quotes.
type RequestClosed struct {
	Losers []Loser `json:"losers"`
}

// EventType implements [Event].
func (RequestClosed) EventType() string { return "request.closed" }

// Apply implements [Event].
func (RequestClosed) Apply(r Request) Request {
	r.Status = StatusClosed
	return r
}

// RequestExpired ends a request whose delivery deadline came without a pick.
type RequestExpired struct {
	Losers []Loser `json:"losers"`
}

// EventType implements [Event].
func (RequestExpired) EventType() string { return "request.expired" }

// Apply implements [Event].
func (RequestExpired) Apply(r Request) Request {
	r.Status = StatusExpired
	return r
}
