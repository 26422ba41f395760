package eventstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"sidequest/domain"
)

// turns lets the writers of this process that compete for a stream go one after
// the other. Deciding all at once would let one of them through and send all the
// others back, again and again. Writers of other processes compete as ever: the
// guards on versions are what makes it right, this is what makes it fast.
type turns struct {
	mu      sync.Mutex
	streams map[domain.Stream]*turn
}

type turn struct {
	held    chan struct{} // has room for whoever's turn it is
	waiting int           // those who have it or want it
}

// take waits for the turn at every one of the streams, and returns how to give
// them back. They are taken in one order by everyone, so nobody waits in a circle.
// After the deadline it refuses with overloaded.
func (t *turns) take(ctx context.Context, deadline time.Time, streams []domain.Stream) (giveBack func(), err error) {
	tooLate := time.NewTimer(time.Until(deadline))
	defer tooLate.Stop()
	streams = slices.Compact(slices.Sorted(slices.Values(streams)))
	var mine []domain.Stream
	giveBack = func() {
		for _, s := range mine {
			t.leave(s, true)
		}
	}
	for _, s := range streams {
		select {
		case t.enter(s).held <- struct{}{}:
			mine = append(mine, s)
			continue
		case <-tooLate.C:
			err = busy()
		case <-ctx.Done():
			err = ctx.Err()
		}
		t.leave(s, false)
		giveBack()
		return func() {}, err
	}
	return giveBack, nil
}

func (t *turns) enter(s domain.Stream) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.streams == nil {
		t.streams = map[domain.Stream]*turn{}
	}
	if t.streams[s] == nil {
		t.streams[s] = &turn{held: make(chan struct{}, 1)}
	}
	t.streams[s].waiting++
	return t.streams[s]
}

func (t *turns) leave(s domain.Stream, had bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if had {
		<-t.streams[s].held
	}
	if t.streams[s].waiting--; t.streams[s].waiting == 0 {
		delete(t.streams, s)
	}
}
