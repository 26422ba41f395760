package domain

import (
	"slices"
	"time"
)

// freezeMoney settles what is paid in, how much at most, and the bonds.
func (c RequestQuotes) freezeMoney(t *Terms, board Board) error {
	if (c.Budget == nil) == (len(c.Tokens) == 0) {
		return Refuse(Invalid, "give either tokens or budget").At("/tokens")
	}
	if c.Budget != nil {
		return first(c.freezeBudget(t, board), c.freezeBonds(t))
	}
	for i, a := range c.Tokens {
		field := item("/tokens", i)
		token, err := board.token(field, a)
		if err != nil {
			return err
		}
		if _, twice := tokenIn(t.Tokens, a); twice {
			return Refuse(Invalid, "name each token once").At(field)
		}
		t.Tokens = append(t.Tokens, token)
	}
	return c.freezeBonds(t)
}

func (c RequestQuotes) freezeBudget(t *Terms, board Board) error {
	token, err := board.token("/budget/token", c.Budget.Token)
	if err != nil {
		return err
	}
	t.Tokens = []Token{token}
	t.Budget = &Budget{token.Address, c.Budget.Max}
	return checkAmount("/budget/max", c.Budget.Max, token)
}

func (c RequestQuotes) freezeBonds(t *Terms) error {
	t.CreatorBond, t.WorkerBond = c.CreatorBond, c.WorkerBond
	return first(
		fitBond("/creatorBond", &t.CreatorBond, t.Tokens),
		fitBond("/workerBond", &t.WorkerBond, t.Tokens),
	)
}

// fitBond fills in an omitted bond, and refuses one that is below the floor or
// that one of the tokens cannot express, since any of them may be picked.
func fitBond(field string, bond *Amount, tokens []Token) error {
	if *bond == "" {
		*bond = bondFloor
	}
	for _, t := range tokens {
		if err := checkAmount(field, *bond, t); err != nil {
			return err
		}
	}
	if bond.Cmp(bondFloor) < 0 {
		return Refuse(Invalid, "a bond is at least %s unit of the reward token", bondFloor).At(field)
	}
	return nil
}

// checkAmount refuses what is no amount above zero of a token.
func checkAmount(field string, a Amount, t Token) error {
	if _, err := a.Base(t.Decimals); err != nil {
		return Refuse(Invalid, "%s", err).At(field)
	}
	return nil
}

// freezeTimes settles the deadlines and the windows.
func (c RequestQuotes) freezeTimes(t *Terms, board Board, now time.Time) (err error) {
	if t.QuoteDeadline, err = resolve("/quoteDeadline", c.QuoteDeadline, now); err != nil {
		return err
	}
	if t.DeliveryDeadline, err = resolve("/deliveryDeadline", c.DeliveryDeadline, now); err != nil {
		return err
	}
	switch {
	case !now.Before(t.QuoteDeadline):
		return refuseOrder("/quoteDeadline", "the quote deadline must be in the future")
	case !t.QuoteDeadline.Before(t.DeliveryDeadline):
		return refuseOrder("/quoteDeadline", "the quote deadline must come before the delivery deadline")
	case t.DeliveryDeadline.Sub(now) > longestRequest:
		return refuseOrder("/deliveryDeadline", "the delivery deadline must be within a year from now")
	}
	var windows Windows
	if c.Windows != nil {
		windows = *c.Windows
	}
	t.Windows, err = windows.fit(board.WindowBounds(), t.DeliveryDeadline.Sub(t.CreatedAt))
	return err
}

func resolve(field string, w When, now time.Time) (time.Time, error) {
	at, err := w.Resolve(now)
	if err != nil {
		return time.Time{}, Refuse(Invalid, "%s", err).At(field)
	}
	return at, nil
}

func refuseOrder(field, why string) error {
	return RefuseAs(Invalid, "deadline-order", "%s", why).At(field)
}

// freezeDelivery settles what counts as delivery and which stack escrows it.
func (c RequestQuotes) freezeDelivery(t *Terms, board Board) error {
	t.Deliverable = Deliverable{Accepts: deliverableKinds()}
	if c.Deliverable != nil {
		t.Deliverable = *c.Deliverable
	}
	t.Stack = c.Stack
	if c.Stack == "" && len(board.Stacks) > 0 {
		t.Stack = board.Stacks[0]
	}
	if c.Stack != "" && !slices.Contains(board.Stacks, c.Stack) {
		return Refuse(Invalid, "this board has no such stack; its stacks are %q", board.Stacks).At("/stack")
	}
	return first(
		checkOnce("/deliverable/accepts", t.Deliverable.Accepts),
		checkNote("/deliverable/target", string(t.Deliverable.Target)),
	)
}

// freezePeople settles who approves, who arbitrates and who is invited, and keeps
// apart those who must not be one and the same.
func (c RequestQuotes) freezePeople(t *Terms, board Board, registry Registry) error {
	t.Approver = given(c.Approver, board.DefaultApprover, t.Creator.Wallet)
	t.Arbitrator = given(c.Arbitrator, board.Arbitrator)
	if err := first(checkAddress("/approver", t.Approver), checkAddress("/arbitrator", t.Arbitrator)); err != nil {
		return err
	}
	if t.Arbitrator.Is(t.Creator.Wallet) {
		return refuseInterest("the arbitrator cannot be the agent that asks; name another").At("/arbitrator")
	}
	if t.Arbitrator.Is(t.Approver) {
		return refuseInterest("the arbitrator cannot be the approver; name another").At("/arbitrator")
	}
	return c.freezeInvite(t, registry)
}

func (c RequestQuotes) freezeInvite(t *Terms, registry Registry) error {
	if c.Invite == nil {
		return nil
	}
	const field = "/invite/agentId"
	invited, known := registry.Find(c.Invite.AgentID)
	switch {
	case !known:
		return RefuseAs(Invalid, "invite-unknown", "no agent has this agent id; ask the agent for it, or leave the invite out").At(field)
	case invited.AgentKey == t.Creator.AgentKey || invited.Wallet.Is(t.Creator.Wallet):
		return refuseInterest("an agent cannot invite itself").At(field)
	case t.conflicted(invited.Wallet):
		return refuseInterest("the approver or arbitrator of a request cannot be invited to quote").At(field)
	}
	t.Invite = &invited
	return nil
}

// conflicted says whether a wallet approves or arbitrates, and so may not work.
func (t Terms) conflicted(wallet Address) bool {
	return wallet.Is(t.Approver) || wallet.Is(t.Arbitrator)
}

// given returns the first address that is not empty.
func given(addresses ...Address) Address {
	for _, a := range addresses {
		if a != "" {
			return a
		}
	}
	return ""
}
