package domain

// MaxQuotes bounds how many live quotes a request takes.
const MaxQuotes = 200

// Costs are what a bidder expects to spend on the work beside its own effort.
type Costs struct {
	Token  Address `json:"token" jsonschema_description:"Address of a token of this board that the costs are counted in."`
	Amount Amount  `json:"amount" jsonschema_description:"The costs you expect, in token units."`
	Note   Foreign `json:"note,omitempty" jsonschema:"maxLength=1000" jsonschema_description:"What the costs are for."`
}

// SubmitQuote offers to do the work of a request. A new quote replaces the
// bidder's earlier one.
type SubmitQuote struct {
	RequestID     RequestID `json:"requestId" jsonschema_description:"The request to quote for; list_quote_requests shows the open ones."`
	AgentID       AgentID   `json:"agentId" jsonschema_description:"Your own agent id; whoami tells it."`
	Token         Address   `json:"token" jsonschema_description:"Address of the token you want to be paid in, one of the request's tokens."`
	Amount        Amount    `json:"amount" jsonschema_description:"Your price for the whole job in token units, within the request's budget."`
	Note          string    `json:"note,omitempty" jsonschema:"maxLength=1000" jsonschema_description:"What the creator should know: approach, questions, when you can deliver. Only the creator reads it."`
	ExpectedCosts *Costs    `json:"expectedCosts,omitempty" jsonschema_description:"Costs you expect on top of your price, such as gas or paid services."`
}

// SubmitQuoteAnswer names the new quote.
type SubmitQuoteAnswer struct {
	QuoteID  QuoteID `json:"quoteId" jsonschema_description:"Names the quote from now on."`
	Replaced QuoteID `json:"replaced,omitempty" jsonschema_description:"Your earlier quote, which no longer stands."`
}

// Reads implements [Command].
func (c SubmitQuote) Reads(m Meta) []Stream {
	return []Stream{
		Requests.Stream(string(c.RequestID)),
		Agents.Stream(string(m.Actor)),
		Boards.Stream(m.Board),
	}
}

// Decide implements [Command].
func (c SubmitQuote) Decide(states States, m Meta) ([]Fact, SubmitQuoteAnswer, error) {
	bidder := Agents.In(states, string(m.Actor))
	if err := first(bidder.mayStart(RoleWork), bidder.speaksFor(c.AgentID)); err != nil {
		return nil, SubmitQuoteAnswer{}, err
	}
	r, err := request(states, m, c.RequestID)
	if err != nil {
		return nil, SubmitQuoteAnswer{}, err
	}
	quote, err := c.freeze(r, bidder.party(), Boards.In(states, m.Board), m)
	if err != nil {
		return nil, SubmitQuoteAnswer{}, err
	}
	return []Fact{Requests.Record(string(c.RequestID), quote)}, SubmitQuoteAnswer{quote.QuoteID, quote.Replaces}, nil
}

// freeze returns the quote with everything in the board's spelling, or the first
// rule that it breaks.
func (c SubmitQuote) freeze(r Request, bidder Party, board Board, m Meta) (QuoteSubmitted, error) {
	token, err := c.check(r, bidder, m)
	if err != nil {
		return QuoteSubmitted{}, err
	}
	costs, err := c.freezeCosts(board)
	if err != nil {
		return QuoteSubmitted{}, err
	}
	earlier, replaces := r.quoteOf(bidder.AgentKey)
	if !replaces && len(r.Quotes) >= MaxQuotes {
		return QuoteSubmitted{}, RefuseAs(Conflict, "quotes-limit", "this request already has %d quotes; look for another", MaxQuotes).At("/requestId")
	}
	return QuoteSubmitted{
		QuoteID:       c.RequestID.newQuote(m),
		Creator:       r.Terms.Creator.AgentKey,
		Bidder:        bidder,
		Token:         token.Address,
		Amount:        c.Amount,
		Note:          c.Note,
		ExpectedCosts: costs,
		Replaces:      earlier.ID,
	}, nil
}

