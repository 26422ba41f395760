package webhook

import (
	"context"
	"math/rand/v2"
	"time"

	"sidequest/failpoint"
	"sidequest/projections"
)

// trouble is how long a lane waits that could not be served for reasons of ours.
const trouble = 2 * time.Second

// A turn is the time in which this process serves a lane.
type turn struct {
	*Hooks
	*lane

	changed  <-chan struct{} // has a value if the subscription is not as it was
	revoked  <-chan struct{}
	stopping <-chan struct{}
}

// topicHook rings when a subscription changed.
func topicHook(id string) string { return "hook." + id }

// turn serves a lane until there is nothing to send, the receiver fails, or the
// lane has to be given back. Attempts that are under way when the process stops
// may end; those of a grant that is revoked may not.
func (h *Hooks) turn(ctx context.Context, l *lane, first reading) {
	if l.sealed != nil { // it must not keep the others from being served
		h.report(ctx, "cannot sign for a webhook", l.sealed)
		h.giveBack(ctx, []*lane{l})
		return
	}
	changed, stop := h.Store.Wake.Listen(topicHook(l.id))
	defer stop()
	revoked, live, err := h.Grant(ctx, l.grant)
	if err != nil {
		h.report(ctx, "cannot tell whether a webhook's grant is live", err)
		h.giveBack(ctx, []*lane{l})
		return
	}
	t := &turn{h, l, changed, revoked, ctx.Done()}
	attempts, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if !live {
		t.terminate(attempts)
		return
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-revoked:
			cancel()
		case <-over:
		}
	}()
	t.run(attempts, first)
}

func (t *turn) run(ctx context.Context, r reading) {
	if t.asked > 0 && !t.redeliver(ctx) {
		return
	}
	r, ok := t.catchUp(ctx, r)
	for ok && t.rows(ctx, r.rows) {
		if len(r.rows) < pageRows {
			t.release()
			return
		}
		if !t.settled() { // the lane never goes on further than a page without the database
			return
		}
		pages, head, err := t.pages(ctx, []*lane{t.lane})
		if err != nil {
			t.report(ctx, "cannot read for a webhook", err)
			t.giveBack(ctx, []*lane{t.lane})
			return
		}
		r, ok = t.catchUp(ctx, reading{pages[0], head})
	}
}

// ended says whether the lane has to be given back before the next attempt.
func (t *turn) ended() bool {
	select {
	case <-t.changed:
		return true
	case <-t.revoked:
		return true
	case <-t.stopping:
		return true
	default:
		return t.over(t.Limits.Turn)
	}
}

// rows sends a page, and says whether the lane goes on. If not, it has been given
// back.
func (t *turn) rows(ctx context.Context, page []projections.FeedRow) bool {
	for _, row := range page {
		if !t.selector.Match(row) {
			t.place = row.Place
			continue
		}
		if t.ended() {
			t.release()
			return false
		}
		if !t.row(ctx, row) {
			return false
		}
	}
	return true
}

// row makes one attempt for a row.
func (t *turn) row(ctx context.Context, row projections.FeedRow) bool {
	body, err := row.OccurrenceJSON(t.Cursors, t.ChainID, t.epoch)
	if err != nil {
		t.report(ctx, "cannot encode for a webhook", err)
		t.giveBack(ctx, []*lane{t.lane})
		return false
	}
	id := row.Feed + ":" + row.RowID
	if len(body) > maxBody {
		return t.bury(row, id, "too_large", Outcome{})
	}
	o, _, err := t.post(ctx, message{t.url, t.id, id, body, t.secrets}, attemptLimit)
	if err != nil { // the grant was revoked; the next turn ends the subscription
		t.release()
		return false
	}
	failpoint.Reach(failpoint.HookSent)
	return t.judge(ctx, row, id, o)
}

// judge draws the consequence of an attempt.
func (t *turn) judge(ctx context.Context, row projections.FeedRow, id string, o Outcome) bool {
	before := t.health
	var verdict Verdict
	t.health, verdict = t.Schedule.After(before, o, t.now(), chance())
	t.note(id, o, before.Tries+1, verdict)
	if o.Fault == RowGone && verdict == GivenUp && !t.confirms(ctx) {
		t.health.State = Disabled
	}
	switch verdict {
	case Delivered:
		t.place = row.Place
		t.committer.add(t.lane, change{attempt: tried(row, id, o)})
	case GivenUp:
		if !t.bury(row, id, o.Error, o) {
			return false
		}
	case Held:
		t.committer.add(t.lane, change{attempt: tried(row, id, o), release: true})
	}
	if verdict == Held || t.health.State == Disabled {
		t.release()
		return false
	}
	if o.Took > t.Schedule.SlowAfter { // others that are slow have their turn first
		t.release()
		return false
	}
	return true
}

// bury gives a row up: the dead letter and the lane's next place are one change. It
// is recorded before the next row is sent; or else a crash would have the row tried
// again, and perhaps taken, after the next one. It says whether the lane goes on.
func (t *turn) bury(row projections.FeedRow, id, reason string, o Outcome) bool {
	t.place = row.Place
	t.buried.Add(1)
	a := tried(row, id, o)
	a.outcome = reason
	t.committer.add(t.lane, change{attempt: a, dead: true})
	return t.settled()
}

// release gives the lane back, once all that was acknowledged is recorded.
func (t *turn) release() {
	t.committer.add(t.lane, change{release: true})
}

// settled waits until all that was acknowledged is recorded, and says whether the
// lane is still ours.
func (t *turn) settled() bool {
	done := make(chan bool, 1)
	t.committer.add(t.lane, change{done: done})
	return <-done
}

// giveBack returns lanes that could not be served, for another try a little later.
func (h *Hooks) giveBack(_ context.Context, lanes []*lane) {
	for _, l := range lanes {
		l.health.NextAt = l.now().Add(trouble)
		h.committer.add(l, change{release: true})
	}
}

// note logs an attempt: one line, without anything that was sent or answered.
func (t *turn) note(event string, o Outcome, tries int, v Verdict) {
	outcome := "delivered"
	if o.Fault == NoFault {
		t.delivered.Add(1)
	} else {
		t.failed.Add(1)
		outcome = o.Error
	}
	t.Log.Info("webhook attempt", "webhook", t.id, "grant", t.grant, "agent", t.agent, "feed", t.feed().Feed, "event", event,
		"outcome", outcome, "status", o.Status, "try", tries, "ms", o.Took.Milliseconds(), "given_up", v == GivenUp, "state", t.health.State)
}

func tried(row projections.FeedRow, id string, o Outcome) *attempt {
	outcome := o.Error
	if o.Fault == NoFault {
		outcome = "delivered"
	}
	return &attempt{event: id, place: row.Place, outcome: outcome, status: o.Status, took: o.Took}
}

// chance is drawn anew for each attempt.
func chance() float64 { return rand.Float64() }
