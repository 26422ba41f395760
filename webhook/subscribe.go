package webhook

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/projections"
)

// MaxPerGrant bounds the subscriptions of a grant.
const MaxPerGrant = 20

// How long a subscription lasts without being renewed.
const (
	MinTerm      = 5 * time.Minute
	MaxTerm      = 6 * time.Hour
	StandardTerm = time.Hour
)

const (
	grace    = 24 * time.Hour // for which the secret before the present one still signs
	verified = 24 * time.Hour // for which a receiver that showed its will is believed

	challengesOfHost      = 60 // in a minute
	challengesOfPrincipal = 30
)

// A Key names a subscription: the same key is the same subscription.
type Key struct {
	Principal string // agent and client
	URL       string
	Event     string
	Arguments string // canonical JSON (RFC 8785)
}

// ID returns what receivers know the subscription by. It is no secret and opens
// nothing.
func (k Key) ID() string {
	h := sha256.New()
	for _, part := range []string{k.Principal, k.URL, k.Event, k.Arguments} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return "sub_" + hex.EncodeToString(h.Sum(nil)[:12])
}

// A Wish is what a subscriber asks for.
type Wish struct {
	Key
	Grant, Agent, Operator string
	Selector               projections.Selector // of one feed
	Secret                 []byte
	Term                   time.Duration // 0 for no end

	// Where to begin, if the subscription is new or has lapsed. One that lives goes
	// on where it is, unless Explicit says that the subscriber is further.
	Epoch     int
	Place     projections.Place
	Truncated bool
	Explicit  bool
}

// A Subscription is what a subscriber is told.
type Subscription struct {
	ID        string
	Expires   *time.Time // nil for never
	Epoch     int
	Place     projections.Place
	Truncated bool
	Status    Status
}

// Status is how deliveries fare.
type Status struct {
	State       string
	Paused      bool
	DeliveredAt *time.Time
	LastError   string
	FailedSince *time.Time
	RetryAfter  time.Duration // until the next attempt, where there is one to come
}

// A CallbackError refuses an endpoint that did not show that it wants deliveries.
type CallbackError struct{ Reason string }

// Error implements error.
func (e *CallbackError) Error() string {
	return "the endpoint did not answer the challenge: " + e.Reason
}

// A LimitError refuses what would be too much.
type LimitError struct {
	Limit      string // "subscriptions" or "verifications"
	Max        int
	RetryAfter time.Duration // 0 if waiting does not help
}

// Error implements error.
func (e *LimitError) Error() string { return fmt.Sprintf("at most %d %s", e.Max, e.Limit) }

// Subscribe makes a subscription, or renews the one there is. It refuses with a
// [domain.Error], a [*CallbackError] or a [*LimitError]. It asks the endpoint first
// whether it wants deliveries, which can take five seconds.
func (h *Hooks) Subscribe(ctx context.Context, w Wish) (Subscription, error) {
	host, err := h.Outside.Endpoint(w.URL)
	if err != nil {
		return Subscription{}, err
	}
	id := w.ID()
	if err := h.count(ctx, h.DB, id, w.Grant); err != nil {
		return Subscription{}, err
	}
	controls, err := h.verify(ctx, id, host, w)
	if err != nil {
		return Subscription{}, err
	}
	var s Subscription
	err = pgx.BeginFunc(ctx, h.DB, func(tx pgx.Tx) (err error) {
		if err := h.lock(ctx, tx, id, w.Grant); err != nil {
			return err
		}
		if err := h.count(ctx, tx, id, w.Grant); err != nil {
			return err
		}
		if err := h.upsert(ctx, tx, id, host, controls, w); err != nil {
			return err
		}
		s, err = h.tell(ctx, tx, id)
		return err
	})
	if err != nil {
		return Subscription{}, err
	}
	h.changed(id, w.Selector.Feeds[0])
	return s, nil
}

// changed tells whoever serves the lane, here or in another process.
func (h *Hooks) changed(id string, feed projections.FeedID) {
	h.Store.Wake.Ring(topicHook(id))
	h.Stir(map[projections.FeedID]bool{feed: true})
}

// A queryer is the database or a transaction in it.
type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// count refuses one more subscription of a grant than it may have.
func (h *Hooks) count(ctx context.Context, db queryer, id, grant string) error {
	var others int
	err := db.QueryRow(ctx, `
		SELECT count(*)
		FROM hooks.subscriptions
		WHERE grant_id = $1 AND sub_id <> $2 AND (expires_at IS NULL OR expires_at > clock_timestamp())`, grant, id).Scan(&others)
	if err != nil {
		return fmt.Errorf("count the webhooks of %s: %w", grant, err)
	}
	if others >= MaxPerGrant {
		return &LimitError{Limit: "subscriptions", Max: MaxPerGrant}
	}
	return nil
}

