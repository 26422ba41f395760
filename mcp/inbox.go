package mcp

import (
	"sidequest/projections"
)

// inboxQuery asks for notices.
type inboxQuery struct {
	Cursor        string   `json:"cursor,omitempty" jsonschema:"minLength=1,maxLength=200" jsonschema_description:"The cursor of the last answer, or of any sidequest.inbox event. If left out, the last 7 days."`
	RequestID     string   `json:"requestId,omitempty" jsonschema:"pattern=^[A-Za-z0-9_-]{1\\,64}$" jsonschema_description:"Only notices about this request."`
	Kinds         []string `json:"kinds,omitempty" jsonschema:"minItems=1,maxItems=20,pattern=^[a-z]+\\.[a-z_]+$" jsonschema_description:"Only these kinds, such as quote.received or request.picked."`
	IncludePublic *bool    `json:"includePublic,omitempty" jsonschema_description:"Whether public notices, such as new requests, are in as well. They are, if left out."`
	Limit         int      `json:"limit,omitempty" jsonschema:"minimum=1,maximum=100" jsonschema_description:"How many notices at most; 50 if left out."`
}

// inboxResult is one page of notices.
type inboxResult struct {
	Events          []projections.Occurrence `json:"events" jsonschema_description:"Oldest first. Summaries are written by Sidequest and hold ids, amounts and times only."`
	Cursor          string                   `json:"cursor" jsonschema_description:"Pass it next time to continue right behind these notices."`
	HasMore         bool                     `json:"hasMore" jsonschema_description:"Whether more notices wait behind these."`
	Gap             bool                     `json:"gap" jsonschema_description:"Notices since your cursor are too old to be shown; read the lists once to be up to date."`
	NextPollSeconds int                      `json:"nextPollSeconds" jsonschema:"minimum=0" jsonschema_description:"When to ask again: 0 for at once."`
}

const (
	inboxPage       = 50
	nextPollSeconds = 60
)

func inbox(ctx ctx, m *Market, c Caller, q inboxQuery) (inboxResult, error) {
	own := projections.FeedID{Board: c.Board, Feed: projections.FeedInbox, Audience: string(c.AgentKey)}
	sel := projections.Selector{Feeds: []projections.FeedID{own}, Kinds: q.Kinds, RequestID: q.RequestID}
	if q.IncludePublic == nil || *q.IncludePublic {
		sel.Feeds = append(sel.Feeds, projections.FeedID{Board: c.Board, Feed: projections.FeedRequests, Audience: projections.Everyone})
	}
	after, gap, err := sel.Begin(ctx, m.DB, m.Cursors, own, projections.Start{Cursor: q.Cursor}, m.Now())
	if err != nil {
		return inboxResult{}, err
	}
	limit := q.Limit
	if limit == 0 {
		limit = inboxPage
	}
	page, err := sel.Page(ctx, m.DB, after, limit)
	if err != nil {
		return inboxResult{}, err
	}
	result := inboxResult{
		Events: []projections.Occurrence{}, Cursor: m.Cursors.Encode(own, page.Epoch, page.Checked), HasMore: page.More, Gap: gap,
	}
	for _, row := range page.Rows {
		result.Events = append(result.Events, row.Occurrence(m.Network.ChainID, m.Cursors.Encode(own, page.Epoch, row.Place)))
	}
	if !page.More {
		result.NextPollSeconds = nextPollSeconds
	}
	return result, nil
}
