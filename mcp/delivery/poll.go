package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"sidequest/mcp"
	"sidequest/projections"
)

const (
	defaultEvents = 50
	maxEvents     = 100
	maxBytes      = 1 << 20 // of occurrences in one answer
	maxWait       = 25 * time.Second
	pollEvery     = 60 * time.Second // what a client is asked to leave between polls

	maxWaitingOfGrant = 4 // more polls do not wait but are answered at once
	maxWaitingInAll   = 2000
)

// pollParameters are those of events/poll.
type pollParameters struct {
	parameters
	MaxEvents jsontext.Value `json:"maxEvents"`
	TimeoutMS jsontext.Value `json:"timeoutMs"`
}

type pollAnswer struct {
	Events     []jsontext.Value `json:"events"`
	Cursor     string           `json:"cursor"`
	HasMore    bool             `json:"hasMore"`
	Truncated  bool             `json:"truncated"`
	NextPollMS int64            `json:"nextPollMs"`
}

// poll answers events/poll: a page, or where there is none, after up to
// timeoutMs, the first rows that come.
func (f *Feeds) poll(ctx context.Context, c *mcp.Call) (any, error) {
	var params pollParameters
	if err := c.Request.Decode(&params); err != nil {
		return nil, err
	}
	sub, err := f.subscription(c.Caller, params.parameters)
	if err != nil {
		return nil, err
	}
	limit, err := number("maxEvents", params.MaxEvents, 1, maxEvents, defaultEvents)
	if err != nil {
		return nil, err
	}
	wait, err := number("timeoutMs", params.TimeoutMS, 0, int(maxWait.Milliseconds()), 0)
	if err != nil {
		return nil, err
	}
	if err := f.awaitTail(ctx); err != nil {
		return nil, err
	}
	if err := f.Store.AwaitOwn(ctx, c.Caller.AgentKey, []string{projections.Feed.Checkpoint()}); err != nil {
		return nil, err
	}
	return f.answer(ctx, c.Caller.GrantID, sub, limit, time.Duration(wait)*time.Millisecond)
}

// answer listens first and reads then, so that no row comes in between unheard.
// The first read is of the database: the tail may not have seen yet what the
// caller has just written.
func (f *Feeds) answer(ctx context.Context, grant string, sub subscription, limit int, wait time.Duration) (any, error) {
	revocation := f.Revoked(grant)
	l := f.tail.listen(sub.selector)
	defer f.tail.forget(l)
	truncated, err := f.begin(ctx, l, sub)
	if err != nil {
		return nil, err
	}
	page, more, err := f.page(ctx, l, limit)
	if err == nil && len(page) == 0 && !truncated && wait > 0 && f.waiting.enter(grant) {
		defer f.waiting.leave(grant)
		page, more, truncated, err = f.longPoll(ctx, l, sub.feed(), limit, time.After(wait), revocation)
	}
	if err != nil {
		return nil, err
	}
	if fired(revocation) {
		return nil, revoked()
	}
	return f.fill(l, sub.feed(), page, more, truncated), nil
}

// longPoll waits for rows. Rows of the feed that the caller did not select do not
// end the wait, but move the cursor that ends it.
func (f *Feeds) longPoll(ctx context.Context, l *listener, feed projections.FeedID, limit int, over <-chan time.Time, revocation <-chan struct{}) (page []entry, more, truncated bool, err error) {
	for last := false; ; {
		page, more, truncated, err = f.read(ctx, l, feed, limit)
		switch {
		case err != nil || len(page) > 0 || truncated:
			return page, more, truncated, err
		case more:
			continue
		case last:
			return nil, false, false, nil
		}
		select {
		case <-l.wake:
		case <-over:
			last = true
		case <-revocation:
			last = true
		case <-f.draining:
			last = true
		case <-ctx.Done():
			return nil, false, false, ctx.Err()
		}
	}
}

// fill makes the answer, as much as goes into one.
func (f *Feeds) fill(l *listener, feed projections.FeedID, page []entry, more, truncated bool) pollAnswer {
	a := pollAnswer{Events: []jsontext.Value{}, HasMore: more, Truncated: truncated, NextPollMS: pollEvery.Milliseconds()}
	size := 0
	for i, e := range page {
		if size += len(e.occurrence); size > maxBytes && i > 0 {
			a.HasMore, l.place = true, page[i-1].row.Place
			break
		}
		a.Events = append(a.Events, e.occurrence)
	}
	if a.HasMore {
		a.NextPollMS = 0
	}
	a.Cursor = f.cursor(l, feed)
	return a
}

// waiting counts the polls that wait, in all and for each grant.
type waiting struct {
	mu      sync.Mutex
	inAll   int
	ofGrant map[string]int
}

func newWaiting() *waiting { return &waiting{ofGrant: map[string]int{}} }

// enter says whether one more may wait, and counts it if so.
func (w *waiting) enter(grant string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inAll >= maxWaitingInAll || w.ofGrant[grant] >= maxWaitingOfGrant {
		return false
	}
	w.inAll++
	w.ofGrant[grant]++
	return true
}

func (w *waiting) leave(grant string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inAll--
	if w.ofGrant[grant]--; w.ofGrant[grant] == 0 {
		delete(w.ofGrant, grant)
	}
}

func (w *waiting) count() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(w.inAll)
}
