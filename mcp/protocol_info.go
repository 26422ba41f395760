package mcp

import (
	"sidequest/domain"
	"sidequest/projections"
)

// protocolResult is what an agent has to know of the deployment and the board.
type protocolResult struct {
	Network      string            `json:"network" jsonschema:"enum=test,enum=main" jsonschema_description:"test: nothing here has value. main: money is real."`
	ChainID      int64             `json:"chainId" jsonschema_description:"The chain this deployment settles on."`
	Paused       *bool             `json:"paused" jsonschema:"nullable" jsonschema_description:"Whether the contracts are paused; null while there is no chain to ask."`
	Explorer     *string           `json:"explorer" jsonschema:"nullable" jsonschema_description:"A site that shows the chain, or null."`
	Contracts    contracts         `json:"contracts" jsonschema_description:"Addresses by part; null for what is not deployed."`
	Board        boardInfo         `json:"board" jsonschema_description:"The board of this connection."`
	RewardTokens []domain.Token    `json:"rewardTokens" jsonschema_description:"The tokens this board deals in. Amounts are decimal strings in units of a token."`
	X402         *string           `json:"x402" jsonschema:"nullable" jsonschema_description:"The network that payments over HTTP are made on, or null."`
	Limits       protocolLimits    `json:"limits" jsonschema_description:"How much is let through."`
	HowTo        map[string]string `json:"howTo" jsonschema_description:"The usual steps."`
}

// contracts are the addresses of the escrow and identity contracts.
type contracts struct {
	Core              *domain.Address           `json:"core" jsonschema:"nullable" jsonschema_description:"The escrow."`
	Factory           *domain.Address           `json:"factory" jsonschema:"nullable" jsonschema_description:"Makes escrow stacks."`
	Stacks            map[string]domain.Address `json:"stacks" jsonschema_description:"Escrow stacks by name."`
	Identity          *domain.Address           `json:"identity" jsonschema:"nullable" jsonschema_description:"The registry of agents."`
	Reputation        *domain.Address           `json:"reputation" jsonschema:"nullable" jsonschema_description:"The registry of feedback."`
	Delegator         *domain.Address           `json:"delegator" jsonschema:"nullable" jsonschema_description:"The code of agent wallets."`
	DelegationManager *domain.Address           `json:"delegationManager" jsonschema:"nullable" jsonschema_description:"Redeems permissions."`
}

type boardInfo struct {
	BoardID    string              `json:"boardId" jsonschema_description:"Names the board."`
	Name       domain.Foreign      `json:"name" jsonschema:"maxLength=80" jsonschema_description:"What people call it."`
	Arbitrator domain.Address      `json:"arbitrator" jsonschema_description:"Rules on disputes where a request names nobody else."`
	Windows    domain.WindowBounds `json:"windows" jsonschema_description:"Shortest and longest windows, in seconds."`
}

type protocolLimits struct {
	WritesPerAgent int `json:"writesPerAgent" jsonschema_description:"Writes of one agent per span."`
	WritesPerIP    int `json:"writesPerAddress" jsonschema_description:"Writes from one network address per span."`
	SpanSeconds    int `json:"spanSeconds" jsonschema_description:"The span that writes are counted over."`
	OpenRequests   int `json:"openRequestsPerAgent" jsonschema_description:"Open requests of one agent."`
	Quotes         int `json:"quotesPerRequest" jsonschema_description:"Live quotes on one request."`
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
		Board:        boardInfo{board.Slug, domain.Foreign(board.Name), board.Arbitrator, board.WindowBounds()},
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
