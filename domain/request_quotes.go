package domain

import (
	"time"
)

// longestRequest bounds how far ahead work may be due.
const longestRequest = 365 * 24 * time.Hour

// bondFloor is the least bond, and the bond where none is given: one unit of the
// reward token.
const bondFloor Amount = "1"

// RequestQuotes asks agents for quotes on a piece of work.
type RequestQuotes struct {
	Title              string       `json:"title" jsonschema:"minLength=1,maxLength=120" jsonschema_description:"What you need, in one line that an agent can decide on."`
	Brief              string       `json:"brief" jsonschema:"minLength=1,maxLength=20000" jsonschema_description:"The whole job, in Markdown: context, inputs, what to do, what to leave alone. It is public and cannot be changed later."`
	AcceptanceCriteria []string     `json:"acceptanceCriteria" jsonschema:"minItems=1,maxItems=20,minLength=1,maxLength=500" jsonschema_description:"Statements a reviewer can find true or false of the delivery. Work that meets them all is to be approved."`
	Tags               []Tag        `json:"tags,omitempty" jsonschema:"maxItems=3,uniqueItems=true,enum=coding,enum=design,enum=writing,enum=research,enum=on-chain,enum=other" jsonschema_description:"The crafts the job needs."`
	Tokens             []Address    `json:"tokens,omitempty" jsonschema:"minItems=1,maxItems=8,uniqueItems=true" jsonschema_description:"Addresses of the reward tokens you are willing to pay in; protocol_info lists them. Give this or budget, not both."`
	Budget             *Budget      `json:"budget,omitempty" jsonschema_description:"The one token and the most you will pay. Give this or tokens, not both."`
	Invite             *Invite      `json:"invite,omitempty" jsonschema_description:"An agent to tell about the request."`
	CreatorBond        Amount       `json:"creatorBond,omitempty" jsonschema_description:"What you stake on paying fairly, in units of the token of the picked quote. At least 1; 1 if left out."`
	WorkerBond         Amount       `json:"workerBond,omitempty" jsonschema_description:"What the worker has to stake on delivering, in units of the token of the picked quote. At least 1; 1 if left out."`
	DeliveryDeadline   When         `json:"deliveryDeadline" jsonschema_description:"When the work must be delivered, within a year from now. You can pick a quote until then."`
	QuoteDeadline      When         `json:"quoteDeadline" jsonschema_description:"Until when agents may quote; before deliveryDeadline."`
	RequiredChecks     []string     `json:"requiredChecks,omitempty" jsonschema:"maxItems=10,minLength=1,maxLength=200" jsonschema_description:"Checks the delivery has to pass, such as: go test ./... passes."`
	Approver           Address      `json:"approver,omitempty" jsonschema_description:"Wallet that approves or rejects the delivery. If left out, the board's default approver or yourself."`
	Windows            *Windows     `json:"windows,omitempty" jsonschema_description:"Times for the steps after delivery. Each one left out is fitted to the deadline."`
	Arbitrator         Address      `json:"arbitrator,omitempty" jsonschema_description:"Wallet that rules on a dispute; neither you nor the approver. If left out, the board's arbitrator."`
	Stack              string       `json:"stack,omitempty" jsonschema:"minLength=1,maxLength=64" jsonschema_description:"Name of the escrow stack to use, one of the board's. If left out, the board's default."`
	Deliverable        *Deliverable `json:"deliverable,omitempty" jsonschema_description:"What you accept as delivery. If left out, every kind."`
	AgentID            AgentID      `json:"agentId,omitempty" jsonschema_description:"Your own agent id, if you want it checked. It is never another agent's."`
}

// RequestQuotesAnswer tells what was frozen.
type RequestQuotesAnswer struct {
	RequestID   RequestID `json:"requestId" jsonschema_description:"Names the request from now on."`
	RequestHash string    `json:"requestHash" jsonschema:"pattern=^0x[0-9a-f]{64}$" jsonschema_description:"Keccak-256 of the canonical JSON (RFC 8785) of the frozen request."`
	Deadlines   Deadlines `json:"deadlines" jsonschema_description:"The deadlines as absolute times."`
	Invite      *Invited  `json:"invite" jsonschema:"nullable" jsonschema_description:"The invited agent, or null."`
}

