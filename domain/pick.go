package domain

import "time"

// PickQuote chooses the quote that becomes a hire.
type PickQuote struct {
	RequestID       RequestID        `json:"requestId" jsonschema_description:"Your request."`
	QuoteID         QuoteID          `json:"quoteId" jsonschema_description:"The quote to take; list_quotes shows them. This ends the request and cannot be undone."`
	ExecutionBudget *ExecutionBudget `json:"executionBudget,omitempty" jsonschema_description:"Money the worker may spend on the job beside its reward."`
}

// An ExecutionBudget is what a worker may spend beside its reward: an advance
// paid out to it, or calls of one function of one contract.
type ExecutionBudget struct {
	Kind      string  `json:"kind" jsonschema:"enum=advance,enum=call" jsonschema_description:"advance pays the worker up to the cap; call pays for calls of one contract function."`
	Token     Address `json:"token,omitempty" jsonschema_description:"Address of the token of this board that is spent. If left out, the token of the quote."`
	Target    Address `json:"target,omitempty" jsonschema_description:"Contract that may be called. For kind call only, and then required."`
	Function  string  `json:"function,omitempty" jsonschema:"minLength=1,maxLength=200" jsonschema_description:"Signature of the function that may be called, such as mint(address,uint256). For kind call only, and then required."`
	Cap       Amount  `json:"cap" jsonschema_description:"The most that may be spent, in token units."`
	ExpiresAt When    `json:"expiresAt,omitempty" jsonschema_description:"When the budget ends, at the latest at the delivery deadline, which it is if left out."`
}

// The kinds of execution budget.
const (
	BudgetAdvance = "advance"
	BudgetCall    = "call"
)

// PickQuoteAnswer names the hire.
type PickQuoteAnswer struct {
	TaskID    TaskID    `json:"taskId" jsonschema_description:"Names the hire from now on."`
	Selection Selection `json:"selection" jsonschema_description:"Where the selection of the worker stands."`
}

// A Selection tells where the selection of a worker stands.
type Selection struct {
	Status HireStatus `json:"status" jsonschema:"enum=awaiting-publish" jsonschema_description:"awaiting-publish: the offer is frozen and its escrow is still to be published."`
}

// Reads implements [Command].
func (c PickQuote) Reads(m Meta) []Stream {
	return []Stream{
		Requests.Stream(string(c.RequestID)),
		Hires.Stream(string(c.RequestID.task())),
		Agents.Stream(string(m.Actor)),
		Boards.Stream(m.Board),
	}
}

// Decide implements [Command].
func (c PickQuote) Decide(states States, m Meta) ([]Fact, PickQuoteAnswer, error) {
	r, err := request(states, m, c.RequestID)
	if err != nil {
		return nil, PickQuoteAnswer{}, err
	}
	quote, err := c.choose(states, r, m)
	if err != nil {
		return nil, PickQuoteAnswer{}, err
	}
	budget, err := c.ExecutionBudget.freeze(Boards.In(states, m.Board), r.Terms, quote, m.At)
	if err != nil {
		return nil, PickQuoteAnswer{}, err
	}
	task := c.RequestID.task()
	return []Fact{
		Requests.Record(string(c.RequestID), RequestPicked{quote.ID, task, r.Terms.Creator.AgentKey, quote.Bidder, r.lose(quote.ID)}),
		Agents.Record(string(m.Actor), AgentRequestSettled{c.RequestID}),
		Hires.Record(string(task), freezeOffer(r, quote, budget, m)),
	}, PickQuoteAnswer{task, Selection{HireAwaitingPublish}}, nil
}

// choose returns the live quote to take, or says why it cannot be taken.
func (c PickQuote) choose(states States, r Request, m Meta) (Quote, error) {
	quote, live := r.quote(c.QuoteID)
	err := first(r.createdBy(m), Agents.In(states, string(m.Actor)).mayStart(RoleHire))
	switch {
	case err != nil:
		return Quote{}, err
	case !live && r.formerBidder(c.QuoteID) == "":
		return Quote{}, refuseNoQuote()
	case r.undecided(m) != nil:
		return Quote{}, r.undecided(m)
	case !live:
		return Quote{}, refuseGone(r)
	}
	return quote, nil
}

// A FrozenBudget is an execution budget with everything filled in.
type FrozenBudget struct {
	Kind      string    `json:"kind"`
	Token     Token     `json:"token"`
	Target    Address   `json:"target,omitempty"`
	Function  string    `json:"function,omitempty"`
	Cap       Amount    `json:"cap"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// freeze returns the budget with everything filled in, nil for none, or the first
// rule that it breaks.
func (b *ExecutionBudget) freeze(board Board, t Terms, q Quote, now time.Time) (*FrozenBudget, error) {
	if b == nil {
		return nil, nil
	}
	token, err := board.token("/executionBudget/token", given(b.Token, q.Token))
	if err != nil {
		return nil, err
	}
	expires, err := b.expiry(t, now)
	if err != nil {
		return nil, err
	}
	if err := first(checkAmount("/executionBudget/cap", b.Cap, token), b.checkKind()); err != nil {
		return nil, err
	}
	return &FrozenBudget{b.Kind, token, b.Target, b.Function, b.Cap, expires}, nil
}

func (b *ExecutionBudget) expiry(t Terms, now time.Time) (time.Time, error) {
	const field = "/executionBudget/expiresAt"
	if b.ExpiresAt == "" {
		return t.DeliveryDeadline, nil
	}
	at, err := resolve(field, b.ExpiresAt, now)
	switch {
	case err != nil:
		return time.Time{}, err
	case !now.Before(at):
		return time.Time{}, refuseOrder(field, "the execution budget must end in the future")
	case at.After(t.DeliveryDeadline):
		return time.Time{}, refuseOrder(field, "the execution budget must end by the delivery deadline")
	}
	return at, nil
}

// checkKind keeps an advance free of what only calls need. A call names its
// function: a budget for whatever a contract can do would be a blank cheque.
func (b *ExecutionBudget) checkKind() error {
	switch b.Kind {
	case BudgetAdvance:
		if b.Target != "" {
			return Refuse(Invalid, "an advance has no target; leave it out").At("/executionBudget/target")
		}
		if b.Function != "" {
			return Refuse(Invalid, "an advance has no function; leave it out").At("/executionBudget/function")
		}
		return nil
	case BudgetCall:
		return first(
			checkAddress("/executionBudget/target", b.Target),
			checkSignature("/executionBudget/function", b.Function),
		)
	}
	return Refuse(Invalid, "the kind is advance or call").At("/executionBudget/kind")
}
