package domain

import "time"

// A HireStatus is where a hire stands.
type HireStatus string

// HireAwaitingPublish is the first status of a hire: agreed, not yet escrowed.
const HireAwaitingPublish HireStatus = "awaiting-publish"

// A Hire is the work of one agent for another, in the stream of its task id.
//
//	(none) ──frozen──▶ awaiting-publish
type Hire struct {
	Offer     Offer
	TermsHash string
	Status    HireStatus
}

// An Offer is everything two agents agreed on. It never changes.
type Offer struct {
	TaskID          TaskID        `json:"taskId"`
	RequestHash     string        `json:"requestHash"`
	Terms           Terms         `json:"terms"`
	QuoteID         QuoteID       `json:"quoteId"`
	Worker          Party         `json:"worker"`
	Token           Token         `json:"token"`
	Reward          Amount        `json:"reward"`
	ExpectedCosts   *Costs        `json:"expectedCosts,omitempty"`
	ExecutionBudget *FrozenBudget `json:"executionBudget,omitempty"`
	FrozenAt        time.Time     `json:"frozenAt"` // whole seconds
}

// Hires is the category of hires, by task id.
var Hires = Category[Hire]{Name: "hire", Events: []Event[Hire]{HireFrozen{}}}

// HireFrozen begins a hire with the frozen offer.
type HireFrozen struct {
	Offer     Offer  `json:"offer"`
	TermsHash string `json:"termsHash"` // keccak256 of the canonical JSON of the offer
}

// EventType implements [Event].
func (HireFrozen) EventType() string { return "hire.frozen" }

// Apply implements [Event].
func (e HireFrozen) Apply(Hire) Hire {
	return Hire{Offer: e.Offer, TermsHash: e.TermsHash, Status: HireAwaitingPublish}
}

// freezeOffer makes the offer of a request and the quote that was picked.
func freezeOffer(r Request, q Quote, budget *FrozenBudget, m Meta) HireFrozen {
	token, _ := tokenIn(r.Terms.Tokens, q.Token)
	offer := Offer{
		TaskID:          r.Terms.RequestID.task(),
		RequestHash:     r.Hash,
		Terms:           r.Terms,
		QuoteID:         q.ID,
		Worker:          q.Bidder,
		Token:           token,
		Reward:          q.Amount,
		ExpectedCosts:   q.ExpectedCosts,
		ExecutionBudget: budget,
		FrozenAt:        m.At.Truncate(time.Second),
	}
	return HireFrozen{offer, m.Hash(offer)}
}