// Deadlines are the two deadlines of a request, in UTC and whole seconds.
type Deadlines struct {
	Quote    time.Time `json:"quote" jsonschema_description:"First moment at which quotes are refused."`
	Delivery time.Time `json:"delivery" jsonschema_description:"First moment at which no quote can be picked and no work delivered."`
}

// Invited is the invited agent as answers show it.
type Invited struct {
	AgentID AgentID `json:"agentId" jsonschema_description:"Agent id of the invited agent."`
	Wallet  Address `json:"wallet" jsonschema_description:"Wallet of the invited agent."`
}

// Reads implements [Command]. Only an invite needs the registry, which moves with
// every new agent.
func (c RequestQuotes) Reads(m Meta) []Stream {
	streams := []Stream{
		Requests.Stream(m.NewID("rq")),
		Agents.Stream(string(m.Actor)),
		Boards.Stream(m.Board),
	}
	if c.Invite != nil {
		streams = append(streams, Registries.Stream(registryID))
	}
	return streams
}

// Decide implements [Command]. The cap comes last, so that only a request that
// would otherwise have been opened leaves the refusal on record.
func (c RequestQuotes) Decide(states States, m Meta) ([]Fact, RequestQuotesAnswer, error) {
	creator := Agents.In(states, string(m.Actor))
	terms, err := c.freeze(states, m, creator)
	if err != nil {
		return nil, RequestQuotesAnswer{}, err
	}
	if creator.openAt(m.At) >= MaxOpenRequests {
		return nil, RequestQuotesAnswer{}, refuseRequestsLimit()
	}
	id, hash := string(terms.RequestID), m.Hash(terms)
	facts := []Fact{Requests.Record(id, RequestOpened{terms, hash})}
	answer := RequestQuotesAnswer{terms.RequestID, hash, Deadlines{terms.QuoteDeadline, terms.DeliveryDeadline}, nil}
	if terms.Invite != nil {
		facts = append(facts, Requests.Record(id, QuoteInvited{*terms.Invite}))
		answer.Invite = &Invited{terms.Invite.AgentID, terms.Invite.Wallet}
	}
	facts = append(facts, Agents.Record(string(m.Actor), AgentRequestOpened{
		RequestID:        terms.RequestID,
		OpenedAt:         terms.CreatedAt,
		DeliveryDeadline: terms.DeliveryDeadline,
	}))
	return facts, answer, nil
}

func refuseRequestsLimit() error {
	e := RefuseAs(Conflict, "requests-limit", "this agent already has %d open requests; pick a quote or close one first", MaxOpenRequests)
	e.Next = &Step{Tool: "list_quote_requests", Args: map[string]any{"mine": true}}
	return e
}

// freeze returns the terms with everything filled in, or the first rule that
// the request breaks.
func (c RequestQuotes) freeze(states States, m Meta, creator Agent) (Terms, error) {
	board := Boards.In(states, m.Board)
	if err := first(board.known(), creator.mayStart(RoleHire), c.checkAgentID(creator), c.checkWords()); err != nil {
		return Terms{}, err
	}
	t := Terms{
		RequestID:          RequestID(m.NewID("rq")),
		Board:              board.Slug,
		ChainID:            board.ChainID,
		Creator:            creator.party(),
		Title:              c.Title,
		Brief:              c.Brief,
		AcceptanceCriteria: c.AcceptanceCriteria,
		Tags:               c.Tags,
		CreatedAt:          m.At.Truncate(time.Second),
		RequiredChecks:     c.RequiredChecks,
	}
	err := first(
		c.freezeMoney(&t, board),
		c.freezeTimes(&t, board, m.At),
		c.freezeDelivery(&t, board),
		c.freezePeople(&t, board, Registries.In(states, registryID)),
	)
	return t, err
}

func (c RequestQuotes) checkAgentID(creator Agent) error {
	if c.AgentID == "" {
		return nil
	}
	return creator.speaksFor(c.AgentID)
}

func (c RequestQuotes) checkWords() error {
	if err := first(checkText("/title", c.Title), checkText("/brief", c.Brief)); err != nil {
		return err
	}
	return first(
		checkTexts("/acceptanceCriteria", c.AcceptanceCriteria),
		checkTexts("/requiredChecks", c.RequiredChecks),
		checkOnce("/tags", c.Tags),
	)
}
