package domain

import "slices"

// mostMembers bounds the members of a board.
const mostMembers = 1000

// Admits says whether an operator may connect agents to the board and let them act
// there. A public board admits everyone.
func (b Board) Admits(operator string) bool {
	return !b.Private || slices.Contains(b.Members, operator)
}

// BoardMemberAdmitted records that an operator became a member of a private board.
type BoardMemberAdmitted struct {
	Operator string `json:"operator"`
}

// EventType implements [Event].
func (BoardMemberAdmitted) EventType() string { return "board.member_admitted" }

// Apply implements [Event].
func (e BoardMemberAdmitted) Apply(b Board) Board {
	b.Members = append(slices.Clip(b.Members), e.Operator)
	return b
}

// BoardMemberDismissed records that an operator is a member no more. Connections to
// the board stay as they are and allow nothing until the operator is admitted again.
type BoardMemberDismissed struct {
	Operator string `json:"operator"`
}

// EventType implements [Event].
func (BoardMemberDismissed) EventType() string { return "board.member_dismissed" }

// Apply implements [Event].
func (e BoardMemberDismissed) Apply(b Board) Board {
	b.Members = slices.DeleteFunc(slices.Clone(b.Members), func(m string) bool { return m == e.Operator })
	return b
}

// AdmitMember makes an operator a member of a private board.
type AdmitMember struct {
	Slug     string
	Operator string
}

// MemberAnswer names the board and the operator.
type MemberAnswer struct {
	BoardID  string `json:"boardId"`
	Operator string `json:"operator"`
}

// Reads implements [Command].
func (c AdmitMember) Reads(Meta) []Stream {
	return []Stream{Boards.Stream(c.Slug), Operators.Stream(c.Operator)}
}

// Decide implements [Command]. Who is a member already is admitted without an event.
func (c AdmitMember) Decide(states States, _ Meta) ([]Fact, MemberAnswer, error) {
	b := Boards.In(states, c.Slug)
	if err := first(b.closed(), knownOperator(states, "/operator", c.Operator)); err != nil {
		return nil, MemberAnswer{}, err
	}
	answer := MemberAnswer{c.Slug, c.Operator}
	switch {
	case b.Admits(c.Operator):
		return nil, answer, nil
	case len(b.Members) >= mostMembers:
		return nil, MemberAnswer{}, Refuse(Conflict, "a board has at most %d members; dismiss one first", mostMembers)
	}
	return []Fact{Boards.Record(c.Slug, BoardMemberAdmitted{c.Operator})}, answer, nil
}

// DismissMember ends the membership of an operator in a private board.
type DismissMember struct {
	Slug     string
	Operator string
}

// Reads implements [Command].
func (c DismissMember) Reads(Meta) []Stream { return []Stream{Boards.Stream(c.Slug)} }

// Decide implements [Command]. Who is no member cannot be dismissed: the name of
// someone else, or a mistyped one, would look like a success.
func (c DismissMember) Decide(states States, _ Meta) ([]Fact, MemberAnswer, error) {
	b := Boards.In(states, c.Slug)
	if err := b.closed(); err != nil {
		return nil, MemberAnswer{}, err
	}
	if !b.Admits(c.Operator) {
		return nil, MemberAnswer{}, Refuse(NotFound, "this operator is no member of the board").At("/operator")
	}
	return []Fact{Boards.Record(c.Slug, BoardMemberDismissed{c.Operator})}, MemberAnswer{c.Slug, c.Operator}, nil
}

// closed refuses a board that has no members because everyone may connect to it.
func (b Board) closed() error {
	if err := b.known(); err != nil {
		return err
	}
	if !b.Private {
		return RefuseAs(Conflict, "board-public", "this board is public: every operator may connect to it, and only a private board has members")
	}
	return nil
}

// knownOperator refuses an operator who never signed in here. The developer, in
// whose name development tokens are given, need not.
func knownOperator(states States, field, id string) error {
	if id == string(Developer) || Operators.In(states, id).ID != "" && !Operators.In(states, id).Erased {
		return nil
	}
	return Refuse(NotFound, "there is no operator %q; an operator has an id once signed in", id).At(field)
}

// checkMembers checks those that a configuration names.
func (c ConfigureBoard) checkMembers(states States) error {
	switch {
	case len(c.Members) > 0 && !c.Private:
		return Refuse(Invalid, "only a private board has members").At("/members")
	case len(c.Members) > mostMembers:
		return Refuse(Invalid, "a board has at most %d members", mostMembers).At("/members")
	}
	for _, m := range c.Members {
		if err := knownOperator(states, "/members", m); err != nil {
			return err
		}
	}
	return checkOnce("/members", c.Members)
}
