package webhook

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"sidequest/projections"
)

// challengeLimit bounds how long a receiver may take to answer a challenge.
const challengeLimit = 5 * time.Second

// An echo is what a receiver answers to a challenge. In accepts it may name the
// envelopes that it takes beside events, gap and terminated; receivers exist that
// can make nothing of them.
type echo struct {
	Challenge string   `json:"challenge"`
	Accepts   []string `json:"accepts"`
}

// challenge asks a receiver whether it wants what is sent to it. reason is "" if
// it does.
func (h *Hooks) challenge(ctx context.Context, url, id string, secrets [][]byte) (controls bool, reason string, err error) {
	nonce := rand.Text()
	body := fmt.Appendf(nil, `{"type":"verification","challenge":%q}`, nonce)
	o, reply, err := h.post(ctx, message{url, id, "msg_verification_" + rand.Text(), body, secrets}, challengeLimit)
	switch {
	case err != nil:
		return false, "", err
	case o.Fault != NoFault && o.Status == 0:
		return false, o.Error, nil
	case o.Fault != NoFault:
		return false, errChallenge, nil
	}
	var e echo
	echoed := json.Unmarshal(reply, &e) == nil && subtle.ConstantTimeCompare([]byte(e.Challenge), []byte(nonce)) == 1
	if !echoed {
		return false, errChallenge, nil
	}
	return slices.Contains(e.Accepts, "gap") && slices.Contains(e.Accepts, "terminated"), "", nil
}

// confirms asks a receiver that answered 410 whether it is really gone. One stray
// 410 must not end a subscription, and one that is gone must not be asked again
// and again.
func (t *turn) confirms(ctx context.Context) bool {
	_, reason, err := t.challenge(ctx, t.url, t.id, t.secrets)
	return err != nil || reason == ""
}

// stale is how long a lane may stand still before its place is checked against
// what can still be shown.
const stale = projections.Retention - 24*time.Hour

// catchUp moves a lane whose place cannot be served any more: rows are too old, or
// the log is not the one they were from. A receiver that takes it hears of the gap
// first. ok is false if the lane has been given back.
func (t *turn) catchUp(ctx context.Context, r reading) (_ reading, ok bool) {
	if t.epoch == r.head.Epoch && !r.head.Place.Less(t.place) && t.idle < stale {
		return r, true
	}
	start := projections.Start{Cursor: t.Cursors.Encode(t.feed(), t.epoch, t.place)}
	place, truncated, err := t.selector.Begin(ctx, t.DB, t.Cursors, t.feed(), start, t.Now())
	if err != nil {
		t.report(ctx, "cannot find where a webhook goes on", err)
		t.giveBack(ctx, []*lane{t.lane})
		return r, false
	}
	if truncated && t.controls && !t.tellGap(ctx, r.head.Epoch, place) {
		return r, false
	}
	t.epoch, t.place, t.truncated, t.idle = r.head.Epoch, place, truncated, 0
	t.committer.add(t.lane, change{})
	t.truncated = false // it is noted once, for the subscriber to hear once
	pages, _, err := t.pages(ctx, []*lane{t.lane})
	if err != nil {
		t.report(ctx, "cannot read for a webhook", err)
		t.giveBack(ctx, []*lane{t.lane})
		return r, false
	}
	return reading{pages[0], r.head}, true
}

// tellGap sends the envelope that says where the lane goes on. Until it is
// acknowledged the lane stays where it is. A receiver that refuses it goes without.
func (t *turn) tellGap(ctx context.Context, epoch int, place projections.Place) bool {
	cursor := t.Cursors.Encode(t.feed(), epoch, place)
	body := fmt.Appendf(nil, `{"type":"gap","cursor":%q}`, cursor)
	o, _, err := t.post(ctx, message{t.url, t.id, "msg_gap_" + rand.Text(), body, t.secrets}, attemptLimit)
	if err != nil {
		t.release()
		return false
	}
	t.note("gap", o, t.health.Tries+1, Held)
	if o.Fault != EndpointFault {
		return true
	}
	t.health, _ = t.Schedule.After(t.health, o, t.now(), chance())
	t.release()
	return false
}

// terminate ends a subscription whose grant is no more. The receiver hears of it
// once, if it can make something of that.
func (t *turn) terminate(ctx context.Context) {
	if t.controls {
		body := fmt.Appendf(nil, `{"type":"terminated","error":%s}`, t.Ended)
		o, _, err := t.post(ctx, message{t.url, t.id, "msg_terminated_" + rand.Text(), body, t.secrets}, attemptLimit)
		if err == nil {
			t.note("terminated", o, 1, Held)
		}
	}
	_, err := t.DB.Exec(ctx, `
		DELETE FROM hooks.subscriptions
		WHERE sub_id = $1 AND fence = $2`, t.id, t.fence)
	if err != nil {
		t.report(ctx, "cannot end a webhook", err)
		t.giveBack(ctx, []*lane{t.lane})
	}
}

// redeliver sends the rows that somebody asked for once more, each in one attempt.
// They are the same to the byte as the first time. It says whether the lane goes on.
func (t *turn) redeliver(ctx context.Context) bool {
	asked, err := t.redeliveries(ctx)
	if err != nil {
		t.report(ctx, "cannot read what a webhook is to send again", err)
		t.giveBack(ctx, []*lane{t.lane})
		return false
	}
	for _, at := range asked {
		if t.ended() {
			t.release()
			return false
		}
		row, found, err := projections.FeedRowAt(ctx, t.DB, projections.FeedPlace{FeedID: t.feed(), Place: at})
		if err == nil && found {
			if goesOn := t.again(ctx, row); !goesOn {
				return false
			}
		} else if err == nil {
			err = t.redelivered(ctx, at, false)
		}
		if err != nil {
			t.report(ctx, "cannot send a row of a webhook again", err)
			t.giveBack(ctx, []*lane{t.lane})
			return false
		}
	}
	return true
}

func (t *turn) again(ctx context.Context, row projections.FeedRow) bool {
	body, err := row.OccurrenceJSON(t.Cursors, t.ChainID, t.epoch)
	if err != nil {
		t.report(ctx, "cannot encode for a webhook", err)
		return true
	}
	id := row.Feed + ":" + row.RowID
	o, _, err := t.post(ctx, message{t.url, t.id, id, body, t.secrets}, attemptLimit)
	if err != nil {
		t.release()
		return false
	}
	t.note(id, o, 1, Held)
	t.committer.add(t.lane, change{attempt: tried(row, id, o)})
	if o.Fault == EndpointFault {
		t.health, _ = t.Schedule.After(t.health, o, t.now(), chance())
		t.release()
		return false
	}
	if err := t.redelivered(ctx, row.Place, o.Fault == NoFault); err != nil {
		t.report(ctx, "cannot note that a row was sent again", err)
	}
	return true
}
