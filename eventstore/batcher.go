package eventstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sidequest/domain"
)

// Bounds of one batch and of the queue before it. A full queue is an answer,
// overloaded, and never a growing delay.
const (
	batchMembers = 256
	batchBytes   = 1 << 20
	queueMembers = 2048
)

// uncertain bounds how long a batch whose outcome is unknown is sent again
// before its callers hear that they have to ask.
const uncertain = 15 * time.Second

// errMoved says that a guarded stream moved after the decision: decide again.
var errMoved = errors.New("a guarded stream has moved")

// errKnown says that the operation has ended by now: its receipt is the answer.
var errKnown = errors.New("the operation has a receipt")

// ringPace is the shortest time between two rings.
const ringPace = 2 * time.Millisecond

// lanes is how many batches a process may have under way. The log takes one at a
// time, whoever sends it; with a second one waiting at the server, none of its
// time is lost on the way. That pays where batches are large: the second lane
// takes what queues when there is a crowd.
const (
	lanes = 2
	crowd = 32 // members
)

// A batcher appends decisions by natural group commit: whatever queued while the
// last batches were being committed is the next one.
type batcher struct {
	url   string
	wake  *Wake
	log   *slog.Logger
	queue chan *member
	lanes [lanes]*lane

	crowded chan struct{} // has a value when the queue is one for the second lane

	marked chan struct{} // has a value when followers are to be woken

	// fresh hands committed events to a relay in this process, so that it need not
	// read them again. Nobody has to listen: what does not fit is dropped.
	fresh chan []Recorded
}

// freshBatches is how many committed batches wait for the relay.
const freshBatches = 16

// A member is a decision in the queue, and where its outcome goes.
type member struct {
	*decision
	done chan outcome // has room for the one outcome
}

type outcome struct {
	receipt Receipt
	err     error
}

func newBatcher(url string, wake *Wake, log *slog.Logger) *batcher {
	b := &batcher{
		url: url, wake: wake, log: log,
		queue: make(chan *member, queueMembers), crowded: make(chan struct{}, 1), marked: make(chan struct{}, 1), fresh: make(chan []Recorded, freshBatches),
	}
	for i := range b.lanes {
		b.lanes[i] = &lane{batcher: b, token: make(chan struct{}, 1)}
	}
	return b
}

// append appends a decision, by itself if nothing else is to be appended, else
// with all others that queue, and returns its outcome. A caller that leaves does
// not stop the write.
func (b *batcher) append(ctx context.Context, d *decision) (Receipt, error) {
	m := &member{d, make(chan outcome, 1)}
	if b.alone(m) {
		o := <-m.done
		return o.receipt, o.err
	}
	select {
	case b.queue <- m:
		b.callForHelp()
	default:
		return Receipt{}, busy()
	}
	select {
	case o := <-m.done:
		return o.receipt, o.err
	case <-ctx.Done():
		return Receipt{}, fmt.Errorf("append %s: %w", d.op.Tool, ctx.Err())
	}
}

func (b *batcher) callForHelp() {
	if len(b.queue) < crowd {
		return
	}
	select {
	case b.crowded <- struct{}{}:
	default: // it was called before
	}
}

// alone appends the member on the caller's goroutine, or returns false where it
// had better queue: while appends come in batches, they do best together.
func (b *batcher) alone(m *member) bool {
	if len(b.queue) > 0 {
		return false
	}
	first := b.lanes[0]
	return first.last.Load() <= 1 && first.alone(m)
}

// run appends batch after batch until ctx is done and the queue is empty.
func (b *batcher) run(ctx context.Context) {
	stopped := make(chan struct{})
	var ringing, appending sync.WaitGroup
	ringing.Go(func() { b.ring(stopped) })
	appending.Go(func() { b.lanes[0].run(ctx) })
	for _, l := range b.lanes[1:] {
		appending.Go(func() { l.help(ctx) })
	}
	appending.Wait()
	close(stopped)
	ringing.Wait()
}

// compatible splits off the members that can be appended by one statement: no
// two share an operation key, and none guards a stream that another one writes.
// The others keep their order for the next batch.
func compatible(waiting []*member) (batch, rest []*member) {
	keys, written, size := make(map[string]bool, len(waiting)), make(map[domain.Stream]bool, 2*len(waiting)), 0
	batch = make([]*member, 0, len(waiting))
	for _, m := range waiting {
		fits := len(batch) < batchMembers && (size == 0 || size+m.size <= batchBytes) && !keys[m.id]
		for _, g := range m.guards {
			fits = fits && !written[g.stream]
		}
		keys[m.id] = true // also if it has to wait: an earlier member must not be overtaken by its repeat
		if !fits {
			rest = append(rest, m)
			continue
		}
		batch, size = append(batch, m), size+m.size
		for _, e := range m.events {
			written[e.Stream] = true
		}
	}
	return batch, rest
}

// dismiss sends back at once whoever waited while a stream they guard was moved:
// appending them could only tell them so.
func dismiss(waiting []*member, moved map[domain.Stream]bool) (rest []*member) {
	for _, m := range waiting {
		if slices.ContainsFunc(m.guards, func(g guard) bool { return moved[g.stream] }) {
			m.done <- outcome{err: errMoved}
			continue
		}
		rest = append(rest, m)
	}
	return rest
}

// settle gives each member its outcome, and each recorded event its position.
func settle(batch []*member, base int64, codes []int) (outcomes []outcome, recorded []Recorded) {
	outcomes = make([]outcome, len(batch))
	recorded = make([]Recorded, 0, 2*len(batch))
	for i, m := range batch {
		if len(codes) > 0 && codes[i] != 0 {
			outcomes[i].err = notRecorded[codes[i]]
			continue
		}
		outcomes[i].receipt, outcomes[i].err = ended(m.id, m.status, m.result, false)
		for n := range m.events {
			m.events[n].Position = base + int64(len(recorded)+n) + 1
		}
		recorded = append(recorded, m.events...)
	}
	return outcomes, recorded
}

// The outcomes of log.append_one and append_batch but for 0, which is recorded.
const (
	codeKnown = 1
	codeMoved = 2
)

// notRecorded says what the outcomes mean.
var notRecorded = map[int]error{codeKnown: errKnown, codeMoved: errMoved}

func (b *batcher) handOver(events []Recorded) {
	select {
	case b.fresh <- events:
	default: // no relay here, or one that is behind and will read them
	}
}

// mark has the followers woken.
func (b *batcher) mark() {
	select {
	case b.marked <- struct{}{}:
	default: // they will be woken for this too
	}
}

// ring wakes the followers after commits, until the batcher has stopped. A ring
// comes at once, but no two within a moment: what a busy log would spend on
// waking, it has for writing.
func (b *batcher) ring(stopped <-chan struct{}) {
	pace := time.NewTicker(ringPace)
	defer pace.Stop()
	for {
		select {
		case <-b.marked:
			b.wake.Ring(TopicLog)
		case <-stopped:
			if len(b.marked) > 0 {
				b.wake.Ring(TopicLog)
			}
			return
		}
		<-pace.C
	}
}
