package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/projections"
)

// A lane is a subscription that this process holds the lease of, as it was when
// the lease was taken.
type lane struct {
	id, principal, grant, agent string
	selector                    projections.Selector
	url, host                   string
	secrets                     [][]byte
	sealed                      error // why they cannot be opened
	controls                    bool
	epoch                       int
	place                       projections.Place
	idle                        time.Duration // since the place last moved
	truncated                   bool          // rows before the place could not be shown
	health                      Health
	expires                     *time.Time
	asked                       int // redeliveries
	fence                       int64

	taken  time.Time // by the clock of this process
	server time.Time // by the database's, at the same moment
}

// feed is the one feed of the lane.
func (l *lane) feed() projections.FeedID { return l.selector.Feeds[0] }

// now is the time by the clock of the database, which all processes share.
func (l *lane) now() time.Time { return l.server.Add(time.Since(l.taken)) }

// over says whether the lane has to be given back, so that its lease cannot end
// while something of it is under way.
func (l *lane) over(limit time.Duration) bool {
	return time.Since(l.taken) > limit || l.expires != nil && !l.now().Before(*l.expires)
}

// A demand is what a process can take on.
type demand struct {
	feeds []projections.FeedID // nil for any
	limit int
	slow  bool // lanes that fail or are slow, or else the others
	hosts map[string]int
	ended []string // grants that are no more: their lanes have a last thing to send
}

// claim takes the leases of lanes that have something to send. Which those are
// follows from their places. Lanes of a host that is served to its limit already,
// and those that another process is just claiming, are left.
func (h *Hooks) claim(ctx context.Context, d demand) ([]*lane, error) {
	var boards, names, audiences, hosts []string
	for _, f := range d.feeds {
		boards, names, audiences = append(boards, f.Board), append(names, f.Feed), append(audiences, f.Audience)
	}
	var used []int
	for host, n := range d.hosts {
		hosts, used = append(hosts, host), append(used, n)
	}
	taken := time.Now()
	rows, err := h.DB.Query(ctx, `
		WITH ready AS MATERIALIZED (
			SELECT s.sub_id, s.next_at,
				coalesce(b.used, 0) + row_number() OVER (PARTITION BY s.host ORDER BY s.next_at, s.sub_id) AS nth
			FROM hooks.subscriptions AS s
			LEFT JOIN unnest($6::text[], $7::int[]) AS b(host, used) ON b.host = s.host
			WHERE s.state <> 'disabled' AND NOT s.paused AND s.slow = $5
				AND s.next_at <= clock_timestamp()
				AND (s.lease_until IS NULL OR s.lease_until < clock_timestamp())
				AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp())
				AND ($1 OR s.grant_id = ANY ($13) OR (s.board, s.feed, s.audience) IN (
					SELECT w.board, w.feed, w.audience
					FROM unnest($2::text[], $3::text[], $4::text[]) AS w(board, feed, audience)))
				AND (s.grant_id = ANY ($13)
					OR s.epoch <> (SELECT epoch FROM log.checkpoints WHERE name = $8)
					OR EXISTS (
						SELECT
						FROM feed_item AS i
						WHERE (i.board, i.feed, i.audience) = (s.board, s.feed, s.audience) AND (i.pos, i.ord) > (s.pos, s.ord))
					OR EXISTS (
						SELECT
						FROM hooks.redeliveries AS r
						WHERE r.sub_id = s.sub_id))),
		chosen AS (
			SELECT s.sub_id
			FROM hooks.subscriptions AS s
			JOIN ready AS r ON r.sub_id = s.sub_id
			WHERE r.nth <= $9 AND (s.lease_until IS NULL OR s.lease_until < clock_timestamp())
			ORDER BY r.next_at
			LIMIT $10
			FOR UPDATE OF s SKIP LOCKED)
		UPDATE hooks.subscriptions AS s
		SET owner = $11, lease_until = clock_timestamp() + $12::interval, fence = s.fence + 1
		FROM chosen AS c
		WHERE s.sub_id = c.sub_id
		RETURNING s.sub_id, s.principal, s.grant_id, s.agent_key, s.board, s.feed, s.audience, s.kinds, s.request_id, s.task_id,
			s.url, s.host, s.secret, s.former_secret, s.former_until > clock_timestamp(), s.controls, s.expires_at,
			s.epoch, s.pos, s.ord, clock_timestamp() - s.moved_at,
			s.state, s.tries, s.refusals, s.skipped, s.failing_since, s.slow, coalesce(s.last_error, ''), s.fence, clock_timestamp(),
			(SELECT count(*) FROM hooks.redeliveries AS r WHERE r.sub_id = s.sub_id)`,
		len(d.feeds) == 0, boards, names, audiences, d.slow, hosts, used, projections.Feed.Checkpoint(),
		h.Limits.PerHost, d.limit, h.Owner, h.Limits.Lease, append([]string{}, d.ended...))
	if err != nil {
		return nil, fmt.Errorf("claim webhook lanes: %w", err)
	}
	lanes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*lane, error) { return h.scan(row, taken) })
	if err != nil {
		return nil, fmt.Errorf("claim webhook lanes: %w", err)
	}
	return lanes, nil
}

func (h *Hooks) scan(row pgx.CollectableRow, taken time.Time) (*lane, error) {
	l := &lane{taken: taken}
	var f projections.FeedID
	var sealed, former []byte
	var formerCounts *bool
	var failing *time.Time
	err := row.Scan(&l.id, &l.principal, &l.grant, &l.agent, &f.Board, &f.Feed, &f.Audience,
		&l.selector.Kinds, &l.selector.RequestID, &l.selector.TaskID,
		&l.url, &l.host, &sealed, &former, &formerCounts, &l.controls, &l.expires,
		&l.epoch, &l.place.Pos, &l.place.Ord, &l.idle,
		&l.health.State, &l.health.Tries, &l.health.Refusals, &l.health.Skipped, &failing, &l.health.Slow, &l.health.LastError,
		&l.fence, &l.server, &l.asked)
	if err != nil {
		return nil, err
	}
	l.selector.Feeds = []projections.FeedID{f}
	l.health.NextAt = l.server
	if failing != nil {
		l.health.FailingSince = *failing
	}
	if formerCounts == nil || !*formerCounts {
		former = nil
	}
	l.secrets, l.sealed = h.openSecrets(l.id, sealed, former)
	return l, nil
}

// secretPurpose is what secrets of subscribers are sealed for.
const secretPurpose = "webhook"

func (h *Hooks) openSecrets(id string, sealed ...[]byte) (secrets [][]byte, err error) {
	for _, s := range sealed {
		if s == nil {
			continue
		}
		opened, err := h.Keys.Open(secretPurpose, id, s)
		if err != nil {
			return nil, fmt.Errorf("open the secret of webhook %s: %w", id, err)
		}
		secrets = append(secrets, opened)
	}
	return secrets, nil
}