// lock keeps calls about one grant or one subscription apart until the transaction
// ends.
func (h *Hooks) lock(ctx context.Context, tx pgx.Tx, id, grant string) error {
	keys := []string{"grant " + grant, "sub " + id}
	slices.Sort(keys)
	for _, key := range keys {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(7312, hashtext($1))`, key); err != nil {
			return fmt.Errorf("lock %s: %w", key, err)
		}
	}
	return nil
}

// verify finds out whether the endpoint wants deliveries for this principal.
func (h *Hooks) verify(ctx context.Context, id, host string, w Wish) (controls bool, err error) {
	err = h.DB.QueryRow(ctx, `
		SELECT controls
		FROM hooks.endpoints
		WHERE (principal, url) = ($1, $2) AND verified_at > clock_timestamp() - $3::interval
			AND NOT EXISTS (
				SELECT
				FROM hooks.subscriptions
				WHERE sub_id = $4 AND state = 'disabled')`, w.Principal, w.URL, verified, id).Scan(&controls)
	if !errors.Is(err, pgx.ErrNoRows) {
		return controls, err
	}
	if err := h.mayChallenge(ctx, host, w.Principal); err != nil {
		return false, err
	}
	controls, reason, err := h.challenge(ctx, w.URL, id, [][]byte{w.Secret})
	if err != nil {
		return false, err
	}
	if reason != "" {
		return false, &CallbackError{reason}
	}
	_, err = h.DB.Exec(ctx, `
		INSERT INTO hooks.endpoints (principal, url, controls)
		VALUES ($1, $2, $3)
		ON CONFLICT (principal, url) DO UPDATE
		SET controls = excluded.controls, verified_at = clock_timestamp()`, w.Principal, w.URL, controls)
	if err != nil {
		return false, fmt.Errorf("note that an endpoint is verified: %w", err)
	}
	return controls, nil
}

// mayChallenge counts challenges, so that nobody can have us bother a host.
func (h *Hooks) mayChallenge(ctx context.Context, host, principal string) error {
	var wait *time.Duration
	err := h.DB.QueryRow(ctx, `
		SELECT limits.take($1, $2, $3, $4)`,
		[]string{"hook host " + host, "hook of " + principal}, []int{challengesOfHost, challengesOfPrincipal},
		rand.Text(), time.Minute).Scan(&wait)
	if err != nil {
		return fmt.Errorf("count verifications: %w", err)
	}
	if wait != nil {
		return &LimitError{"verifications", challengesOfPrincipal, max(*wait, time.Second)}
	}
	return nil
}

// A stored subscription is what a renewal has to know of the one there is.
type stored struct {
	secret, former []byte // sealed
	formerUntil    *time.Time
	live, well     bool
	epoch          int
	place          projections.Place
}

func (h *Hooks) upsert(ctx context.Context, tx pgx.Tx, id, host string, controls bool, w Wish) error {
	var s stored
	err := tx.QueryRow(ctx, `
		SELECT secret, former_secret, former_until, state <> 'disabled' AND (expires_at IS NULL OR expires_at > clock_timestamp()),
			state = 'active' AND failing_since IS NULL, epoch, pos, ord
		FROM hooks.subscriptions
		WHERE sub_id = $1
		FOR UPDATE`, id).Scan(&s.secret, &s.former, &s.formerUntil, &s.live, &s.well, &s.epoch, &s.place.Pos, &s.place.Ord)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return h.insert(ctx, tx, id, host, controls, w)
	case err != nil:
		return fmt.Errorf("read webhook %s: %w", id, err)
	}
	return h.renew(ctx, tx, id, controls, w, s)
}

func (h *Hooks) insert(ctx context.Context, tx pgx.Tx, id, host string, controls bool, w Wish) error {
	f := w.Selector.Feeds[0]
	_, err := tx.Exec(ctx, `
		INSERT INTO hooks.subscriptions (
			sub_id, principal, grant_id, agent_key, operator, board, feed, audience, arguments, kinds, request_id, task_id,
			url, host, secret, controls, expires_at, epoch, pos, ord, truncated)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, clock_timestamp() + $17::interval, $18, $19, $20, $21)`,
		id, w.Principal, w.Grant, w.Agent, w.Operator, f.Board, f.Feed, f.Audience, w.Arguments, kinds(w.Selector), w.Selector.RequestID, w.Selector.TaskID,
		w.URL, host, h.Keys.Seal(secretPurpose, id, w.Secret), controls, term(w.Term), w.Epoch, w.Place.Pos, w.Place.Ord, w.Truncated)
	if err != nil {
		return fmt.Errorf("make webhook %s: %w", id, err)
	}
	return nil
}

func kinds(s projections.Selector) []string { return append([]string{}, s.Kinds...) }

// term is null for no end.
func term(d time.Duration) *time.Duration {
	if d == 0 {
		return nil
	}
	return &d
}

// renew sets a subscription going again. Where that changes more than its term,
// whoever holds its lane loses it, so that what it knows is not written over this.
func (h *Hooks) renew(ctx context.Context, tx pgx.Tx, id string, controls bool, w Wish, s stored) error {
	sealed, former, until, err := h.rotate(id, w.Secret, s)
	if err != nil {
		return err
	}
	begins := !s.live || w.Explicit && w.Epoch == s.epoch && s.place.Less(w.Place)
	_, err = tx.Exec(ctx, `
		UPDATE hooks.subscriptions
		SET grant_id = $2, operator = $3, controls = $4, expires_at = clock_timestamp() + $5::interval,
			secret = $6, former_secret = $7, former_until = $8,
			state = 'active', tries = 0, refusals = 0, skipped = 0, failing_since = NULL, slow = false, last_error = NULL, told = '',
			next_at = clock_timestamp(),
			fence = CASE WHEN $9 THEN fence + 1 ELSE fence END,
			owner = CASE WHEN $9 THEN NULL ELSE owner END,
			lease_until = CASE WHEN $9 THEN NULL ELSE lease_until END
		WHERE sub_id = $1`,
		id, w.Grant, w.Operator, controls, term(w.Term), sealed, former, until, begins || !s.well)
	if err == nil && begins {
		_, err = tx.Exec(ctx, `
			UPDATE hooks.subscriptions
			SET epoch = $2, pos = $3, ord = $4, moved_at = clock_timestamp(), truncated = $5
			WHERE sub_id = $1`, id, w.Epoch, w.Place.Pos, w.Place.Ord, w.Truncated)
	}
	if err != nil {
		return fmt.Errorf("renew webhook %s: %w", id, err)
	}
	return nil
}

// rotate returns the secrets after a renewal. The one before a new one signs too
// for a while, so that the receiver can change at its leisure.
func (h *Hooks) rotate(id string, asked []byte, s stored) (sealed, former []byte, until *time.Time, err error) {
	opened, err := h.openSecrets(id, s.secret)
	if err != nil {
		return nil, nil, nil, err
	}
	if slices.Equal(opened[0], asked) {
		return s.secret, s.former, s.formerUntil, nil
	}
	sealed = h.Keys.Seal(secretPurpose, id, asked)
	if !s.live {
		return sealed, nil, nil, nil
	}
	end := h.Now().Add(grace)
	return sealed, s.secret, &end, nil
}

// tell returns what a subscriber is told, and that it was.
func (h *Hooks) tell(ctx context.Context, tx pgx.Tx, id string) (Subscription, error) {
	s := Subscription{ID: id}
	var next time.Duration
	err := tx.QueryRow(ctx, `
		WITH before AS (
			SELECT sub_id, truncated
			FROM hooks.subscriptions
			WHERE sub_id = $1)
		UPDATE hooks.subscriptions AS s
		SET truncated = false
		FROM before AS b
		WHERE s.sub_id = b.sub_id
		RETURNING s.expires_at, s.epoch, s.pos, s.ord, b.truncated, s.state, s.paused, s.delivered_at, coalesce(s.last_error, ''),
			s.failing_since, s.next_at - clock_timestamp()`, id).Scan(&s.Expires, &s.Epoch, &s.Place.Pos, &s.Place.Ord, &s.Truncated,
		&s.Status.State, &s.Status.Paused, &s.Status.DeliveredAt, &s.Status.LastError, &s.Status.FailedSince, &next)
	if err != nil {
		return Subscription{}, fmt.Errorf("read webhook %s: %w", id, err)
	}
	s.Status.RetryAfter = max(next, 0)
	return s, nil
}

// Unsubscribe ends a subscription of a principal, by its key or its id. One that is
// not there is no error.
func (h *Hooks) Unsubscribe(ctx context.Context, principal, id string) error {
	_, err := h.DB.Exec(ctx, `
		DELETE FROM hooks.subscriptions
		WHERE sub_id = $1 AND principal = $2`, id, principal)
	if err != nil {
		return fmt.Errorf("end webhook %s: %w", id, err)
	}
	h.Store.Wake.Ring(topicHook(id))
	return nil
}
