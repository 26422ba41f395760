package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sidequest/bench/rounds"
	"sidequest/eventstore"
)

// relay measures the copy of the log: what its fence costs, how fast it is made
// anew, and how soon after the answer a write arrives at a consumer.
func (b *bench) relay(ctx context.Context) (err error) {
	s, err := b.open(ctx, "bench_relay")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	events := min(b.events, 400_000)
	if err := s.fill(ctx, events); err != nil {
		return err
	}
	js, err := jetstream.New(s.nats)
	if err != nil {
		return fmt.Errorf("reach JetStream: %w", err)
	}
	if err := b.publishing(ctx, js, s); err != nil {
		return err
	}
	return b.arrival(ctx, js, s, events)
}

func (b *bench) publishing(ctx context.Context, js jetstream.JetStream, s *store) error {
	open := publishing{js: js}
	fenced := publishing{js: js, fenced: true}
	free := rounds.Contestant{Name: "unfenced", Ready: open.empty, Turn: open.publish}
	fence := rounds.Contestant{Name: "fenced", Ready: fenced.empty, Turn: fenced.publish}
	rebuild := rounds.Contestant{
		Name:  "rebuild",
		Ready: func(ctx context.Context, _ int, _ time.Duration) error { return drop(ctx, js, copyStream) },
		Turn:  copying{js, s}.rebuild,
	}
	r, err := b.compare(ctx, 1, []rounds.Contestant{free, fence, rebuild})
	if err != nil {
		return err
	}
	row := func(what string, c, against rounds.Contestant, goal float64) rounds.Row {
		return rounds.AtLeast(what, "msg/s", r.Median(c.Name, rounds.Rate), r.Median(against.Name, rounds.Rate), r.Ratio(c.Name, against.Name, rounds.Rate), goal)
	}
	b.add(row("fenced publishing against unfenced", fence, free, 0.75),
		row("rebuild of the copy against fenced publishing", rebuild, fence, 0.6))
	return nil
}

// The streams: that of the relay, and one to publish to by hand.
const (
	copyStream = "MKT"
	handStream = "HAND"
)

func drop(ctx context.Context, js jetstream.JetStream, stream string) error {
	err := js.DeleteStream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return err
}

// publishing publishes messages of 400 bytes, a thousand under way at a time.
type publishing struct {
	js     jetstream.JetStream
	fenced bool
}

func (p publishing) empty(ctx context.Context, _ int, _ time.Duration) error {
	if err := drop(ctx, p.js, handStream); err != nil {
		return err
	}
	_, err := p.js.CreateStream(ctx, jetstream.StreamConfig{Name: handStream, Subjects: []string{"hand.>"}, Storage: jetstream.FileStorage})
	return err
}

func (p publishing) publish(ctx context.Context, _ int, span time.Duration) (rounds.Sample, error) {
	began, n := time.Now(), 0
	for time.Since(began) < span {
		acks := make([]jetstream.PubAckFuture, page)
		for i := range acks {
			n++
			var opts []jetstream.PublishOpt
			if p.fenced {
				opts = append(opts, jetstream.WithMsgID(fmt.Sprint("1.", n)))
			}
			if p.fenced && n > 1 {
				opts = append(opts, jetstream.WithExpectLastMsgID(fmt.Sprint("1.", n-1)))
			}
			m := nats.NewMsg("hand.load")
			m.Data = []byte(filler)
			var err error
			if acks[i], err = p.js.PublishMsgAsync(m, opts...); err != nil {
				return rounds.Sample{}, err
			}
		}
		for _, ack := range acks {
			select {
			case <-ack.Ok():
			case err := <-ack.Err():
				return rounds.Sample{}, err
			case <-ctx.Done():
				return rounds.Sample{}, ctx.Err()
			}
		}
	}
	return rounds.Sample{Done: n, Elapsed: time.Since(began)}, nil
}

// copying is the work of the program's own relay.
type copying struct {
	js    jetstream.JetStream
	store *store
}

func (c copying) run(ctx context.Context) error {
	r := eventstore.Relay{Store: c.store.Store, JetStream: c.js, Owner: "bench"}
	return r.Run(ctx)
}

// rebuild copies the log into an empty stream and counts what came. It takes a
// second at least, or a busy machine would not get beyond the beginning.
func (c copying) rebuild(ctx context.Context, _ int, span time.Duration) (rounds.Sample, error) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, max(span, time.Second))
	defer cancel()
	if err := c.run(limited); err != nil {
		return rounds.Sample{}, err
	}
	elapsed := time.Since(began)
	info, err := c.info(ctx)
	if err != nil {
		return rounds.Sample{}, err
	}
	return rounds.Sample{Done: int(info.State.Msgs), Elapsed: elapsed}, nil
}

