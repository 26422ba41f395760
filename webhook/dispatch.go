package webhook

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"sidequest/failpoint"
	"sidequest/projections"
)

const (
	pageRows = 50 // rows of one lane that are read at a time

	// maxSkew bounds how far this machine's clock may be from the database's.
	// Receivers check the time of a signature, so one that is off gets nothing done
	// but makes every receiver look broken.
	maxSkew = time.Minute
)

// dispatch claims lanes that have something to send and serves each in a goroutine
// of its own, as many as the limits allow, until ctx is done.
func (h *Hooks) dispatch(ctx context.Context) {
	all, due := true, time.Now()
	for ctx.Err() == nil {
		if all {
			due = time.Now().Add(h.Limits.Sweep - h.Limits.Sweep/10 + rand.N(h.Limits.Sweep/5+1))
		}
		crowded := h.round(ctx, all)
		h.rest(ctx, due)
		all = crowded || !time.Now().Before(due)
	}
}

// rest returns when there may be something to do, or when everything is due to be
// looked at, however often something else is to do.
func (h *Hooks) rest(ctx context.Context, due time.Time) {
	t := time.NewTimer(time.Until(due))
	defer t.Stop()
	select {
	case <-h.wake:
	case <-t.C:
	case <-ctx.Done():
	}
}

// round claims once. crowded says that lanes may have been left for want of room.
func (h *Hooks) round(ctx context.Context, all bool) (crowded bool) {
	quick := h.quickDemand(all)
	if all || quick.feeds != nil {
		crowded = h.take(ctx, quick)
	}
	if all {
		h.take(ctx, h.slowDemand())
	}
	return crowded
}

func (h *Hooks) quickDemand(all bool) demand {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := demand{limit: h.Limits.Total - h.fast, hosts: maps.Clone(h.hosts), ended: h.ended}
	if !all {
		d.feeds = slices.Collect(maps.Keys(h.stirred))
	}
	if d.limit > 0 {
		clear(h.stirred)
	}
	return d
}

func (h *Hooks) slowDemand() demand {
	h.mu.Lock()
	defer h.mu.Unlock()
	return demand{limit: h.Limits.Slow - h.slow, slow: true, hosts: maps.Clone(h.hosts)}
}

// take claims lanes, reads for all of them at once, and serves them.
func (h *Hooks) take(ctx context.Context, d demand) (crowded bool) {
	if d.limit <= 0 {
		return true
	}
	lanes, err := h.claim(ctx, d)
	if err != nil {
		h.report(ctx, "cannot claim webhooks", err)
		return false
	}
	if len(lanes) == 0 {
		return false
	}
	failpoint.Reach(failpoint.HookClaimed)
	if skew := h.Now().Sub(lanes[0].server).Abs(); skew > maxSkew {
		h.Log.Error("webhooks wait: the clock of this machine is not that of the database", "skew", skew)
		h.giveBack(ctx, lanes)
		return false
	}
	pages, head, err := h.pages(ctx, lanes)
	if err != nil {
		h.report(ctx, "cannot read for webhooks", err)
		h.giveBack(ctx, lanes)
		return false
	}
	busy := maps.Clone(d.hosts)
	for i, l := range lanes {
		busy[l.host]++
		crowded = crowded || busy[l.host] >= h.Limits.PerHost
		h.serve(ctx, l, reading{pages[i], head}, d.slow)
	}
	return crowded || len(lanes) == d.limit
}

// A reading is a page of a lane's feed and how far all feeds had been checked
// before it was read.
type reading struct {
	rows []projections.FeedRow
	head projections.FeedHead
}

func (h *Hooks) pages(ctx context.Context, lanes []*lane) ([][]projections.FeedRow, projections.FeedHead, error) {
	from := make([]projections.FeedPlace, len(lanes))
	for i, l := range lanes {
		from[i] = projections.FeedPlace{FeedID: l.feed(), Place: l.place}
	}
	return projections.FeedPages(ctx, h.DB, from, pageRows)
}

// serve runs a turn of a lane aside. What became visible while the lane was held
// nobody could claim, so its feed is looked at once more afterwards.
func (h *Hooks) serve(ctx context.Context, l *lane, first reading, slow bool) {
	count := func(n int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.hosts[l.host] += n; h.hosts[l.host] == 0 {
			delete(h.hosts, l.host)
		}
		if slow {
			h.slow += n
		} else {
			h.fast += n
		}
	}
	count(1)
	h.turns.Go(func() {
		h.turn(ctx, l, first)
		count(-1)
		h.Stir(map[projections.FeedID]bool{l.feed(): true})
	})
}

// report logs trouble that passes, unless the process is about to end.
func (h *Hooks) report(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		h.Log.Error(what, "error", err)
	}
}
