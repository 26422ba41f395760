package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
	"sidequest/projections"
)

// An Owner is who may see and move subscriptions: an agent on a board, or an
// operator with all of its agents.
type Owner struct {
	Agent, Board string
	Operator     string
}

// where is the condition that a subscription is the owner's, for arguments $1 to $3.
const where = ` (s.agent_key, s.board) = ($1, $2) AND $3 = '' OR $3 <> '' AND s.operator = $3 `

// A Lane is a subscription as its owner sees it.
type Lane struct {
	ID          string
	Agent       domain.AgentKey
	Board       string
	Event       string
	Arguments   string // JSON
	URL         string // foreign text
	Expires     *time.Time
	State       string
	Paused      bool
	Lapsed      bool
	LastError   string
	FailedSince *time.Time
	DeliveredAt *time.Time
	NextAt      time.Time
	DeadLetters int
	Behind      bool // there is something it has not passed yet
}

// Standing is the lane's state in one word: paused and lapsed count more than how
// the endpoint fares.
func (l Lane) Standing() string {
	switch {
	case l.State == Disabled:
		return l.State
	case l.Lapsed:
		return "lapsed"
	case l.Paused:
		return "paused"
	}
	return l.State
}

// Lanes returns up to a hundred subscriptions of an owner, newest first; one alone
// if id is not empty.
func (h *Hooks) Lanes(ctx context.Context, o Owner, id string) ([]Lane, error) {
	rows, err := h.DB.Query(ctx, `
		SELECT s.sub_id, s.agent_key, s.board, s.feed, s.arguments, s.url, s.expires_at, s.state, s.paused,
			s.expires_at IS NOT NULL AND s.expires_at <= clock_timestamp(), coalesce(s.last_error, ''),
			s.failing_since, s.delivered_at, s.next_at,
			(SELECT count(*) FROM hooks.dead_letters AS d WHERE d.sub_id = s.sub_id),
			EXISTS (
				SELECT
				FROM feed_item AS i
				WHERE (i.board, i.feed, i.audience) = (s.board, s.feed, s.audience) AND (i.pos, i.ord) > (s.pos, s.ord))
		FROM hooks.subscriptions AS s
		WHERE (`+where+`) AND ($4 = '' OR s.sub_id = $4)
		ORDER BY s.created_at DESC, s.sub_id
		LIMIT 100`, o.Agent, o.Board, o.Operator, id)
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	lanes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Lane])
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	return lanes, nil
}

// An Attempt is one that was made.
type Attempt struct {
	ID      string // of the subscription
	At      time.Time
	EventID string
	Outcome string
	Status  int
	TookMS  int
}

