package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"sidequest/eventstore"
	"sidequest/projections"
	"sidequest/secret"
)

// A Config is what the sending of webhooks needs. Schedule and Limits may be left
// out, for those of the product.
type Config struct {
	DB      *pgxpool.Pool // with [projections.SearchPath]
	Store   *eventstore.Store
	Cursors projections.Cursors
	ChainID int64
	Keys    *secret.Keys // seal the secrets of subscribers
	Signer  Signer
	Outside Outside
	Owner   string // of leases: this process

	// Grant says whether a grant is live, as of now, and returns a channel that is
	// closed once it is revoked.
	Grant func(ctx context.Context, grantID string) (revoked <-chan struct{}, live bool, err error)

	// Ended is the error that the envelope of a subscription that ended carries, as
	// JSON.
	Ended []byte

	Schedule Schedule
	Limits   Limits
	Now      func() time.Time
	Log      *slog.Logger
}

// Limits bound what a process does at a time. They keep a slow receiver from
// taking what others need.
type Limits struct {
	Total   int           // attempts
	PerHost int           // of them, to one host
	Slow    int           // beside Total, for lanes that fail or are slow
	Sweep   time.Duration // between looks for lanes that nothing woke
	Lease   time.Duration // of a lane, by the clock of the database
	Turn    time.Duration // after which a lane is given back; with one attempt more it must end before Lease does
	Commit  time.Duration // for which acknowledgements are collected
}

// StandardLimits returns the limits of the product.
func StandardLimits() Limits {
	return Limits{
		Total: 192, PerHost: 8, Slow: 64,
		Sweep: time.Second, Lease: 30 * time.Second, Turn: 15 * time.Second, Commit: 5 * time.Millisecond,
	}
}

// Hooks is one process's part of the sending. Run must be running.
type Hooks struct {
	Config

	client    *http.Client
	committer *committer

	mu      sync.Mutex
	stirred map[projections.FeedID]bool // feeds with rows that may be new
	hosts   map[string]int              // turns under way
	ended   []string                    // grants that are no more and still have lanes
	fast    int
	slow    int
	wake    chan struct{}
	turns   sync.WaitGroup

	delivered atomic.Uint64
	failed    atomic.Uint64
	buried    atomic.Uint64
}

// New returns the sending of a process.
func New(c Config) *Hooks {
	if c.Schedule.First == 0 {
		c.Schedule = StandardSchedule()
	}
	if c.Limits == (Limits{}) {
		c.Limits = StandardLimits()
	}
	h := &Hooks{
		Config: c, stirred: map[projections.FeedID]bool{}, hosts: map[string]int{}, wake: make(chan struct{}, 1),
		client: &http.Client{
			Transport:     c.Outside.transport(c.Limits.PerHost),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	h.committer = newCommitter(h)
	return h
}

// Run sends until ctx is done. Attempts that are under way then may end, which
// takes ten seconds at most. Call it once.
func (h *Hooks) Run(ctx context.Context) error {
	defer h.client.CloseIdleConnections()
	committing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var g, c errgroup.Group
	c.Go(func() error { h.committer.run(committing); return nil })
	g.Go(func() error { h.dispatch(ctx); return nil })
	g.Go(func() error { h.watchGrants(ctx); return nil })
	g.Go(func() error {
		h.Store.Singly(ctx, "sweep webhooks", h.Owner, sweepPace, h.sweep)
		return nil
	})
	err := g.Wait()
	h.turns.Wait()
	stop()
	_ = c.Wait()
	return err
}

// Stir says that feeds may have new rows.
func (h *Hooks) Stir(feeds map[projections.FeedID]bool) {
	h.mu.Lock()
	for f := range feeds {
		h.stirred[f] = true
	}
	h.mu.Unlock()
	h.rouse()
}

func (h *Hooks) rouse() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Stats are numbers of this process for its metrics.
type Stats struct {
	Delivered, Failed, DeadLetters uint64 // attempts, and rows given up
	UnderWay                       int64  // lanes now
}

// Stats returns the numbers as of now.
func (h *Hooks) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Stats{h.delivered.Load(), h.failed.Load(), h.buried.Load(), int64(h.fast + h.slow)}
}
