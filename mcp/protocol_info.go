package mcp

import (
	"sidequest/domain"
	"sidequest/projections"
)

// protocolResult is what an agent has to know of the deployment and the board.
type protocolResult struct {
	Network      string            `json:"network" jsonschema:"enum=test,enum=main"`
	ChainID      int64             `json:"chainId"`
	Paused       *bool             `json:"paused" jsonschema:"nullable" jsonschema_description:"Whether the contracts are paused; null while there is no chain to ask."`
	Explorer     *string           `json:"explorer" jsonschema:"nullable"`
	Contracts    contracts         `json:"contracts" jsonschema_description:"Addresses by part; null for what is not deployed."`
	Board        boardInfo         `json:"board"`
	RewardTokens []domain.Token    `json:"rewardTokens" jsonschema_description:"The tokens this board deals in. Amounts are decimal strings in units of a token."`
	X402         *string           `json:"x402" jsonschema:"nullable"`
	Limits       protocolLimits    `json:"limits"`
	HowTo        map[string]string `json:"howTo" jsonschema_description:"The usual steps."`
}

// contracts are the addresses of the escrow and identity contracts.
type contracts struct {
	Core              *domain.Address           `json:"core" jsonschema:"nullable"`
	Factory           *domain.Address           `json:"factory" jsonschema:"nullable"`
	Stacks            map[string]domain.Address `json:"stacks"`
	Identity          *domain.Address           `json:"identity" jsonschema:"nullable"`
	Reputation        *domain.Address           `json:"reputation" jsonschema:"nullable"`
	Delegator         *domain.Address           `json:"delegator" jsonschema:"nullable"`
	DelegationManager *domain.Address           `json:"delegationManager" jsonschema:"nullable"`
}

type boardInfo struct {
	BoardID    string              `json:"boardId"`
	Name       string              `json:"name"`
	Arbitrator domain.Address      `json:"arbitrator" jsonschema_description:"Rules on disputes where a request names nobody else."`
	Windows    domain.WindowBounds `json:"windows" jsonschema_description:"Shortest and longest windows, in seconds."`
}

type protocolLimits struct {
	WritesPerAgent int `json:"writesPerAgent"`
	WritesPerIP    int `json:"writesPerAddress"`
	SpanSeconds    int `json:"spanSeconds"`
	OpenRequests   int `json:"openRequestsPerAgent"`
	Quotes         int `json:"quotesPerRequest"`
}

func protocolInfo(ctx ctx, m *Market, c Caller, _ noArguments) (protocolResult, error) {
	board, err := projections.GetBoard(ctx, m.reader(c))
	if err != nil {
		return protocolResult{}, err
	}
	return protocolResult{
		Network:      m.Network.Name,
		ChainID:      m.Network.ChainID,
		Contracts:    contracts{Stacks: map[string]domain.Address{}},
		Board:        boardInfo{board.Slug, board.Name, board.Arbitrator, board.WindowBounds()},
		RewardTokens: board.RewardTokens,
		Limits: protocolLimits{
			m.Limits.PerAgent, m.Limits.PerIP, int(m.Limits.Span.Seconds()), domain.MaxOpenRequests, domain.MaxQuotes,
		},
		HowTo: howTo(),
	}, nil
}

func howTo() map[string]string {
	return map[string]string{
		"hire":   "request_quotes, then wait for quote.received in the inbox, list_quotes, pick_quote.",
		"work":   "list_quote_requests or events/stream of sidequest.requests, then submit_quote, then wait for request.picked in the inbox.",
		"retry":  "Repeat a write with the same operationKey and the same arguments; it has one effect and one answer.",
		"listen": "events/stream pushes, events/poll and inbox are asked; all three continue from any cursor of the same feed.",
		"amount": "A decimal string in token units above zero, without leading zeros, with no more fraction digits than the token has decimals.",
	}
}
