package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// patience is how long the demo waits for what should come at once.
const patience = 10 * time.Second

// A subscription follows one feed of an agent. It keeps its cursor when its
// connection is cut, and continues from there.
type subscription struct {
	owner  *actor
	feed   string
	cursor string          // "" before the first frame
	heard  map[string]bool // events by id, over all connections

	frames chan frame
	hangUp context.CancelFunc
	ended  chan struct{} // closed once the connection is gone
	end    error         // why, from then on
}

// listen opens a feed of the actor from now on.
func (a *actor) listen(ctx context.Context, feed string) (*subscription, error) {
	s := &subscription{owner: a, feed: feed, heard: map[string]bool{}}
	err := s.connect(ctx)
	return s, err
}

// connect opens the stream, from the cursor if there is one.
func (s *subscription) connect(ctx context.Context) error {
	params := map[string]any{"name": s.feed, "cursor": nil}
	if s.cursor != "" {
		params["cursor"] = s.cursor
	}
	ctx, s.hangUp = context.WithCancel(ctx)
	frames, ended := make(chan frame, 100), make(chan struct{})
	s.frames, s.ended = frames, ended
	go func() {
		defer close(ended)
		s.end = s.owner.connection.listen(ctx, params, func(f frame) error {
			if f.Method == frameEvent {
				s.owner.voice.hears(s.owner.part, f.Params.Data.Kind+" — "+f.Params.Data.Summary)
			}
			select {
			case frames <- f:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	f, err := s.next()
	if err == nil && f.Method != frameActive {
		err = fmt.Errorf("%s begins with %q, not with %s", s.feed, f.Method, frameActive)
	}
	return err
}

// cut drops the connection as a failing network would, and waits until it is gone.
func (s *subscription) cut() {
	s.hangUp()
	<-s.ended
}

// next returns the next frame, and remembers its cursor.
func (s *subscription) next() (frame, error) {
	select {
	case f := <-s.frames:
		if f.Params.Cursor != "" {
			s.cursor = f.Params.Cursor
		}
		return f, nil
	case <-s.ended:
		return frame{}, fmt.Errorf("the stream of %s has ended: %w", s.feed, cmp.Or(s.end, errors.New("the server closed it")))
	case <-time.After(patience):
		return frame{}, fmt.Errorf("nothing came on %s in %s", s.feed, patience)
	}
}

// until waits for the next occurrence about a request, which must be of a kind.
// Others are passed over: the market may be busy. None may come twice.
func (s *subscription) until(kind, requestID string) error {
	for {
		f, err := s.next()
		if err != nil {
			return err
		}
		o := f.Params.occurrence
		if f.Method != frameEvent {
			continue
		}
		if s.heard[o.EventID] {
			return fmt.Errorf("%s repeats the event %s", s.feed, o.EventID)
		}
		s.heard[o.EventID] = true
		switch {
		case o.Data.RequestID != requestID:
		case o.Data.Kind != kind:
			return fmt.Errorf("%s says %s of %s, and not %s", s.feed, o.Data.Kind, requestID, kind)
		default:
			return nil
		}
	}
}
