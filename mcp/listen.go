package mcp

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const (
	// drainEach and drainMax spread the ends of streams when the process stops, so
	// that their clients do not all come back at one moment.
	drainEach = 5 * time.Millisecond
	drainMax  = 5 * time.Second
)

// A Listening serves subscriptions/listen: a stream on which a client of the
// modern era hears that a list it may keep is no longer what it was.
type Listening struct {
	// Tools, Prompts and Resources return a channel that is closed at the next
	// change of what their list shows the caller, in whichever process the change
	// is made. Nil stands for a list that never changes; clients are told so.
	Tools, Prompts, Resources func(Caller) <-chan struct{}

	// Enter counts a stream that opens, in all processes together, or refuses it.
	Enter func(context.Context, Caller) (Listener, error)

	// Revoked returns a channel that is closed once the grant is revoked.
	Revoked func(grantID string) <-chan struct{}

	Stopping  <-chan struct{} // closed when the process is to end
	Life      time.Duration   // the most a stream lasts; it ends in the last tenth
	KeepAlive time.Duration   // between comments, for proxies

	open atomic.Int64
}

// A Listener is an open stream among those of its grant.
type Listener struct {
	Ended <-chan struct{} // has a value once the stream has to make room for another
	Leave func()          // takes the stream off the list
}

// Open is how many streams are open now, in this process.
func (l *Listening) Open() int64 { return l.open.Load() }

// filter is what a client wants to hear of, and in the acknowledgement what it
// will. What is not known here is left out of the latter.
type filter struct {
	Tools     bool `json:"toolsListChanged,omitzero"`
	Prompts   bool `json:"promptsListChanged,omitzero"`
	Resources bool `json:"resourcesListChanged,omitzero"`
}

// listen answers subscriptions/listen. A client is told at once that its tools may
// have changed: while it listens, tools/list is exact, and what it kept from
// before may not be.
func (s *Server) listen(ctx context.Context, c *Call) (any, error) {
	l := s.Listening
	var params struct {
		Notifications *filter `json:"notifications"`
	}
	if err := c.Request.Decode(&params); err != nil {
		return nil, err
	}
	if params.Notifications == nil {
		return nil, InvalidParams("params.notifications is required, an object.")
	}
	lists := l.lists(*params.Notifications)
	if len(lists) == 0 {
		return l.nothing(c)
	}
	entered, err := l.Enter(ctx, c.Caller)
	if err != nil {
		return nil, err
	}
	defer entered.Leave()
	l.open.Add(1)
	defer l.open.Add(-1)
	for i := range lists {
		lists[i].watch(c.Caller)
	}
	sse, err := c.OpenStream()
	if err == nil {
		err = acknowledge(sse, lists)
	}
	if err != nil {
		return nil, err
	}
	return l.run(ctx, c.Caller, sse, entered.Ended, lists)
}

// nothing answers a client that wants to hear of nothing that there is.
func (l *Listening) nothing(c *Call) (any, error) {
	sse, err := c.OpenStream()
	if err == nil {
		err = acknowledge(sse, nil)
	}
	return Ended("nothing-to-hear"), err
}

// A watched list is one that the stream tells of.
type watched struct {
	name    string // "tools"
	changes func(Caller) <-chan struct{}
	changed <-chan struct{}
}

// watch begins to wait for the next change.
func (w *watched) watch(c Caller) { w.changed = w.changes(c) }

// lists are those that are asked for and can change.
func (l *Listening) lists(f filter) []watched {
	var all []watched
	for _, w := range []struct {
		watched

		asked bool
	}{
		{watched{name: "tools", changes: l.Tools}, f.Tools},
		{watched{name: "prompts", changes: l.Prompts}, f.Prompts},
		{watched{name: "resources", changes: l.Resources}, f.Resources},
	} {
		if w.asked && w.changes != nil {
			all = append(all, w.watched)
		}
	}
	return all
}

// acknowledge says what the client will hear of, and that its tools changed.
func acknowledge(sse *SSE, lists []watched) error {
	var params struct {
		Notifications filter `json:"notifications"`
	}
	f := &params.Notifications
	for _, w := range lists {
		f.Tools = f.Tools || w.name == "tools"
		f.Prompts = f.Prompts || w.name == "prompts"
		f.Resources = f.Resources || w.name == "resources"
	}
	if err := sse.Notify("notifications/subscriptions/acknowledged", params); err != nil {
		return err
	}
	if f.Tools {
		if err := noteChange(sse, "tools"); err != nil {
			return err
		}
	}
	return sse.Flush()
}

func noteChange(sse *SSE, list string) error {
	return sse.Notify("notifications/"+list+"/list_changed", nil)
}

// run tells of changes until something ends the stream. A change that comes while
// another is being told of is told of after it.
func (l *Listening) run(ctx context.Context, c Caller, sse *SSE, ended <-chan struct{}, lists []watched) (any, error) {
	life := time.NewTimer(l.Life - rand.N(l.Life/10+1))
	defer life.Stop()
	quiet := time.NewTicker(l.KeepAlive)
	defer quiet.Stop()
	revoked := l.revoked(c)
	stopping, stopped := l.Stopping, (<-chan time.Time)(nil)
	var w [3]watched // one that is not watched never changes
	copy(w[:], lists)
	for {
		var err error
		select {
		case <-revoked: // before changes, of which there is no end then
			return Ended("revoked"), nil
		default:
		}
		select {
		case <-w[0].changed:
			err = w[0].tell(c, sse, revoked)
		case <-w[1].changed:
			err = w[1].tell(c, sse, revoked)
		case <-w[2].changed:
			err = w[2].tell(c, sse, revoked)
		case <-quiet.C:
			err = sse.KeepAlive()
		case <-revoked:
			return Ended("revoked"), nil
		case <-ended:
			return Ended("displaced"), nil
		case <-stopping:
			stopping, stopped = nil, time.After(rand.N(min(time.Duration(l.open.Load())*drainEach, drainMax)+1))
		case <-stopped:
			return Ended("stopping"), nil
		case <-life.C:
			return nil, ErrAbrupt
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err == nil {
			err = sse.Flush()
		}
		if err != nil {
			return nil, err
		}
	}
}

// tell begins to wait for the change after this one and then tells of this one. A
// revocation is a change, too, of which the end of the stream tells.
func (w *watched) tell(c Caller, sse *SSE, revoked <-chan struct{}) error {
	w.watch(c)
	select {
	case <-revoked:
		return nil
	default:
		return noteChange(sse, w.name)
	}
}

func (l *Listening) revoked(c Caller) <-chan struct{} {
	if l.Revoked == nil {
		return nil
	}
	return l.Revoked(c.GrantID)
}

// Ended is the final result of a stream. It says why, since what a client has to
// do depends on it: one that was displaced and simply came back would displace the
// next.
func Ended(why string) any {
	return struct {
		Meta map[string]string `json:"_meta"`
	}{map[string]string{"exchange.sidequest/ended": why}}
}
