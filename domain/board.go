package domain

import (
	"reflect"
	"regexp"
	"slices"
	"time"
)

// The networks a deployment can be on.
const (
	NetworkTest = "test"
	NetworkMain = "main"
)

// A Board is a market place with its own rules, in the stream of its slug.
//
//	(none) ──configured──▶ configured ──configured, member_admitted, member_dismissed──▶ configured
type Board struct {
	Slug            string        `json:"slug"` // 3–32 characters of [a-z0-9-]
	Name            string        `json:"name"` // 1–80 characters
	RewardTokens    []Token       `json:"rewardTokens"`
	DefaultApprover Address       `json:"defaultApprover,omitempty"` // else the creator of each request
	Arbitrator      Address       `json:"arbitrator"`                // where a request names no other
	Network         string        `json:"network"`
	ChainID         int64         `json:"chainId"`
	Stacks          []string      `json:"stacks,omitempty"` // names of escrow stacks; the first is the default
	Windows         *WindowBounds `json:"windows,omitempty"`
	Private         bool          `json:"private,omitempty"` // only agents of its members see what happens on it
	Members         []string      `json:"members,omitempty"` // operator ids, in the order they were admitted; of a private board alone
}

// longestSymbol bounds what people call a token, in characters.
const longestSymbol = 32

// A Token is money a board deals in.
type Token struct {
	Address  Address `json:"address" jsonschema_description:"Address of its contract."`
	Symbol   Foreign `json:"symbol" jsonschema:"maxLength=32" jsonschema_description:"What people call it."`
	Decimals int     `json:"decimals" jsonschema_description:"Most digits behind the point of an amount."` // 0–18
}

// WindowBounds are the shortest and longest windows a board allows.
type WindowBounds struct {
	Review      WindowRange `json:"review" jsonschema_description:"For the approver, after delivery."`
	Dispute     WindowRange `json:"dispute" jsonschema_description:"For the worker, after a rejection."`
	Arbitration WindowRange `json:"arbitration" jsonschema_description:"For the arbitrator, after a dispute."`
}

// A WindowRange bounds one window, both ends included.
type WindowRange struct {
	MinSeconds int64 `json:"minSeconds" jsonschema_description:"The shortest."`
	MaxSeconds int64 `json:"maxSeconds" jsonschema_description:"The longest."`
}

// Boards is the category of boards, by slug.
var Boards = Category[Board]{Name: "board", Events: []Event[Board]{
	BoardConfigured{}, BoardMemberAdmitted{}, BoardMemberDismissed{},
}}

// standardWindows are the bounds on the main network, and elsewhere unless a
// board sets shorter ones.
func standardWindows() WindowBounds {
	const hour, day = int64(time.Hour / time.Second), int64(24 * time.Hour / time.Second)
	return WindowBounds{
		Review:      WindowRange{hour, 14 * day},
		Dispute:     WindowRange{hour, 14 * day},
		Arbitration: WindowRange{12 * hour, 14 * day},
	}
}

// WindowBounds returns the bounds that hold on the board.
func (b Board) WindowBounds() WindowBounds {
	if b.Windows != nil {
		return *b.Windows
	}
	return standardWindows()
}

// Token returns the listed token with an address, in the board's spelling.
func (b Board) Token(a Address) (Token, bool) { return tokenIn(b.RewardTokens, a) }

func tokenIn(tokens []Token, a Address) (Token, bool) {
	i := slices.IndexFunc(tokens, func(t Token) bool { return t.Address.Is(a) })
	if i < 0 {
		return Token{}, false
	}
	return tokens[i], true
}

// token is Token with a refusal that names the argument.
func (b Board) token(field string, a Address) (Token, error) {
	t, listed := b.Token(a)
	if !listed {
		return Token{}, refuseToken("this board does not deal in that token; protocol_info lists the tokens it takes").At(field)
	}
	return t, nil
}

func refuseToken(why string) *Error {
	e := RefuseAs(Invalid, "token-refused", "%s", why)
	e.Next = &Step{Tool: "protocol_info", Args: map[string]any{}}
	return e
}

// known refuses a board that was never configured.
func (b Board) known() error {
	if b.Slug == "" {
		return Refuse(NotFound, "there is no such board")
	}
	return nil
}

// BoardConfigured replaces the whole configuration of a board, its members
// included. What is already
// frozen on it stays as it was.
type BoardConfigured struct {
	Board
}

