package delivery

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sidequest/domain"
	"sidequest/mcp"
	"sidequest/projections"
)

// parameters are what poll and stream have in common, unread: a cursor that is
// null says something else than none.
type parameters struct {
	Name      jsontext.Value `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
	Cursor    jsontext.Value `json:"cursor"`
	MaxAgeMS  jsontext.Value `json:"maxAgeMs"`
}

// A subscription is what a caller wants to hear, and from where.
type subscription struct {
	selector projections.Selector
	start    projections.Start
}

// feed is the one feed that the subscription reads and its cursors belong to.
func (s subscription) feed() projections.FeedID { return s.selector.Feeds[0] }

// subscription reads what a request asks for, or refuses it.
func (f *Feeds) subscription(c mcp.Caller, p parameters) (subscription, error) {
	name, ok := text(p.Name)
	if !ok {
		return subscription{}, mcp.InvalidParams("params.name is required and must be a string.")
	}
	d, known := describe(name)
	if !known {
		return subscription{}, f.Codes.unknownEvent()
	}
	if c.AgentKey == "" {
		return subscription{}, domain.Refuse(domain.Forbidden, "this connection has no agent yet, so there is nothing to hear")
	}
	s := subscription{selector: projections.Selector{Feeds: []projections.FeedID{d.feedFor(c)}}}
	if err := d.choose(&s.selector, p.Arguments); err != nil {
		return subscription{}, err
	}
	var err error
	s.start, err = startOf(p)
	return s, err
}

// startOf reads where to begin. Whether the cursor is one of the feed comes out
// when it is used.
func startOf(p parameters) (projections.Start, error) {
	maxAge, err := number("maxAgeMs", p.MaxAgeMS, 0, int(projections.Retention.Milliseconds()), -1)
	if err != nil {
		return projections.Start{}, err
	}
	start := projections.Start{Null: p.Cursor.Kind() == 'n'}
	switch maxAge {
	case -1: // not bounded
	case 0:
		start.MaxAge = time.Nanosecond // zero would mean no bound
	default:
		start.MaxAge = time.Duration(maxAge) * time.Millisecond
	}
	if !given(p.Cursor) {
		return start, nil
	}
	cursor, ok := text(p.Cursor)
	if !ok || cursor == "" {
		return projections.Start{}, mcp.InvalidParams("params.cursor must be a cursor as it was returned, or null.")
	}
	start.Cursor = cursor
	return start, nil
}

// number reads an optional whole number of at least least. A larger one than most
// counts as most; one that is not given as none.
func number(name string, v jsontext.Value, least, most, none int) (int, error) {
	if !given(v) {
		return none, nil
	}
	n, err := strconv.ParseUint(string(v), 10, 53)
	if err != nil || n < uint64(least) {
		return 0, mcp.InvalidParams("params.%s must be a whole number of at least %d.", name, least)
	}
	return int(min(n, uint64(most))), nil
}

func text(v jsontext.Value) (s string, ok bool) {
	return s, v.Kind() == '"' && json.Unmarshal(v, &s) == nil
}