func (c copying) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	stream, err := c.js.Stream(ctx, copyStream)
	if err != nil {
		return nil, fmt.Errorf("find the copy: %w", err)
	}
	return stream.Info(ctx)
}

// The rate at which writes are offered, and the goals for the time from a write's
// answer to its arrival, in milliseconds.
const (
	offered          = 1500
	goalP50, goalP99 = 1, 10
)

// arrival offers writes at a fixed rate while the relay runs, and takes the time
// from each answer to the arrival at an ordered consumer.
func (b *bench) arrival(ctx context.Context, js jetstream.JetStream, s *store, events int) error {
	running, cancel := context.WithCancel(ctx)
	c := copying{js, s}
	var relay sync.WaitGroup
	relay.Go(func() { _ = c.run(running) }) // what it cannot do shows in what arrives
	defer relay.Wait()
	defer cancel()
	if err := c.caughtUp(ctx); err != nil {
		return err
	}
	stream, err := js.Stream(ctx, copyStream)
	if err != nil {
		return fmt.Errorf("find the copy: %w", err)
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy})
	if err != nil {
		return fmt.Errorf("consume the copy: %w", err)
	}
	a := arrivals{answered: map[string]time.Time{}, arrived: map[string]time.Time{}}
	consuming, err := consumer.Consume(func(m jetstream.Msg) { a.arrive(strings.Split(m.Subject(), ".")[3]) })
	if err != nil {
		return fmt.Errorf("consume the copy: %w", err)
	}
	defer consuming.Stop()
	l := &load{store: s, streams: int64(events / 10)}
	n := int(b.span.Seconds()*float64(b.rounds)*offered) + 1
	if err := l.stock(ctx, n); err != nil {
		return err
	}
	if err := a.offer(ctx, l, b.span*time.Duration(b.rounds)); err != nil {
		return err
	}
	took, err := a.await(ctx)
	if err != nil {
		return err
	}
	p50, p99 := 1e3*took[len(took)/2].Seconds(), 1e3*took[len(took)*99/100].Seconds()
	b.add(rounds.AtMost("answer to consumer at 1500/s, p50", "ms", p50, 0, p50, goalP50),
		rounds.AtMost("answer to consumer at 1500/s, p99", "ms", p99, 0, p99, goalP99))
	return b.verify(ctx, l)
}

// caughtUp returns when the copy holds the whole log.
func (c copying) caughtUp(ctx context.Context) error {
	head, err := c.store.Head(ctx)
	if err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		info, err := c.info(ctx)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return false, nil
		}
		return err == nil && info.State.Msgs >= uint64(head), err
	})
}

// poll asks until something holds, for two minutes at most.
func poll(ctx context.Context, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the copy: %w", ctx.Err())
		}
	}
}

// arrivals are the times of answers and arrivals by the stream written to, of
// which there are more than writes.
type arrivals struct {
	mu                sync.Mutex
	answered, arrived map[string]time.Time
}

func (a *arrivals) arrive(stream string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, again := a.arrived[stream]; !again {
		a.arrived[stream] = time.Now()
	}
}

func (a *arrivals) answer(stream string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answered[stream] = time.Now()
}

// offer appends at the rate for a while, whether or not answers keep up.
func (a *arrivals) offer(ctx context.Context, l *load, span time.Duration) error {
	const slice = 10 * time.Millisecond
	var wg sync.WaitGroup
	var failed sync.Once
	var first error
	tick := time.NewTicker(slice)
	defer tick.Stop()
	for began, sent := time.Now(), 0; time.Since(began) < span; <-tick.C {
		for ; sent < min(len(l.ready), int(time.Since(began).Seconds()*offered)); sent++ {
			p := l.ready[sent]
			wg.Go(func() {
				if _, err := p.Append(ctx); err != nil {
					failed.Do(func() { first = err })
					return
				}
				l.acked.Add(1)
				a.answer(p.stream)
			})
		}
	}
	wg.Wait()
	return first
}

// await returns the times from answer to arrival, sorted, once all have arrived. A
// write that arrives before its answer counts as zero.
func (a *arrivals) await(ctx context.Context) ([]time.Duration, error) {
	err := poll(ctx, func() (bool, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.arrived) >= len(a.answered), nil
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	took := make([]time.Duration, 0, len(a.answered))
	for stream, at := range a.answered {
		took = append(took, max(0, a.arrived[stream].Sub(at)))
	}
	slices.Sort(took)
	if err == nil && len(took) == 0 {
		err = errors.New("nothing was answered")
	}
	return took, err
}