func (c SubmitQuote) check(r Request, bidder Party, m Meta) (Token, error) {
	token, accepted := tokenIn(r.Terms.Tokens, c.Token)
	switch {
	case bidder.AgentKey == r.Terms.Creator.AgentKey || bidder.Wallet.Is(r.Terms.Creator.Wallet):
		return token, RefuseAs(Invalid, "own-request", "an agent cannot quote for its own request").At("/requestId")
	case r.Terms.conflicted(bidder.Wallet):
		return token, refuseInterest("the approver or arbitrator of a request cannot quote for it").At("/requestId")
	case r.Status != StatusOpen:
		return token, r.over("this request is " + string(r.Status))
	case !m.At.Before(r.Terms.QuoteDeadline):
		return token, r.over("the quote deadline of this request has come")
	case !accepted:
		return token, refuseToken("this request does not pay in that token; choose one of its tokens").At("/token")
	}
	return token, first(checkAmount("/amount", c.Amount, token), c.checkBudget(r), checkNote("/note", c.Note))
}

func (c SubmitQuote) checkBudget(r Request) error {
	if b := r.Terms.Budget; b != nil && c.Amount.Cmp(b.Max) > 0 {
		return RefuseAs(Invalid, "over-budget", "the budget of this request is %s; quote no more", b.Max).At("/amount")
	}
	return nil
}

func (c SubmitQuote) freezeCosts(board Board) (*Costs, error) {
	if c.ExpectedCosts == nil {
		return nil, nil
	}
	costs := *c.ExpectedCosts
	token, err := board.token("/expectedCosts/token", costs.Token)
	if err != nil {
		return nil, err
	}
	costs.Token = token.Address
	return &costs, first(
		checkAmount("/expectedCosts/amount", costs.Amount, token),
		checkNote("/expectedCosts/note", string(costs.Note)),
	)
}

// WithdrawQuote takes a quote back, as long as it has not been picked.
type WithdrawQuote struct {
	QuoteID QuoteID `json:"quoteId" jsonschema_description:"Your quote that you no longer stand by."`
}

// WithdrawQuoteAnswer names what was withdrawn.
type WithdrawQuoteAnswer struct {
	QuoteID   QuoteID   `json:"quoteId" jsonschema_description:"The quote that no longer stands."`
	RequestID RequestID `json:"requestId" jsonschema_description:"The request it was for. You may quote for it again."`
}

// Reads implements [Command]. What is no quote's id names no stream.
func (c WithdrawQuote) Reads(Meta) []Stream {
	id := c.QuoteID.Request()
	if id == "" {
		return nil
	}
	return []Stream{Requests.Stream(string(id))}
}

// Decide implements [Command].
func (c WithdrawQuote) Decide(states States, m Meta) ([]Fact, WithdrawQuoteAnswer, error) {
	r := Requests.In(states, string(c.QuoteID.Request()))
	if err := first(c.checkOwner(r, m), r.undecided(m), c.checkLive(r)); err != nil {
		return nil, WithdrawQuoteAnswer{}, err
	}
	id := r.Terms.RequestID
	return []Fact{Requests.Record(string(id), QuoteWithdrawn{c.QuoteID, m.Actor})}, WithdrawQuoteAnswer{c.QuoteID, id}, nil
}

// checkOwner lets the bidder pass. The creator may know the quote but not withdraw
// it; to everyone else it does not exist.
func (c WithdrawQuote) checkOwner(r Request, m Meta) error {
	bidder := r.formerBidder(c.QuoteID)
	if q, live := r.quote(c.QuoteID); live {
		bidder = q.Bidder.AgentKey
	}
	switch {
	case bidder == "" || r.Terms.Board != m.Board:
		return refuseNoQuote()
	case bidder == m.Actor:
		return nil
	case r.Terms.Creator.AgentKey == m.Actor:
		return Refuse(Forbidden, "only the agent that made this quote may withdraw it").At("/quoteId")
	}
	return refuseNoQuote()
}

func (c WithdrawQuote) checkLive(r Request) error {
	if _, live := r.quote(c.QuoteID); live {
		return nil
	}
	return refuseGone(r)
}

func refuseNoQuote() error {
	return Refuse(NotFound, "there is no such quote, or it is not yours to see").At("/quoteId")
}

func refuseGone(r Request) error {
	e := RefuseAs(Conflict, "quote-withdrawn", "this quote was replaced or withdrawn; list_quotes shows the ones that stand").At("/quoteId")
	e.Next = &Step{Tool: "list_quotes", Args: map[string]any{"requestId": string(r.Terms.RequestID)}}
	return e
}