// Attempts returns the newest attempts of an owner's subscriptions.
func (h *Hooks) Attempts(ctx context.Context, o Owner, id string, limit int) ([]Attempt, error) {
	rows, err := h.DB.Query(ctx, `
		SELECT a.sub_id, a.at, a.event_id, a.outcome, a.status, a.took_ms
		FROM hooks.subscriptions AS s
		CROSS JOIN LATERAL (
			SELECT sub_id, at, event_id, outcome, status, took_ms
			FROM hooks.attempts
			WHERE sub_id = s.sub_id
			ORDER BY at DESC
			LIMIT $5) AS a
		WHERE (`+where+`) AND ($4 = '' OR s.sub_id = $4)
		ORDER BY a.at DESC
		LIMIT $5`, o.Agent, o.Board, o.Operator, id, limit)
	if err != nil {
		return nil, fmt.Errorf("list attempts of webhooks: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Attempt])
}

// A DeadLetter is a row that was given up.
type DeadLetter struct {
	ID      string // of the subscription
	EventID string
	Reason  string
	Status  int
	At      time.Time
	Asked   bool // to be sent again
}

// DeadLetters returns the newest rows that an owner's subscriptions gave up.
func (h *Hooks) DeadLetters(ctx context.Context, o Owner, id string, limit int) ([]DeadLetter, error) {
	rows, err := h.DB.Query(ctx, `
		SELECT d.sub_id, d.event_id, d.reason, d.status, d.at, r.sub_id IS NOT NULL
		FROM hooks.subscriptions AS s
		JOIN hooks.dead_letters AS d ON d.sub_id = s.sub_id
		LEFT JOIN hooks.redeliveries AS r ON (r.sub_id, r.pos, r.ord) = (d.sub_id, d.pos, d.ord)
		WHERE (`+where+`) AND ($4 = '' OR s.sub_id = $4)
		ORDER BY d.at DESC, d.pos DESC
		LIMIT $5`, o.Agent, o.Board, o.Operator, id, limit)
	if err != nil {
		return nil, fmt.Errorf("list dead letters of webhooks: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[DeadLetter])
}

// Redeliver has a row sent once more that was attempted before. To ask twice is to
// ask once, until it has been sent.
func (h *Hooks) Redeliver(ctx context.Context, o Owner, id, eventID string) error {
	lanes, err := h.Lanes(ctx, o, id)
	switch {
	case err != nil:
		return err
	case id == "" || len(lanes) == 0:
		return domain.Refuse(domain.NotFound, "there is no such webhook of yours; list_deliveries names them").At("/subscriptionId")
	case lanes[0].State == Disabled || lanes[0].Lapsed || lanes[0].Paused:
		return domain.Refuse(domain.Invalid, "this webhook does not deliver at the moment; subscribe again first").At("/subscriptionId")
	}
	var f projections.FeedID
	err = h.DB.QueryRow(ctx, `
		WITH found AS (
			SELECT sub_id, pos, ord
			FROM hooks.dead_letters
			WHERE sub_id = $1 AND event_id = $2
			UNION
			SELECT sub_id, pos, ord
			FROM hooks.attempts
			WHERE sub_id = $1 AND event_id = $2
			LIMIT 1),
		asked AS (
			INSERT INTO hooks.redeliveries (sub_id, pos, ord)
			SELECT sub_id, pos, ord
			FROM found
			ON CONFLICT DO NOTHING)
		SELECT s.board, s.feed, s.audience
		FROM hooks.subscriptions AS s
		JOIN found AS f ON f.sub_id = s.sub_id`, id, eventID).Scan(&f.Board, &f.Feed, &f.Audience)
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.Refuse(domain.NotFound, "this webhook has not tried to deliver such an event lately").At("/eventId")
	}
	if err != nil {
		return fmt.Errorf("ask for a row of webhook %s again: %w", id, err)
	}
	h.changed(id, f)
	return nil
}

// Pause holds a subscription of an owner, or lets it go on where it stood.
func (h *Hooks) Pause(ctx context.Context, o Owner, id string, paused bool) error {
	var f projections.FeedID
	err := h.DB.QueryRow(ctx, `
		UPDATE hooks.subscriptions AS s
		SET paused = $5
		WHERE (`+where+`) AND s.sub_id = $4
		RETURNING s.board, s.feed, s.audience`, o.Agent, o.Board, o.Operator, id, paused).Scan(&f.Board, &f.Feed, &f.Audience)
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.Refuse(domain.NotFound, "there is no such webhook of yours")
	}
	if err != nil {
		return fmt.Errorf("pause webhook %s: %w", id, err)
	}
	h.changed(id, f)
	return nil
}

// maxRedeliveries bounds what one turn sends again.
const maxRedeliveries = 20

func (t *turn) redeliveries(ctx context.Context) ([]projections.Place, error) {
	rows, err := t.DB.Query(ctx, `
		SELECT pos, ord
		FROM hooks.redeliveries
		WHERE sub_id = $1
		ORDER BY asked_at, pos, ord
		LIMIT $2`, t.id, maxRedeliveries)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[projections.Place])
}

// redelivered notes that a row was sent again. One that was taken is no dead letter
// any more.
func (t *turn) redelivered(ctx context.Context, at projections.Place, taken bool) error {
	_, err := t.DB.Exec(ctx, `
		WITH done AS (
			DELETE FROM hooks.redeliveries
			WHERE (sub_id, pos, ord) = ($1, $2, $3))
		DELETE FROM hooks.dead_letters
		WHERE (sub_id, pos, ord) = ($1, $2, $3) AND $4`, t.id, at.Pos, at.Ord, taken)
	return err
}
