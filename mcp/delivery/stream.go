package delivery

import (
	"context"
	"math/rand/v2"
	"time"

	"sidequest/failpoint"
	"sidequest/mcp"
	"sidequest/projections"
)

const (
	// maxRows bounds what a stream takes at a time. The frames are sent in pieces
	// of bounded size, so this bounds neither memory nor one write.
	maxRows = 50

	// drainEach and drainMax spread the ends of streams when the process stops,
	// so that their clients do not all come back at one moment.
	drainEach = 5 * time.Millisecond
	drainMax  = 5 * time.Second
)

// The notifications of a stream.
const (
	noteActive     = "notifications/events/active"
	noteEvent      = "notifications/events/event"
	noteHeartbeat  = "notifications/events/heartbeat"
	noteError      = "notifications/events/error"
	noteTerminated = "notifications/events/terminated"
)

// stream answers events/stream. Everything there is to refuse is refused before
// the stream opens.
func (f *Feeds) stream(ctx context.Context, c *mcp.Call) (any, error) {
	var params parameters
	if err := c.Request.Decode(&params); err != nil {
		return nil, err
	}
	sub, err := f.subscription(c.Caller, params)
	if err != nil {
		return nil, err
	}
	if err := f.awaitTail(ctx); err != nil {
		return nil, err
	}
	s := &stream{Feeds: f, feed: sub.feed(), l: f.tail.listen(sub.selector), revocation: f.Revoked(c.Caller.GrantID)}
	defer f.tail.forget(s.l)
	var truncated bool
	err = f.inTurn(ctx, func() (err error) {
		truncated, err = f.begin(ctx, s.l, sub)
		return err
	})
	if err != nil {
		return nil, err
	}
	entered, wait, err := f.register.enter(ctx, eventStream, c.Caller.GrantID)
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		return nil, f.Codes.tooManyOpenings(wait)
	}
	defer f.leave(ctx, entered)
	if s.sse, err = c.OpenStream(); err != nil {
		return nil, err
	}
	f.open.Add(1)
	defer f.open.Add(-1)
	return s.run(ctx, entered.ended, truncated)
}

// leave notes that a stream is closed; its client is not told if that fails.
func (f *Feeds) leave(ctx context.Context, s *registration) {
	if err := f.register.leave(ctx, s); err != nil {
		f.Log.Error("cannot close a stream in order", "error", err)
	}
}

// renew renews the open streams until ctx is done.
func (f *Feeds) renew(ctx context.Context) error {
	for ctx.Err() == nil {
		rest(ctx, nil, vary(f.Pace.Renewal))
		if err := f.register.renew(ctx); err != nil && ctx.Err() == nil {
			f.Log.Error("cannot renew the open streams", "error", err)
		}
	}
	return nil
}

// A stream is one open events/stream. It holds its place and nothing of what it
// still has to send.
type stream struct {
	*Feeds
	feed       projections.FeedID
	l          *listener
	sse        *mcp.SSE
	revocation <-chan struct{}
	troubled   bool // the client was told of trouble that is not over
}

// cursorParams are those of a heartbeat.
type cursorParams struct {
	Cursor string `json:"cursor"`
}

type activeParams struct {
	Cursor    string `json:"cursor"`
	Truncated bool   `json:"truncated"`
}

type errorParams struct {
	Error errorBody `json:"error"`
}

type errorBody struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitzero"`
}

// run sends what comes until something ends the stream. A nil result and no error
// is the end a client is told of.
func (s *stream) run(ctx context.Context, ended <-chan struct{}, truncated bool) (any, error) {
	if err := s.note(noteActive, activeParams{s.cursor(s.l, s.feed), truncated}); err != nil {
		return nil, err
	}
	if err := s.sse.Flush(); err != nil {
		return nil, err
	}
	life := time.NewTimer(s.Pace.Life - rand.N(s.Pace.Life/10+1))
	defer life.Stop()
	beat := time.NewTimer(vary(s.Pace.Heartbeat))
	defer beat.Stop()
	draining, drained := s.draining, (<-chan time.Time)(nil)
	due := false // a heartbeat is
	for {
		sent, again, err := s.deliver(ctx, due)
		if err != nil {
			return nil, err
		}
		if sent {
			due = false
			beat.Reset(vary(s.Pace.Heartbeat))
		}
		select {
		case <-again:
		case <-s.l.wake:
		case <-beat.C:
			due = true
		case <-s.revocation:
			return mcp.Ended("revoked"), s.terminate()
		case <-ended:
			return mcp.Ended("displaced"), nil
		case <-draining:
			draining, drained = nil, time.After(s.drainTime())
		case <-drained:
			return mcp.Ended("stopping"), nil
		case <-life.C:
			return nil, mcp.ErrAbrupt
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// deliver sends one page of what is behind the stream's place, or a heartbeat if
// one is due and there is nothing else to send. again says when to come back
// without being woken; nil is not at all.
func (s *stream) deliver(ctx context.Context, due bool) (sent bool, again <-chan time.Time, err error) {
	if fired(s.revocation) { // nothing more is sent, however much there is
		return false, nil, nil
	}
	page, more, truncated, err := s.read(ctx, s.l, s.feed, maxRows)
	if ctx.Err() != nil {
		return false, nil, ctx.Err()
	}
	if err != nil {
		again = time.After(vary(s.Pace.Sweep))
		sent, err = s.trouble(err)
	} else {
		if more {
			again = immediately()
		}
		s.troubled = false
		sent, err = s.write(page, truncated)
	}
	if err == nil && !sent && due {
		sent, err = true, s.note(noteHeartbeat, cursorParams{s.cursor(s.l, s.feed)})
	}
	if err != nil {
		return false, nil, err
	}
	err = s.sse.Flush()
	if sent {
		failpoint.Reach(failpoint.FeedSent)
	}
	return sent, again, err
}

// write adds the frames of a page.
func (s *stream) write(page []entry, truncated bool) (sent bool, err error) {
	if truncated {
		if err := s.note(noteActive, activeParams{s.cursor(s.l, s.feed), true}); err != nil {
			return false, err
		}
	}
	for _, e := range page {
		if err := s.note(noteEvent, e.occurrence); err != nil {
			return false, err
		}
	}
	return truncated || len(page) > 0, nil
}

// trouble tells the client, once, that rows cannot be read at the moment. The
// stream stays and tries again.
func (s *stream) trouble(err error) (sent bool, _ error) {
	if s.troubled {
		return false, nil
	}
	s.troubled = true
	s.Log.Error("a stream cannot read the feed", "feed", s.feed.Feed, "error", err)
	return true, s.note(noteError, errorParams{errorBody{
		Code:    mcp.CodeInternal,
		Message: "The feed cannot be read at the moment. This stream goes on as soon as it can.",
	}})
}

// terminate tells the client that it will hear nothing more.
func (s *stream) terminate() error {
	e := revoked()
	if err := s.note(noteTerminated, errorParams{errorBody{e.Code, e.Message, e.Data}}); err != nil {
		return err
	}
	return s.sse.Flush()
}

func (s *stream) note(method string, params any) error {
	s.frames.Add(1)
	return s.sse.Notify(method, params)
}

// drainTime is how long the stream still lasts once the process stops.
func (s *stream) drainTime() time.Duration {
	return rand.N(min(time.Duration(s.open.Load())*drainEach, drainMax) + 1)
}

// immediately returns a channel that has fired.
func immediately() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}
