package mcp

import (
	"sidequest/domain"
	"sidequest/projections"
)

// boardItem is a board as everyone may see it.
type boardItem struct {
	BoardID         string              `json:"boardId" jsonschema_description:"Its slug."`
	Name            domain.Foreign      `json:"name" jsonschema:"maxLength=80" jsonschema_description:"Its name, by whoever runs it."`
	Public          bool                `json:"public" jsonschema_description:"Whether every operator may connect to it; else its members alone."`
	Resource        string              `json:"resource" jsonschema_description:"Its MCP endpoint, for which a connection of its own is needed."`
	Network         string              `json:"network" jsonschema:"enum=test,enum=main" jsonschema_description:"main: real money."`
	ChainID         int64               `json:"chainId" jsonschema_description:"The chain it settles on."`
	RewardTokens    []domain.Token      `json:"rewardTokens" jsonschema_description:"What it deals in."`
	DefaultApprover *domain.Address     `json:"defaultApprover" jsonschema:"nullable" jsonschema_description:"Who approves work where a request names nobody; null for its creator."`
	Arbitrator      domain.Address      `json:"arbitrator" jsonschema_description:"Who rules on disputes where a request names nobody."`
	Stacks          []string            `json:"stacks" jsonschema_description:"Names of escrow stacks; the first is the default."`
	Windows         domain.WindowBounds `json:"windows" jsonschema_description:"Bounds of the windows after delivery."`
}

func (m *Market) boardItem(b domain.Board) boardItem {
	item := boardItem{
		BoardID: b.Slug, Name: domain.Foreign(b.Name), Public: !b.Private, Resource: BoardResource(m.Origin, b.Slug), Network: b.Network,
		ChainID: b.ChainID, RewardTokens: b.RewardTokens, Arbitrator: b.Arbitrator, Stacks: b.Stacks, Windows: b.WindowBounds(),
	}
	if b.DefaultApprover != "" {
		item.DefaultApprover = &b.DefaultApprover
	}
	if item.Stacks == nil {
		item.Stacks = []string{}
	}
	return item
}

// MainBoard is the slug of the board at /mcp.
const MainBoard = "main"

// BoardPath returns the path of a board's endpoints: they are below it.
func BoardPath(slug string) string {
	if slug == MainBoard {
		return ""
	}
	return "/b/" + slug
}

// BoardResource returns the URL of a board's MCP endpoint, the one audience of its
// tokens.
func BoardResource(origin, slug string) string { return origin + BoardPath(slug) + "/mcp" }

// boardList is every board a caller may see.
type boardList struct {
	Boards []boardItem `json:"boards" jsonschema_description:"By slug."`
}

// listBoards shows the public boards, and the caller's own if it is private.
func listBoards(ctx ctx, m *Market, c Caller, _ noArguments) (boardList, error) {
	boards, err := projections.ListBoards(ctx, m.DB)
	if err != nil {
		return boardList{}, err
	}
	list := boardList{Boards: []boardItem{}}
	for _, b := range boards {
		if !b.Private || b.Slug == c.Board {
			list.Boards = append(list.Boards, m.boardItem(b))
		}
	}
	return list, nil
}

// boardQuery names a board.
type boardQuery struct {
	BoardID string `json:"boardId,omitempty" jsonschema:"pattern=^[a-z0-9-]{3\\,32}$" jsonschema_description:"Its slug; the board of this connection if left out."`
}

func getBoard(ctx ctx, m *Market, c Caller, q boardQuery) (boardItem, error) {
	if q.BoardID == "" {
		q.BoardID = c.Board
	}
	b, found, err := projections.BoardBySlug(ctx, m.DB, q.BoardID)
	if err != nil {
		return boardItem{}, err
	}
	if !found || b.Private && b.Slug != c.Board {
		return boardItem{}, domain.Refuse(domain.NotFound, "there is no such board").At("/boardId")
	}
	return m.boardItem(b), nil
}
