package domain

// An Operator is a person who connects agents and answers for them, in the stream
// of its id.
//
//	(none) ──registered──▶ registered ──registered──▶ registered ──erased──▶ erased
type Operator struct {
	ID     string
	Name   Personal
	Email  Personal
	Erased bool
}

// Operators is the category of operators, by operator id.
var Operators = Category[Operator]{Name: "operator", Events: []Event[Operator]{OperatorRegistered{}, OperatorErased{}}}

// OperatorRegistered records who an operator says to be, as of now.
type OperatorRegistered struct {
	Name  Personal `json:"name"`
	Email Personal `json:"email"`
}

// EventType implements [Event].
func (OperatorRegistered) EventType() string { return "operator.registered" }

// Apply implements [Event].
func (e OperatorRegistered) Apply(o Operator) Operator {
	o.ID, o.Name, o.Email = e.Name.Subject, e.Name, e.Email
	return o
}

// MapPersonal implements [PersonalEvent].
func (e OperatorRegistered) MapPersonal(change func(Personal) (Personal, error)) (Typed, error) {
	var err1, err2 error
	e.Name, err1 = change(e.Name)
	e.Email, err2 = change(e.Email)
	return e, first(err1, err2)
}

// OperatorErased records that a person asked to be forgotten.
type OperatorErased struct {
	OperatorID string `json:"operatorId"`
}

// ErasesSubject implements [ErasingEvent].
func (e OperatorErased) ErasesSubject() string { return e.OperatorID }

// EventType implements [Event].
func (OperatorErased) EventType() string { return "operator.erased" }

// Apply implements [Event].
func (OperatorErased) Apply(o Operator) Operator {
	return Operator{ID: o.ID, Erased: true}
}

// RegisterOperator records an operator, or what changed about one.
type RegisterOperator struct {
	OperatorID string
	Name       string // 1–80 characters
	Email      string
}

// RegisterOperatorAnswer names the operator.
type RegisterOperatorAnswer struct {
	OperatorID string `json:"operatorId"`
}

// Reads implements [Command].
func (c RegisterOperator) Reads(Meta) []Stream { return []Stream{Operators.Stream(c.OperatorID)} }

// Decide implements [Command]. What is already so records nothing.
func (c RegisterOperator) Decide(states States, _ Meta) ([]Fact, RegisterOperatorAnswer, error) {
	o := Operators.In(states, c.OperatorID)
	if err := first(checkText("/name", c.Name), checkNote("/email", c.Email)); err != nil {
		return nil, RegisterOperatorAnswer{}, err
	}
	if o.Erased {
		return nil, RegisterOperatorAnswer{}, RefuseAs(Conflict, "operator-erased", "this operator was erased; register under another id")
	}
	answer := RegisterOperatorAnswer{c.OperatorID}
	if o.Name.Text == c.Name && o.Email.Text == c.Email {
		return nil, answer, nil
	}
	return []Fact{Operators.Record(c.OperatorID, OperatorRegistered{
		Name:  Personal{Subject: c.OperatorID, Text: c.Name},
		Email: Personal{Subject: c.OperatorID, Text: c.Email},
	})}, answer, nil
}

// EraseOperator forgets an operator's name and e-mail address for ever.
type EraseOperator struct {
	OperatorID string
}

// Reads implements [Command].
func (c EraseOperator) Reads(Meta) []Stream { return []Stream{Operators.Stream(c.OperatorID)} }

// Decide implements [Command]. An operator that is erased already records nothing.
func (c EraseOperator) Decide(states States, _ Meta) ([]Fact, RegisterOperatorAnswer, error) {
	o := Operators.In(states, c.OperatorID)
	answer := RegisterOperatorAnswer(c)
	switch {
	case o.Erased:
		return nil, answer, nil
	case o.ID == "":
		return nil, RegisterOperatorAnswer{}, Refuse(NotFound, "there is no such operator").At("/operatorId")
	}
	return []Fact{Operators.Record(c.OperatorID, OperatorErased(c))}, answer, nil
}
