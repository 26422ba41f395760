package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sidequest/bench/rounds"
	"sidequest/postgres"
)

// The names of the contestants.
const (
	nameRaw       = "raw insert"
	nameAppend    = "append"
	nameExecute   = "execute"
	nameMessageDB = "message-db"
	nameWatermill = "watermill-sql"
)

// writerCounts are the concurrencies of the comparison, with the goal of each as
// a ratio to single-row inserts.
var writerCounts = []struct {
	writers int
	goal    float64
	others  bool // the other event stores run beside
}{
	{1, 0.6, false},
	{8, 0.6, true},
	{32, 0.9, true},
	{128, 1.5, false},
}

// append compares appends with single-row inserts, and with what other event
// stores do, over numbers of writers.
func (b *bench) append(ctx context.Context) (err error) {
	s, err := b.open(ctx, "bench_append")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	events := min(b.events, 400_000)
	if err := s.fill(ctx, events); err != nil {
		return err
	}
	r := &raw{url: b.cluster.URL(s.name, postgres.Program)}
	if err := r.create(ctx, s.owns); err != nil {
		return err
	}
	l := &load{store: s, streams: int64(events / 10)}
	ours := []rounds.Contestant{
		{Name: nameRaw, Once: r.once},
		{Name: nameAppend, Ready: l.prepare, Once: l.append},
		{Name: nameExecute, Once: l.execute},
	}
	others, rest, quit, err := b.others(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, quit()) }()
	curves := newCurves()
	for _, c := range writerCounts {
		contestants := ours
		if c.others {
			contestants = append(slices.Clip(contestants), others...)
		}
		if err := r.connect(ctx, c.writers); err != nil {
			return err
		}
		result, err := b.compare(ctx, c.writers, contestants)
		r.hangUp(ctx)
		rest()
		if err != nil {
			return err
		}
		b.reportAppend(c.writers, c.goal, result)
		curves.add(fmt.Sprint(c.writers), result)
	}
	curves.draw(&b.report, "writers")
	return b.verify(ctx, l)
}

// compare warms up with a turn of each that does not count, and measures.
func (b *bench) compare(ctx context.Context, writers int, contestants []rounds.Contestant) (rounds.Result, error) {
	plan := rounds.Plan{Rounds: 1, Span: b.span / 2, Writers: writers, Meter: b.meter}
	if _, err := rounds.Run(ctx, plan, contestants...); err != nil {
		return nil, err
	}
	plan.Rounds, plan.Span = b.rounds, b.span
	return rounds.Run(ctx, plan, contestants...)
}

func (b *bench) reportAppend(writers int, goal float64, r rounds.Result) {
	at := fmt.Sprintf("@%d", writers)
	row := func(name, against string, goal float64) rounds.Row {
		return rounds.AtLeast(name+" "+at+" against "+against, "/s",
			r.Median(name, rounds.Rate), r.Median(against, rounds.Rate), r.Ratio(name, against, rounds.Rate), goal)
	}
	b.add(row(nameAppend, nameRaw, goal), row(nameExecute, nameRaw, 0),
		rounds.AtMost("append p50 "+at, "ms", 1e3*r.Median(nameAppend, rounds.P50), 1e3*r.Median(nameRaw, rounds.P50), r.Ratio(nameAppend, nameRaw, rounds.P50), 0),
		rounds.AtMost("append p99 "+at, "ms", 1e3*r.Median(nameAppend, rounds.P99), 1e3*r.Median(nameRaw, rounds.P99), r.Ratio(nameAppend, nameRaw, rounds.P99), only(writers == 32, 1)),
		rounds.AtMost("append processor time "+at, "µs", 1e6*r.Median(nameAppend, rounds.CPU), 1e6*r.Median(nameRaw, rounds.CPU), r.Ratio(nameAppend, nameRaw, rounds.CPU), only(writers == 32, 0.6)),
		rounds.AtMost("flushes per append "+at, "", r.Total(nameAppend, rounds.Syncs), r.Total(nameRaw, rounds.Syncs), r.Total(nameAppend, rounds.Syncs), only(writers == 32, 0.1)+only(writers == 128, 0.03)))
	if len(r[nameMessageDB]) > 0 {
		b.add(row(nameAppend, nameMessageDB, only(writers == 32, 5)+only(writers == 8, 1.5)))
	}
	if len(r[nameWatermill]) > 0 {
		b.add(row(nameAppend, nameWatermill, 0))
	}
}

