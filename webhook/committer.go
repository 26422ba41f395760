package webhook

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/failpoint"
	"sidequest/projections"
)

// A committer records what became of lanes, for all of a process at once: many
// acknowledgements make one statement. Nothing else writes the state of a lane
// that is held.
type committer struct {
	*Hooks

	mu      sync.Mutex
	pending map[held]*pending
	kick    chan struct{}
}

// A change is news of a lane. Its place and health are taken as they are.
type change struct {
	attempt *attempt
	dead    bool // the attempt was the row's last
	release bool
	done    chan<- bool // told whether the lane was still ours
}

// An attempt is a row of the list of them.
type attempt struct {
	event   string
	place   projections.Place
	outcome string
	status  int
	took    time.Duration
}

// held names a lane under one lease.
type held struct {
	ID    string
	Fence int64
}

// pending is what is to be recorded of a lane: its newest state and all attempts.
type pending struct {
	held

	epoch     int
	place     projections.Place
	truncated bool
	health    Health
	delivered bool
	release   bool
	attempts  []attempt
	dead      []attempt
	done      []chan<- bool
}

func newCommitter(h *Hooks) *committer {
	return &committer{Hooks: h, pending: map[held]*pending{}, kick: make(chan struct{}, 1)}
}

// add notes a change of a lane. It is recorded a few milliseconds later.
func (c *committer) add(l *lane, ch change) {
	c.mu.Lock()
	key := held{l.id, l.fence}
	p := c.pending[key]
	if p == nil {
		p = &pending{held: key}
		c.pending[key] = p
	}
	p.epoch, p.place, p.health, p.truncated = l.epoch, l.place, l.health, p.truncated || l.truncated
	p.release = p.release || ch.release
	if a := ch.attempt; a != nil {
		p.attempts = append(p.attempts, *a)
		p.delivered = p.delivered || a.outcome == "delivered"
		if ch.dead {
			p.dead = append(p.dead, *a)
		}
	}
	if ch.done != nil {
		p.done = append(p.done, ch.done)
	}
	c.mu.Unlock()
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// run records until ctx is done, and then once more.
func (c *committer) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-c.kick:
		case <-ctx.Done():
		}
		if ctx.Err() == nil {
			time.Sleep(c.Limits.Commit)
		}
		c.flush(ctx)
	}
}

// take returns what is to be recorded, by lane, so that two processes lock rows in
// one order.
func (c *committer) take() []*pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*pending
	for _, p := range c.pending {
		all = append(all, p)
	}
	clear(c.pending)
	slices.SortFunc(all, func(a, b *pending) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Fence, b.Fence))
	})
	return all
}

const (
	commitLimit = 5 * time.Second  // of one statement
	commitFor   = 20 * time.Second // for which it is repeated; leases have ended by then
	commitPause = 100 * time.Millisecond
)

// flush records all there is. A statement whose outcome is not known is made again:
// it changes nothing the second time but the list of attempts.
func (c *committer) flush(ctx context.Context) {
	all := c.take()
	if len(all) == 0 {
		return
	}
	ctx = context.WithoutCancel(ctx)
	began := time.Now()
	kept, err := c.record(ctx, all)
	for err != nil && time.Since(began) < commitFor {
		c.Log.Error("cannot record what webhooks delivered", "error", err)
		time.Sleep(commitPause)
		kept, err = c.record(ctx, all)
	}
	if err == nil {
		failpoint.Reach(failpoint.HookRecorded)
	}
	for _, p := range all {
		for _, done := range p.done {
			done <- kept[p.held]
		}
	}
}

