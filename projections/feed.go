package projections

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/domain"
	"sidequest/eventstore"
)

// Feed is the view that poll, push and webhooks read: one row a notice, in log
// order. Places and ids depend on the log alone, so a client's cursor and what it
// has seen stay good when the view is built anew. It follows the other views, so
// nobody hears of what they cannot yet read.
var Feed = Projection{
	Name:    "feed",
	Version: 3,
	Tables: `
		CREATE TABLE feed_item (
			board       text COLLATE "C" NOT NULL,
			feed        text COLLATE "C" NOT NULL,
			audience    text COLLATE "C" NOT NULL, -- an agent key, or * for everyone
			pos         bigint NOT NULL,
			ord         int NOT NULL, -- among the notices of one event
			row_id      text COLLATE "C" NOT NULL,
			kind        text NOT NULL,
			request_id  text NOT NULL, -- '' for none, as task_id
			task_id     text NOT NULL,
			occurred_at timestamptz NOT NULL,
			data        bytea NOT NULL, -- JSON, less what depends on the deployment
			PRIMARY KEY (board, feed, audience, pos, ord)
		);
		CREATE INDEX feed_item_place ON feed_item (pos, ord);
		CREATE INDEX feed_item_time ON feed_item (board, feed, audience, occurred_at, pos, ord);`,
	Apply: applyFeed,
	After: []*Projection{&Boards, &Agents, &Approvals, &Requests, &Hires, &Operations},
}

// The feeds. Each is an event that a client can subscribe to.
const (
	FeedInbox     = "sidequest.inbox"
	FeedJobs      = "sidequest.jobs"
	FeedApprovals = "sidequest.approvals"
	FeedRequests  = "sidequest.requests"
)

// Everyone is the audience of public rows.
const Everyone = "*"

// A FeedID names one ordered list of rows: a feed of a board for an audience.
type FeedID struct {
	Board    string
	Feed     string
	Audience string
}

// bind is what cursors of the feed are bound to.
func (f FeedID) bind() string {
	return fmt.Sprintf("feed %q %q %q", f.Board, f.Feed, f.Audience)
}

// A FeedRow is one notice.
type FeedRow struct {
	FeedID
	Place
	RowID      string
	Kind       string
	RequestID  string
	TaskID     string
	OccurredAt time.Time
	Data       []byte
}

// Occurrence returns the notice as every transport sends it. The cursor is the
// place right behind it.
func (r FeedRow) Occurrence(chainID int64, cursor string) Occurrence {
	prefix := fmt.Appendf(nil, `{"chainId":%d,"cursor":%s,`, chainID, strconv.Quote(cursor))
	return Occurrence{
		EventID:   r.Feed + ":" + r.RowID,
		Name:      r.Feed,
		Timestamp: r.OccurredAt.UTC().Format("2006-01-02T15:04:05.000Z"),
		Data:      append(prefix, r.Data[1:]...),
		Cursor:    cursor,
	}
}

// An Occurrence is one notice on the wire.
type Occurrence struct {
	EventID   string          `json:"eventId" jsonschema_description:"Names the notice; the same in every way of delivery."`
	Name      string          `json:"name" jsonschema_description:"The feed it is in."`
	Timestamp string          `json:"timestamp" jsonschema_description:"When it happened, in UTC."`
	Data      json.RawMessage `json:"data" jsonschema_description:"What happened: kind, requestId and taskId if there are, public, your role, a summary, and next, the call that helps next."`
	Cursor    string          `json:"cursor" jsonschema_description:"The place right behind this notice."`
}

const selectFeed = `
	SELECT board, feed, audience, pos, ord, row_id, kind, request_id, task_id, occurred_at, data
	FROM feed_item`

func collectFeed(rows pgx.Rows, err error) ([]FeedRow, error) {
	if err != nil {
		return nil, fmt.Errorf("read the feed: %w", err)
	}
	items, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (FeedRow, error) {
		var r FeedRow
		err := row.Scan(&r.Board, &r.Feed, &r.Audience, &r.Pos, &r.Ord, &r.RowID, &r.Kind,
			&r.RequestID, &r.TaskID, &r.OccurredAt, &r.Data)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the feed: %w", err)
	}
	return items, nil
}

