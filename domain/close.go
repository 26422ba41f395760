package domain

// CloseRequest ends a request without a hire.
type CloseRequest struct {
	RequestID RequestID `json:"requestId" jsonschema_description:"Your request that needs no more quotes."`
}

// CloseRequestAnswer tells how the request stands.
type CloseRequestAnswer struct {
	RequestID RequestID     `json:"requestId" jsonschema_description:"The request."`
	Status    RequestStatus `json:"status" jsonschema:"enum=closed" jsonschema_description:"closed: it takes no more quotes and none can be picked."`
}

// Reads implements [Command].
func (c CloseRequest) Reads(m Meta) []Stream {
	return []Stream{Requests.Stream(string(c.RequestID)), Agents.Stream(string(m.Actor))}
}

// Decide implements [Command]. Closing finishes something, so it needs no role.
func (c CloseRequest) Decide(states States, m Meta) ([]Fact, CloseRequestAnswer, error) {
	r, err := request(states, m, c.RequestID)
	if err != nil {
		return nil, CloseRequestAnswer{}, err
	}
	if err := first(r.createdBy(m), r.undecided(m)); err != nil {
		return nil, CloseRequestAnswer{}, err
	}
	return []Fact{
		Requests.Record(string(c.RequestID), RequestClosed{r.lose("")}),
		Agents.Record(string(m.Actor), AgentRequestSettled(c)),
	}, CloseRequestAnswer{c.RequestID, StatusClosed}, nil
}

// ExpireRequest records that the delivery deadline of an open request has come.
// The agent's stream needs no fact: past the deadline the request no longer counts.
type ExpireRequest struct {
	RequestID RequestID
}

// ExpireRequestAnswer tells how the request stands.
type ExpireRequestAnswer struct {
	RequestID RequestID     `json:"requestId"`
	Status    RequestStatus `json:"status"`
}

// Reads implements [Command].
func (c ExpireRequest) Reads(Meta) []Stream {
	return []Stream{Requests.Stream(string(c.RequestID))}
}

// Decide implements [Command]. A request that has already ended stays as it is
// and records nothing, so that a late clock needs no care.
func (c ExpireRequest) Decide(states States, m Meta) ([]Fact, ExpireRequestAnswer, error) {
	if m.Actor != System {
		return nil, ExpireRequestAnswer{}, Refuse(Forbidden, "only the market itself lets requests expire")
	}
	r, err := request(states, m, c.RequestID)
	switch {
	case err != nil:
		return nil, ExpireRequestAnswer{}, err
	case r.Status != StatusOpen:
		return nil, ExpireRequestAnswer{c.RequestID, r.Status}, nil
	case m.At.Before(r.Terms.DeliveryDeadline):
		return nil, ExpireRequestAnswer{}, Refuse(Invalid, "the delivery deadline of this request has not come yet").At("/requestId")
	}
	return []Fact{Requests.Record(string(c.RequestID), RequestExpired{r.lose("")})}, ExpireRequestAnswer{c.RequestID, StatusExpired}, nil
}