func (c *committer) record(ctx context.Context, all []*pending) (kept map[held]bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, commitLimit)
	defer cancel()
	var v lanesColumns
	var tried, dead attemptColumns
	for _, p := range all {
		v.add(p)
		tried.add(p, p.attempts)
		dead.add(p, p.dead)
	}
	rows, err := c.DB.Query(ctx, `
		WITH v AS (
			SELECT sub_id, fence, epoch, pos, ord, truncated, state, tries, refusals, skipped,
				failing_since, next_at, slow, last_error, delivered, release
			FROM unnest($1::text[], $2::bigint[], $3::int[], $4::bigint[], $5::int[], $6::bool[], $7::text[], $8::int[], $9::int[], $10::int[],
				$11::timestamptz[], $12::timestamptz[], $13::bool[], $14::text[], $15::bool[], $16::bool[])
				AS v(sub_id, fence, epoch, pos, ord, truncated, state, tries, refusals, skipped,
					failing_since, next_at, slow, last_error, delivered, release)),
		held AS (
			SELECT s.sub_id, v.epoch <> s.epoch OR (v.pos, v.ord) > (s.pos, s.ord) AS moves
			FROM hooks.subscriptions AS s
			JOIN v ON v.sub_id = s.sub_id AND v.fence = s.fence
			ORDER BY s.sub_id
			FOR UPDATE OF s),
		kept AS (
			UPDATE hooks.subscriptions AS s
			SET epoch = v.epoch,
				pos = CASE WHEN held.moves THEN v.pos ELSE s.pos END,
				ord = CASE WHEN held.moves THEN v.ord ELSE s.ord END,
				moved_at = CASE WHEN held.moves THEN clock_timestamp() ELSE s.moved_at END,
				truncated = s.truncated OR v.truncated,
				state = v.state, tries = v.tries, refusals = v.refusals, skipped = v.skipped,
				failing_since = v.failing_since, next_at = v.next_at, slow = v.slow,
				last_error = CASE WHEN v.last_error = '' THEN NULL ELSE v.last_error END,
				delivered_at = CASE WHEN v.delivered THEN clock_timestamp() ELSE s.delivered_at END,
				told = CASE WHEN v.state = 'active' THEN '' ELSE s.told END,
				owner = CASE WHEN v.release THEN NULL ELSE s.owner END,
				lease_until = CASE WHEN v.release THEN NULL ELSE s.lease_until END
			FROM v
			JOIN held ON held.sub_id = v.sub_id
			WHERE s.sub_id = v.sub_id AND s.fence = v.fence
			RETURNING s.sub_id, s.fence),
		tried AS (
			INSERT INTO hooks.attempts (sub_id, event_id, pos, ord, outcome, status, took_ms)
			SELECT sub_id, event_id, pos, ord, outcome, status, took_ms
			FROM unnest($17::text[], $18::text[], $19::bigint[], $20::int[], $21::text[], $22::int[], $23::int[])
				AS a(sub_id, event_id, pos, ord, outcome, status, took_ms)),
		buried AS (
			INSERT INTO hooks.dead_letters (sub_id, epoch, event_id, pos, ord, reason, status)
			SELECT d.sub_id, v.epoch, d.event_id, d.pos, d.ord, d.reason, d.status
			FROM unnest($24::text[], $25::text[], $26::bigint[], $27::int[], $28::text[], $29::int[], $30::bigint[])
				AS d(sub_id, event_id, pos, ord, reason, status, fence)
			JOIN kept ON kept.sub_id = d.sub_id AND kept.fence = d.fence
			JOIN v ON v.sub_id = d.sub_id AND v.fence = d.fence
			ON CONFLICT DO NOTHING)
		SELECT sub_id, fence
		FROM kept`,
		v.ids, v.fences, v.epochs, v.positions, v.ords, v.truncated, v.states, v.tries, v.refusals, v.skipped,
		v.failing, v.next, v.slow, v.errors, v.delivered, v.release,
		tried.ids, tried.events, tried.positions, tried.ords, tried.outcomes, tried.statuses, tried.took,
		dead.ids, dead.events, dead.positions, dead.ords, dead.outcomes, dead.statuses, dead.fences)
	if err != nil {
		return nil, fmt.Errorf("record webhook lanes: %w", err)
	}
	still, err := pgx.CollectRows(rows, pgx.RowToStructByPos[held])
	if err != nil {
		return nil, fmt.Errorf("record webhook lanes: %w", err)
	}
	kept = map[held]bool{}
	for _, k := range still {
		kept[k] = true
	}
	return kept, nil
}

// lanesColumns are lanes as arrays.
type lanesColumns struct {
	ids, states, errors                 []string
	fences, positions                   []int64
	epochs, ords                        []int
	tries, refusals, skipped            []int
	failing                             []*time.Time
	next                                []time.Time
	truncated, slow, delivered, release []bool
}

func (v *lanesColumns) add(p *pending) {
	v.ids, v.fences = append(v.ids, p.ID), append(v.fences, p.Fence)
	v.epochs, v.positions, v.ords = append(v.epochs, p.epoch), append(v.positions, p.place.Pos), append(v.ords, p.place.Ord)
	v.truncated = append(v.truncated, p.truncated)
	v.states, v.errors = append(v.states, p.health.State), append(v.errors, p.health.LastError)
	v.tries, v.refusals = append(v.tries, p.health.Tries), append(v.refusals, p.health.Refusals)
	v.skipped = append(v.skipped, p.health.Skipped)
	var failing *time.Time
	if !p.health.FailingSince.IsZero() {
		failing = &p.health.FailingSince
	}
	v.failing, v.next = append(v.failing, failing), append(v.next, p.health.NextAt)
	v.slow = append(v.slow, p.health.Slow)
	v.delivered, v.release = append(v.delivered, p.delivered), append(v.release, p.release)
}

// attemptColumns are attempts as arrays.
type attemptColumns struct {
	ids, events, outcomes []string
	positions, fences     []int64
	ords, statuses, took  []int
}

func (c *attemptColumns) add(p *pending, all []attempt) {
	for _, a := range all {
		c.ids, c.events, c.outcomes = append(c.ids, p.ID), append(c.events, a.event), append(c.outcomes, a.outcome)
		c.positions, c.ords = append(c.positions, a.place.Pos), append(c.ords, a.place.Ord)
		c.fences = append(c.fences, p.Fence)
		c.statuses, c.took = append(c.statuses, a.status), append(c.took, int(a.took.Milliseconds()))
	}
}
