// Package rounds compares ways of doing the same work on a machine that does
// other work too.
//
// It owns how measurements are taken: contestants take turns within a round, the
// order turns with every round, and what is reported is the median of the ratios
// inside the rounds. Absolute figures are shown with the load of the machine and
// mean little by themselves. The package must not know what is measured.
package rounds

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// ErrSpent is what a contestant's operation returns when it has no more work
// prepared. It ends the writer, not the measurement.
var ErrSpent = errors.New("no more work prepared")

// A Contestant is one way of doing the work.
type Contestant struct {
	Name string

	// Ready prepares a turn outside of the measurement, for so many writers and
	// about so long. It may be nil.
	Ready func(ctx context.Context, writers int, span time.Duration) error

	// Once does one piece of work as one of the writers.
	Once func(ctx context.Context, writer int) error

	// Turn replaces Once where the work is done in another process.
	Turn func(ctx context.Context, writers int, span time.Duration) (Sample, error)
}

// A Sample is what one turn of one contestant gave.
type Sample struct {
	Done    int           `json:"done"`    // pieces of work
	Elapsed time.Duration `json:"elapsed"` // nanoseconds
	P50     time.Duration `json:"p50"`
	P99     time.Duration `json:"p99"`
	CPU     time.Duration `json:"cpu"`   // of client and server together
	Syncs   int64         `json:"syncs"` // of the write-ahead log
}

// A Plan says how a comparison is run.
type Plan struct {
	Rounds  int
	Span    time.Duration // of one turn
	Writers int
	Meter   *Meter
}

// A Result has the samples of each contestant, one a round, in order.
type Result map[string][]Sample

// Run lets the contestants take turns.
func Run(ctx context.Context, p Plan, contestants ...Contestant) (Result, error) {
	result := Result{}
	order := slices.Clone(contestants)
	for round := range p.Rounds {
		for _, c := range order {
			s, err := p.turn(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("round %d of %s with %d writers: %w", round+1, c.Name, p.Writers, err)
			}
			result[c.Name] = append(result[c.Name], s)
		}
		slices.Reverse(order)
	}
	return result, nil
}

func (p Plan) turn(ctx context.Context, c Contestant) (Sample, error) {
	if c.Ready != nil {
		if err := c.Ready(ctx, p.Writers, p.Span); err != nil {
			return Sample{}, fmt.Errorf("prepare: %w", err)
		}
	}
	runtime.GC() // of what the turn before left, at nobody's cost
	before, err := p.Meter.read(ctx)
	if err != nil {
		return Sample{}, err
	}
	var s Sample
	if c.Turn != nil {
		s, err = c.Turn(ctx, p.Writers, p.Span)
	} else {
		s, err = p.repeat(ctx, c)
	}
	if err != nil {
		return Sample{}, err
	}
	after, err := p.Meter.read(ctx)
	if err != nil {
		return Sample{}, err
	}
	s.CPU += after.cpu - before.cpu
	s.Syncs = after.syncs - before.syncs
	return s, nil
}

// repeat has the writers work until the span is over, and waits for what is
// under way then.
func (p Plan) repeat(ctx context.Context, c Contestant) (Sample, error) {
	took := make([][]time.Duration, p.Writers)
	errs := make([]error, p.Writers)
	began := time.Now()
	end := began.Add(p.Span)
	var wg sync.WaitGroup
	for w := range p.Writers {
		wg.Go(func() {
			for now := time.Now(); now.Before(end); {
				if err := c.Once(ctx, w); err != nil {
					if !errors.Is(err, ErrSpent) {
						errs[w] = err
					}
					return
				}
				done := time.Now()
				took[w] = append(took[w], done.Sub(now))
				now = done
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(began)
	return Summarise(slices.Concat(took...), elapsed), errors.Join(errs...)
}

// Summarise makes a sample of the durations of single pieces of work.
func Summarise(took []time.Duration, elapsed time.Duration) Sample {
	s := Sample{Done: len(took), Elapsed: elapsed}
	if len(took) > 0 {
		slices.Sort(took)
		s.P50, s.P99 = took[len(took)/2], took[len(took)*99/100]
	}
	return s
}

// Median returns the median over the rounds of a figure of one contestant.
func (r Result) Median(name string, figure func(Sample) float64) float64 {
	var all []float64
	for _, s := range r[name] {
		all = append(all, figure(s))
	}
	return median(all)
}

// Total returns the mean over all rounds of a figure of one contestant, for what
// is counted too rarely within a round.
func (r Result) Total(name string, figure func(Sample) float64) float64 {
	var all Sample
	for _, s := range r[name] {
		all.Done += s.Done
		all.Elapsed += s.Elapsed
		all.CPU += s.CPU
		all.Syncs += s.Syncs
	}
	return figure(all)
}

// Ratio returns the median over the rounds of one contestant's figure divided by
// that of another in the same round.
func (r Result) Ratio(name, against string, figure func(Sample) float64) float64 {
	var all []float64
	for i, s := range r[name] {
		all = append(all, figure(s)/figure(r[against][i]))
	}
	return median(all)
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	middle := len(all) / 2
	if len(all)%2 == 1 {
		return all[middle]
	}
	return (all[middle-1] + all[middle]) / 2
}

// Rate is pieces of work in a second.
func Rate(s Sample) float64 { return float64(s.Done) / s.Elapsed.Seconds() }

// P50 is the median of the latency in seconds.
func P50(s Sample) float64 { return s.P50.Seconds() }

// P99 is the 99th percentile of the latency in seconds.
func P99(s Sample) float64 { return s.P99.Seconds() }

// CPU is the processor time of one piece of work in seconds.
func CPU(s Sample) float64 { return s.CPU.Seconds() / float64(max(s.Done, 1)) }

// Syncs is how often the write-ahead log was flushed for one piece of work.
func Syncs(s Sample) float64 { return float64(s.Syncs) / float64(max(s.Done, 1)) }
