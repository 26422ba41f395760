package delivery

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"sidequest/eventstore"
	"sidequest/mcp"
	"sidequest/projections"
	"sidequest/webhook"
)

// A Config is what the delivery of the feed needs. Every field must be set, but
// Hooks, and Pace, whose zero value is [StandardPace].
type Config struct {
	DB      *pgxpool.Pool // with [projections.SearchPath]
	Store   *eventstore.Store
	Cursors projections.Cursors
	ChainID int64
	Network string // [domain.NetworkTest] or [domain.NetworkMain]
	Codes   Codes
	Hooks   *webhook.Hooks // nil where there are no webhooks

	// Revoked returns a channel that is closed once a grant is revoked, and is
	// closed from the start if it already is.
	Revoked func(grantID string) <-chan struct{}

	Now  func() time.Time
	Log  *slog.Logger
	Pace Pace
}

// A Pace says how often things happen that nothing rings for. Each varies by a
// tenth, so that what began together does not go on together.
type Pace struct {
	Sweep     time.Duration // between looks for rows whose ring was lost
	Heartbeat time.Duration // of a stream that has nothing to send
	Renewal   time.Duration // of what a process says about its open streams; well below a minute
	Life      time.Duration // the most a stream lasts; it ends in the last tenth
}

// StandardPace returns the pace of the product.
func StandardPace() Pace {
	return Pace{Sweep: 2 * time.Second, Heartbeat: 20 * time.Second, Renewal: 20 * time.Second, Life: time.Hour}
}

// Feeds serves the feed to the clients of one process. Run must be running.
type Feeds struct {
	Config

	tail     *tail
	register *register
	waiting  *waiting
	catchUp  chan struct{} // has room for the reads of streams behind the tail
	draining chan struct{} // closed when Run ends

	open   atomic.Int64
	frames atomic.Uint64
	misses atomic.Uint64
}

// maxCatchUp bounds the reads at a time for streams that are behind the tail, so
// that a thousand clients coming back leave the database to others as well.
const maxCatchUp = 8

// New returns the feeds of a process.
func New(c Config) *Feeds {
	if c.Pace == (Pace{}) {
		c.Pace = StandardPace()
	}
	f := &Feeds{
		Config:   c,
		waiting:  newWaiting(),
		catchUp:  make(chan struct{}, maxCatchUp),
		draining: make(chan struct{}),
	}
	f.tail = newTail(c.DB, f.encodeAll)
	if c.Hooks != nil {
		f.tail.heard = c.Hooks.Stir
	}
	f.register = newRegister(c.DB, c.Store.Wake)
	return f
}

// Methods returns the rows of the method table.
func (f *Feeds) Methods() map[string]mcp.Method {
	methods := map[string]mcp.Method{
		"events/list":   {Handle: f.list, AllowedInSetup: true},
		"events/poll":   {Handle: f.poll},
		"events/stream": {Handle: f.stream, Stream: true},
	}
	if f.Hooks != nil {
		methods["events/subscribe"] = mcp.Method{Handle: f.subscribe}
		methods["events/unsubscribe"] = mcp.Method{Handle: f.unsubscribe}
	}
	return methods
}

// Run follows the feed and renews the process's open streams until ctx is done.
// Then every stream ends with its final result, spread over up to five seconds,
// and waiting polls answer at once. Call it once.
func (f *Feeds) Run(ctx context.Context) error {
	defer close(f.draining)
	var g errgroup.Group
	g.Go(func() error { return f.follow(ctx) })
	g.Go(func() error { return f.renew(ctx) })
	return g.Wait()
}

// Stats are numbers of this process for its metrics.
type Stats struct {
	OpenStreams  int64  // now
	WaitingPolls int64  // now
	Frames       uint64 // sent in all, with heartbeats
	RingMisses   uint64 // reads in all that a stream had to make itself
}

// Stats returns the numbers as of now.
func (f *Feeds) Stats() Stats {
	return Stats{f.open.Load(), f.waiting.count(), f.frames.Load(), f.misses.Load()}
}

// follow keeps the tail level with the feed.
func (f *Feeds) follow(ctx context.Context) error {
	rang, stop := f.Store.Wake.Listen(eventstore.TopicView(projections.Feed.Checkpoint()))
	defer stop()
	for ctx.Err() == nil {
		err := f.tail.catchUp(ctx)
		if err == nil {
			rest(ctx, rang, vary(f.Pace.Sweep))
			continue
		}
		if ctx.Err() == nil {
			f.Log.Error("cannot follow the feed", "error", err)
		}
		rest(ctx, nil, vary(f.Pace.Sweep)) // rings must not make this a busy loop
	}
	return nil
}

// rest returns when something rang, after the time, or when ctx is done.
func rest(ctx context.Context, rang <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-rang:
	case <-t.C:
	case <-ctx.Done():
	}
}

// vary returns a time within a tenth of d to either side.
func vary(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }
