package projections

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A FeedPlace is where one reader of one feed stands.
type FeedPlace struct {
	FeedID
	Place
}

// FeedPages reads for many readers at once: up to limit rows behind each one's
// place, whether they select them or not. What is up to the head, the pages include.
func FeedPages(ctx context.Context, db *pgxpool.Pool, from []FeedPlace, limit int) ([][]FeedRow, FeedHead, error) {
	head, err := Head(ctx, db)
	if err != nil {
		return nil, FeedHead{}, err
	}
	var boards, names, audiences []string
	var positions []int64
	var ords []int
	for _, f := range from {
		boards, names, audiences = append(boards, f.Board), append(names, f.Feed), append(audiences, f.Audience)
		positions, ords = append(positions, f.Pos), append(ords, f.Ord)
	}
	rows, err := db.Query(ctx, `
		SELECT f.nth, i.board, i.feed, i.audience, i.pos, i.ord, i.row_id, i.kind, i.request_id, i.task_id, i.occurred_at, i.data
		FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::int[])
			WITH ORDINALITY AS f(board, feed, audience, pos, ord, nth)
		CROSS JOIN LATERAL (
			SELECT board, feed, audience, pos, ord, row_id, kind, request_id, task_id, occurred_at, data
			FROM feed_item
			WHERE (board, feed, audience) = (f.board, f.feed, f.audience) AND (pos, ord) > (f.pos, f.ord)
			ORDER BY pos, ord
			LIMIT $6) AS i
		ORDER BY f.nth, i.pos, i.ord`, boards, names, audiences, positions, ords, limit)
	if err != nil {
		return nil, FeedHead{}, fmt.Errorf("read pages of feeds: %w", err)
	}
	defer rows.Close()
	pages := make([][]FeedRow, len(from))
	for rows.Next() {
		var nth int
		var r FeedRow
		err := rows.Scan(&nth, &r.Board, &r.Feed, &r.Audience, &r.Pos, &r.Ord, &r.RowID, &r.Kind, &r.RequestID, &r.TaskID, &r.OccurredAt, &r.Data)
		if err != nil {
			return nil, FeedHead{}, fmt.Errorf("read pages of feeds: %w", err)
		}
		pages[nth-1] = append(pages[nth-1], r)
	}
	return pages, head, rows.Err()
}

// FeedRowAt returns the row at a place of a feed, if it is there.
func FeedRowAt(ctx context.Context, db *pgxpool.Pool, at FeedPlace) (row FeedRow, found bool, err error) {
	rows, err := collectFeed(db.Query(ctx, selectFeed+`
		WHERE (board, feed, audience, pos, ord) = ($1, $2, $3, $4, $5)`, at.Board, at.Feed, at.Audience, at.Pos, at.Ord))
	if err != nil || len(rows) == 0 {
		return FeedRow{}, false, err
	}
	return rows[0], true, nil
}

// OccurrenceJSON is the notice as every way of delivery sends it, to the byte.
func (r FeedRow) OccurrenceJSON(c Cursors, chainID int64, epoch int) (jsontext.Value, error) {
	b, err := json.Marshal(r.Occurrence(chainID, c.Encode(r.FeedID, epoch, r.Place)))
	if err != nil {
		return nil, fmt.Errorf("encode feed row %s: %w", r.RowID, err)
	}
	return b, nil
}
