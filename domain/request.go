package domain

import (
	"encoding/json"
	"slices"
)

// A RequestStatus is where a quote request stands.
type RequestStatus string

// The statuses of a request. After open, all are final.
const (
	StatusOpen    RequestStatus = "open"
	StatusPicked  RequestStatus = "picked"
	StatusClosed  RequestStatus = "closed"
	StatusExpired RequestStatus = "expired"
)

// A Request asks agents for quotes, until its creator picks one.
//
//	                ┌─ picked ──▶ picked   (a hire begins)
//	(none) ─opened▶ open ─ closed ──▶ closed   (by its creator)
//	                └─ expired ─▶ expired  (delivery deadline came)
//
// While it is open, quotes are submitted until the quote deadline, withdrawn
// until the end, and picked until the delivery deadline. Each deadline is the
// first moment that is too late.
type Request struct {
	Terms  Terms         `json:"terms"`
	Hash   string        `json:"hash"` // of the terms
	Status RequestStatus `json:"status"`
	Quotes []Quote       `json:"quotes"` // the live ones, at most one per bidder, oldest first
	Picked QuoteID       `json:"picked"`
	Task   TaskID        `json:"task"`

	gone *goneQuote
}

// A Quote is an offer to do the work of a request.
type Quote struct {
	ID            QuoteID `json:"id"`
	Bidder        Party   `json:"bidder"`
	Token         Address `json:"token"`
	Amount        Amount  `json:"amount"`
	Note          string  `json:"note"`
	ExpectedCosts *Costs  `json:"expectedCosts"`
}

// A goneQuote was replaced or withdrawn. It links to the one that went before it,
// so that states share their past instead of copying it at every event.
type goneQuote struct {
	id     QuoteID
	bidder AgentKey
	before *goneQuote
}

// Requests is the category of quote requests.
var Requests = Category[Request]{Name: "request", Events: []Event[Request]{
	RequestOpened{}, QuoteInvited{}, QuoteSubmitted{}, QuoteWithdrawn{},
	RequestPicked{}, RequestClosed{}, RequestExpired{},
}, SnapshotForm: 1}

// keptRequest is a request as a snapshot keeps it.
type keptRequest struct {
	Request plainRequest `json:"request"`
	Gone    []keptGone   `json:"gone"` // newest first
}

type plainRequest Request

type keptGone struct {
	ID     QuoteID  `json:"id"`
	Bidder AgentKey `json:"bidder"`
}

// MarshalJSON writes the request with the quotes that are gone.
func (r Request) MarshalJSON() ([]byte, error) {
	kept := keptRequest{Request: plainRequest(r)}
	for g := r.gone; g != nil; g = g.before {
		kept.Gone = append(kept.Gone, keptGone{g.id, g.bidder})
	}
	return json.Marshal(kept)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Request) UnmarshalJSON(data []byte) error {
	var kept keptRequest
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	*r = Request(kept.Request)
	for _, g := range slices.Backward(kept.Gone) {
		r.gone = &goneQuote{g.ID, g.Bidder, r.gone}
	}
	return nil
}

// request returns the request a command names, or a refusal if it has none on
// this board.
func request(states States, m Meta, id RequestID) (Request, error) {
	r := Requests.In(states, string(id))
	if r.Status == "" || r.Terms.Board != m.Board {
		return Request{}, Refuse(NotFound, "there is no such quote request on this board").At("/requestId")
	}
	return r, nil
}

// undecided refuses what needs a request that still waits for a pick.
func (r Request) undecided(m Meta) error {
	switch {
	case r.Status == StatusPicked:
		return RefuseAs(Conflict, "already-picked", "a quote of this request has already been picked").At("/requestId")
	case r.Status != StatusOpen:
		return r.over("this request is " + string(r.Status))
	case !m.At.Before(r.Terms.DeliveryDeadline):
		return r.over("the delivery deadline of this request has come")
	}
	return nil
}

// over refuses because the time of the request is past.
func (r Request) over(why string) error {
	e := RefuseAs(Conflict, "request-closed", "%s; list_quote_requests shows the open ones", why).At("/requestId")
	e.Next = &Step{Tool: "list_quote_requests", Args: map[string]any{}}
	return e
}

// createdBy refuses everyone but the creator.
func (r Request) createdBy(m Meta) error {
	if m.Actor != r.Terms.Creator.AgentKey {
		return Refuse(Forbidden, "only the agent that opened this request may do this").At("/requestId")
	}
	return nil
}

// quote returns the live quote with an id, or false.
func (r Request) quote(id QuoteID) (Quote, bool) {
	return r.find(func(q Quote) bool { return q.ID == id })
}

// quoteOf returns the live quote of a bidder, or false.
func (r Request) quoteOf(bidder AgentKey) (Quote, bool) {
	return r.find(func(q Quote) bool { return q.Bidder.AgentKey == bidder })
}

func (r Request) find(is func(Quote) bool) (Quote, bool) {
	i := slices.IndexFunc(r.Quotes, is)
	if i < 0 {
		return Quote{}, false
	}
	return r.Quotes[i], true
}

// formerBidder returns who made a quote that is gone, or "" if there was none.
func (r Request) formerBidder(id QuoteID) AgentKey {
	for g := r.gone; g != nil; g = g.before {
		if g.id == id {
			return g.bidder
		}
	}
	return ""
}

// lose returns the live quotes other than the picked one, as losers.
func (r Request) lose(picked QuoteID) []Loser {
	losers := []Loser{}
	for _, q := range r.Quotes {
		if q.ID != picked {
			losers = append(losers, Loser{q.Bidder.AgentKey, q.ID})
		}
	}
	return losers
}

// drop returns the request without a live quote.
func (r Request) drop(id QuoteID) Request {
	q, live := r.quote(id)
	if !live {
		return r
	}
	r.Quotes = slices.DeleteFunc(slices.Clone(r.Quotes), func(q Quote) bool { return q.ID == id })
	r.gone = &goneQuote{q.ID, q.Bidder.AgentKey, r.gone}
	return r
}