// FeedAfter returns up to limit rows of the feeds behind a place, merged in order.
// Where a notice is public and also addressed to one of the audiences, only the
// addressed row is in.
func FeedAfter(ctx context.Context, db *pgxpool.Pool, feeds []FeedID, after Place, limit int) ([]FeedRow, error) {
	var boards, names, audiences []string
	for _, f := range feeds {
		boards, names, audiences = append(boards, f.Board), append(names, f.Feed), append(audiences, f.Audience)
	}
	return collectFeed(db.Query(ctx, `
		SELECT i.board, i.feed, i.audience, i.pos, i.ord, i.row_id, i.kind, i.request_id, i.task_id, i.occurred_at, i.data
		FROM unnest($1::text[], $2::text[], $3::text[]) AS f(board, feed, audience)
		CROSS JOIN LATERAL (
			SELECT board, feed, audience, pos, ord, row_id, kind, request_id, task_id, occurred_at, data
			FROM feed_item
			WHERE (board, feed, audience) = (f.board, f.feed, f.audience) AND (pos, ord) > ($4, $5)
			ORDER BY pos, ord
			LIMIT $6 * 2) AS i
		WHERE i.audience <> '*' OR NOT EXISTS (
			SELECT
			FROM feed_item AS own
			JOIN unnest($1::text[], $2::text[], $3::text[]) AS o(board, feed, audience)
			  ON (own.board, own.feed, own.audience) = (o.board, o.feed, o.audience)
			WHERE own.pos = i.pos AND own.kind = i.kind AND own.audience <> '*')
		ORDER BY i.pos, i.ord
		LIMIT $6`, boards, names, audiences, after.Pos, after.Ord, limit))
}

// FeedTail returns up to limit rows of all feeds behind a place, for the one
// reader per process that all streams share.
func FeedTail(ctx context.Context, db *pgxpool.Pool, after Place, limit int) ([]FeedRow, error) {
	return collectFeed(db.Query(ctx, selectFeed+`
		WHERE (pos, ord) > ($1, $2)
		ORDER BY pos, ord
		LIMIT $3`, after.Pos, after.Ord, limit))
}

// A FeedHead is how far all feeds have been checked.
type FeedHead struct {
	Epoch int
	Place Place
}

// Head returns how far all feeds have been checked: a quiet feed is as far.
func Head(ctx context.Context, db *pgxpool.Pool) (FeedHead, error) {
	var h FeedHead
	var pos int64
	err := db.QueryRow(ctx, `
		SELECT epoch, pos
		FROM log.checkpoints
		WHERE name = $1`, Feed.Checkpoint()).Scan(&h.Epoch, &pos)
	if err != nil {
		return FeedHead{}, fmt.Errorf("read the head of the feeds: %w", err)
	}
	h.Place = endOf(pos)
	return h, nil
}

// A Selector says which rows of its feeds a reader wants.
type Selector struct {
	Feeds     []FeedID
	Kinds     []string // none means all
	RequestID string   // "" means any, as TaskID
	TaskID    string
}

// Match says whether the reader wants the row.
func (s Selector) Match(r FeedRow) bool {
	return slices.Contains(s.Feeds, r.FeedID) &&
		(len(s.Kinds) == 0 || slices.Contains(s.Kinds, r.Kind)) &&
		(s.RequestID == "" || s.RequestID == r.RequestID) &&
		(s.TaskID == "" || s.TaskID == r.TaskID)
}

// A Page is a piece of what a reader wants.
type Page struct {
	Rows    []FeedRow
	Checked Place // up to here, these are all rows there are
	Epoch   int
	More    bool
}

// Page returns up to limit wanted rows behind a place. It looks at no more than a
// bounded number of rows, so a page can be short and yet have more behind it.
func (s Selector) Page(ctx context.Context, db *pgxpool.Pool, after Place, limit int) (Page, error) {
	const scan = 500
	head, err := Head(ctx, db) // before the rows: what is up to here, they include
	if err != nil {
		return Page{}, err
	}
	rows, err := FeedAfter(ctx, db, s.Feeds, after, scan)
	if err != nil {
		return Page{}, err
	}
	page := Page{Checked: after, Epoch: head.Epoch, More: len(rows) == scan}
	for _, r := range rows {
		if s.Match(r) {
			if len(page.Rows) == limit {
				page.More = true
				return page, nil
			}
			page.Rows = append(page.Rows, r)
		}
		page.Checked = r.Place
	}
	if !page.More && page.Checked.Less(head.Place) {
		page.Checked = head.Place
	}
	return page, nil
}

func applyFeed(b *pgx.Batch, e eventstore.Recorded) {
	for ord, n := range notices(e) {
		id := domain.DeriveID("fr", e.ID, strconv.Itoa(ord))
		b.Queue(`
			INSERT INTO feed_item (board, feed, audience, pos, ord, row_id, kind, request_id, task_id, occurred_at, data)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
			e.Board, n.feed, n.audience, e.Position, ord, id, n.kind, n.requestID, n.taskID, e.At, n.data(id, e))
	}
}