// only is the goal where there is one, else 0.
func only(here bool, goal float64) float64 {
	if here {
		return goal
	}
	return 0
}

// verify counts what was acknowledged and is not there, or is there and was not
// acknowledged.
func (b *bench) verify(ctx context.Context, l *load) error {
	wrong, err := l.check(ctx)
	if err != nil {
		return fmt.Errorf("compare the log with the acknowledgements: %w", err)
	}
	b.add(rounds.Row{Name: "lost, doubled or out of order: " + l.store.name, Ours: float64(wrong), Most: true, Pass: wrong == 0})
	if wrong != 0 {
		return fmt.Errorf("%d operations or events of %s are not what was acknowledged", wrong, l.store.name)
	}
	return nil
}

// growth compares appends to a long log with appends to one of a fifth.
func (b *bench) growth(ctx context.Context) (err error) {
	var loads []*load
	for _, size := range []int{b.events / 5, b.events} {
		s, err := b.open(ctx, fmt.Sprintf("bench_growth_%d", size))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.stop()) }() //nolint:gocritic // one for each of two stores
		if err := s.fill(ctx, size); err != nil {
			return err
		}
		loads = append(loads, &load{store: s, streams: int64(size / 10)})
	}
	short, long := fmt.Sprintf("append at %d events", b.events/5), fmt.Sprintf("append at %d events", b.events)
	r, err := b.compare(ctx, 32, []rounds.Contestant{
		{Name: short, Ready: loads[0].prepare, Once: loads[0].append},
		{Name: long, Ready: loads[1].prepare, Once: loads[1].append},
	})
	if err != nil {
		return err
	}
	b.add(rounds.AtLeast(long+" against a fifth", "/s", r.Median(long, rounds.Rate), r.Median(short, rounds.Rate), r.Ratio(long, short, rounds.Rate), 0.75))
	sizes := []string{fmt.Sprint(b.events / 5), fmt.Sprint(b.events)}
	b.draw("append-size-rate.svg", rounds.Plot{
		Title: "Appends with 32 writers over the size of the log", XLabel: "events in the log", YLabel: "appends per second", X: sizes,
		Lines: []rounds.Line{{Name: nameAppend, Y: []float64{r.Median(short, rounds.Rate), r.Median(long, rounds.Rate)}}},
	})
	b.draw("append-size-p99.svg", rounds.Plot{
		Title: "Latency with 32 writers over the size of the log", XLabel: "events in the log", YLabel: "milliseconds", X: sizes,
		Lines: []rounds.Line{
			{Name: "p50", Y: []float64{1e3 * r.Median(short, rounds.P50), 1e3 * r.Median(long, rounds.P50)}},
			{Name: "p99", Y: []float64{1e3 * r.Median(short, rounds.P99), 1e3 * r.Median(long, rounds.P99)}},
		},
	})
	for _, l := range loads {
		if err := b.verify(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// curves are the medians of each contestant over the numbers of writers.
type curves struct {
	x         []string
	rate, p99 map[string][]float64
}

func newCurves() *curves {
	return &curves{rate: map[string][]float64{}, p99: map[string][]float64{}}
}

func (c *curves) add(x string, r rounds.Result) {
	for _, name := range contestantNames {
		c.rate[name] = append(c.rate[name], r.Median(name, rounds.Rate))
		c.p99[name] = append(c.p99[name], 1e3*r.Median(name, rounds.P99))
	}
	c.x = append(c.x, x)
}

var contestantNames = []string{nameAppend, nameRaw, nameExecute, nameMessageDB, nameWatermill}

func (c *curves) draw(r *report, over string) {
	var rate, p99 []rounds.Line
	for _, name := range contestantNames {
		rate = append(rate, rounds.Line{Name: name, Y: c.rate[name]})
		p99 = append(p99, rounds.Line{Name: name, Y: c.p99[name]})
	}
	r.draw("append-"+over+"-rate.svg", rounds.Plot{Title: "Throughput over " + over, XLabel: over, YLabel: "per second", X: c.x, Lines: rate})
	r.draw("append-"+over+"-p99.svg", rounds.Plot{Title: "99th percentile of latency over " + over, XLabel: over, YLabel: "milliseconds", X: c.x, Lines: p99})
}