// EventType implements [Event].
func (BoardConfigured) EventType() string { return "board.configured" }

// Apply implements [Event].
func (e BoardConfigured) Apply(Board) Board { return e.Board }

// ConfigureBoard sets up a board, or sets it up anew.
type ConfigureBoard struct {
	Board
}

// ConfigureBoardAnswer names the board.
type ConfigureBoardAnswer struct {
	BoardID string `json:"boardId"`
}

// Reads implements [Command].
func (c ConfigureBoard) Reads(Meta) []Stream {
	streams := []Stream{Boards.Stream(c.Slug)}
	for _, m := range c.Members {
		streams = append(streams, Operators.Stream(m))
	}
	return streams
}

// Decide implements [Command]. A configuration that is already so records nothing.
func (c ConfigureBoard) Decide(states States, _ Meta) ([]Fact, ConfigureBoardAnswer, error) {
	if err := first(c.checkNames(), c.checkTokens(), c.checkPeople(), c.checkWindows(), c.checkMembers(states)); err != nil {
		return nil, ConfigureBoardAnswer{}, err
	}
	answer := ConfigureBoardAnswer{c.Slug}
	if reflect.DeepEqual(c.Board, Boards.In(states, c.Slug)) {
		return nil, answer, nil
	}
	return []Fact{Boards.Record(c.Slug, BoardConfigured(c))}, answer, nil
}

var slugShape = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,30}[a-z0-9]$`)

func (c ConfigureBoard) checkNames() error {
	const longest = 80 // characters
	switch {
	case !slugShape.MatchString(c.Slug):
		return Refuse(Invalid, "a slug has 3 to 32 characters of a-z, 0-9 and inner hyphens").At("/slug")
	case len([]rune(c.Name)) > longest:
		return Refuse(Invalid, "a name has 1 to %d characters", longest).At("/name")
	case c.Network != NetworkTest && c.Network != NetworkMain:
		return Refuse(Invalid, "the network is test or main").At("/network")
	case c.ChainID < 1:
		return Refuse(Invalid, "a chain id is above zero").At("/chainId")
	case slices.Contains(c.Stacks, ""):
		return Refuse(Invalid, "a stack has a name").At("/stacks")
	}
	return checkText("/name", c.Name)
}

func (c ConfigureBoard) checkTokens() error {
	if len(c.RewardTokens) == 0 {
		return Refuse(Invalid, "list one reward token or more").At("/rewardTokens")
	}
	for i, t := range c.RewardTokens {
		_, twice := tokenIn(c.RewardTokens[:i], t.Address)
		switch {
		case !t.Address.usable() || twice:
			return Refuse(Invalid, "give each reward token once, by an address that is not zero").At("/rewardTokens")
		case t.Symbol == "" || len([]rune(t.Symbol)) > longestSymbol:
			return Refuse(Invalid, "a reward token has a symbol of 1 to %d characters", longestSymbol).At("/rewardTokens")
		case t.Decimals < 0 || t.Decimals > 18:
			return Refuse(Invalid, "a reward token has 0 to 18 decimals").At("/rewardTokens")
		}
	}
	return nil
}

func (c ConfigureBoard) checkPeople() error {
	if err := checkAddress("/arbitrator", c.Arbitrator); err != nil {
		return err
	}
	if c.DefaultApprover == "" {
		return nil
	}
	if c.DefaultApprover.Is(c.Arbitrator) {
		return refuseInterest("the arbitrator cannot also approve work").At("/defaultApprover")
	}
	return checkAddress("/defaultApprover", c.DefaultApprover)
}

func (c ConfigureBoard) checkWindows() error {
	if c.Windows == nil {
		return nil
	}
	if c.Network == NetworkMain {
		return Refuse(Invalid, "on the main network every board has the standard windows").At("/windows")
	}
	for _, r := range []WindowRange{c.Windows.Review, c.Windows.Dispute, c.Windows.Arbitration} {
		if r.MinSeconds < 1 || r.MinSeconds > r.MaxSeconds {
			return Refuse(Invalid, "a window is at least a second, and its shortest is no longer than its longest").At("/windows")
		}
	}
	return nil
}

// refuseInterest refuses one agent in two parts that must be kept apart.
func refuseInterest(why string) *Error {
	return RefuseAs(Invalid, "conflict-of-interest", "%s", why)
}
