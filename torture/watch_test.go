package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sidequest/postgres"
)

// A listener follows one feed over HTTP through any number of lost connections,
// always from its last cursor.
type listener struct {
	feed, audience string

	mu        sync.Mutex
	cursor    string
	heard     []string // ids of events since the last truncation
	truncated int      // how often it was told that it may have missed something
}

func (f *field) listen(a *agent, feed, audience string) *listener {
	l := &listener{feed: feed, audience: audience}
	f.background(func(ctx context.Context) {
		for n := 0; ctx.Err() == nil; n++ {
			_ = a.stream(ctx, f.anywhere(), a.tokens[n%len(a.tokens)], feed, l.place(), l.hear) // whatever ended it, it comes back
			rest(ctx, 10*time.Millisecond+rand.N(50*time.Millisecond))
		}
	})
	return l
}

func (l *listener) place() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cursor
}

func (l *listener) hear(got frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if got.Params.Truncated {
		l.heard, l.truncated = nil, l.truncated+1
	}
	if got.Params.Cursor != "" {
		l.cursor = got.Params.Cursor
	}
	if got.Params.EventID != "" {
		l.heard = append(l.heard, got.Params.EventID)
	}
}

func (l *listener) ids() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.heard...)
}

// A tail reads the log while it is written, with nothing but "after the last
// position", and keeps what it saw.
type tail struct {
	mu  sync.Mutex
	ids []string
	lag time.Duration // the longest from the making of a row until it was seen, since last asked
}

func (f *field) follow() *tail {
	t := &tail{}
	f.background(func(ctx context.Context) {
		for ctx.Err() == nil {
			conn, err := f.direct(ctx, postgres.Program)
			for err == nil && ctx.Err() == nil {
				if err = t.read(ctx, f, conn); err == nil {
					rest(ctx, 5*time.Millisecond)
				}
			}
			if conn != nil {
				_ = conn.Close(context.Background())
			}
			rest(ctx, 50*time.Millisecond)
		}
	})
	return t
}

// read takes in what is behind the last position. A position that is not the next
// one was committed out of order.
func (t *tail) read(ctx context.Context, f *field, conn *pgx.Conn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows, err := conn.Query(ctx, `
		SELECT pos, id, clock_timestamp() - recorded_at
		FROM log.events
		WHERE pos > $1
		ORDER BY pos`, len(t.ids))
	if err != nil {
		return err
	}
	var pos int64
	var id string
	var lag time.Duration
	_, err = pgx.ForEachRow(rows, []any{&pos, &id, &lag}, func() error {
		if pos != int64(len(t.ids))+1 {
			f.violatef("a tail saw position %d after %d", pos, len(t.ids))
			return errors.New("out of order")
		}
		t.ids, t.lag = append(t.ids, id), max(t.lag, lag)
		return nil
	})
	return err
}

// forget begins the tail anew, when the log is another one.
func (t *tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ids = nil
}

func (t *tail) seen() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string{}, t.ids...)
}

// worst returns the longest lag since it was last asked.
func (t *tail) worst() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	lag := t.lag
	t.lag = 0
	return lag
}

// An outsider reads the copy of the log in JetStream as it grows.
type outsider struct{}

// readCopy notes every message that leaves out some before it. What a server has
// lost comes again, and a copy that is begun anew comes from its first message.
func (f *field) readCopy() *outsider {
	o := &outsider{}
	f.background(func(ctx context.Context) {
		conn, err := nats.Connect(f.nats.url(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
		if err != nil {
			f.violatef("the outsider cannot connect: %v", err)
			return
		}
		defer conn.Close()
		for ctx.Err() == nil {
			if js, err := jetstream.New(conn); err == nil {
				o.consume(ctx, f, js)
			}
			rest(ctx, 100*time.Millisecond)
		}
	})
	return o
}

func (o *outsider) consume(ctx context.Context, f *field, js jetstream.JetStream) {
	made := f.copyMade()
	consumer, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return
	}
	messages, err := consumer.Messages()
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, messages.Stop)()
	defer messages.Stop()
	for epoch, before := int64(0), int64(-1); ; {
		m, err := messages.Next()
		if err != nil {
			return
		}
		era, pos := messageID(m.Headers().Get(nats.MsgIdHdr))
		if pos == foreignPosition {
			continue
		}
		if before >= 0 && (pos > before+1 || era != epoch && pos != 1) {
			if f.copyMade() != made {
				return // a stream of the same name, which the client of NATS takes for the one before
			}
			f.violatef("the copy in JetStream goes on with %d.%d after %d.%d", era, pos, epoch, before)
		}
		epoch, before = era, pos
	}
}

// copyMade is when the stream was made, which tells one from another.
func (f *field) copyMade() (made time.Time) {
	_ = f.withCopy(func(ctx context.Context, _ jetstream.JetStream, s jetstream.Stream) error { // else it is none
		info, err := s.Info(ctx)
		if err == nil {
			made = info.Created
		}
		return err
	})
	return made
}

// background runs something until the test ends.
func (f *field) background(do func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do(ctx)
	}()
	f.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// rest returns after the time, or when ctx is done.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
