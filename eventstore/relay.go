package eventstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sidequest/failpoint"
)

// The JetStream stream that holds the copy of the log, and its bounds. It is a
// cache: what ages out of it is still in Postgres.
const (
	streamName     = "MKT"
	streamSubjects = "mkt.>"
	streamAge      = 72 * time.Hour
	streamBytes    = 4 << 30
)

// streamMemory is how long the server swallows a message whose id it has had, the
// least it allows. The relay needs none of it: the fence keeps doubles out. And a
// purge does not clear it, so that a copy begun anew would have holes.
const streamMemory = 100 * time.Millisecond

// ackLimit bounds the wait for an acknowledgement. After it the relay looks at
// what the stream holds and goes on from there.
const ackLimit = 5 * time.Second

// errTwice says that the server swallowed a message because it had had its id just
// before. Whether the stream holds it is for the relay to look up.
var errTwice = errors.New("the server has had this message already")

// relayPoll bounds the delay that a lost wake-up costs.
const relayPoll = time.Second

// A Relay copies the log to JetStream, in order, without gaps or doubles.
//
// Every message is published on condition that its predecessor is the last one
// in the stream (Nats-Expected-Last-Msg-Id), and message ids are positions; the
// first one, that nothing came since the stream was found empty. So the server
// refuses whatever comes twice or out of turn, and a second relay that wakes up
// late can do no harm.
type Relay struct {
	Store     *Store
	JetStream jetstream.JetStream
	Owner     string // names this process among those that share the lease
	Replicas  int    // nodes of a NATS cluster that keep the copy; 0 for one
}

// Run relays until ctx is done. NATS may come and go; the relay goes on from
// what the stream holds.
func (r *Relay) Run(ctx context.Context) error {
	r.Store.Singly(ctx, "relay", r.Owner, relayPoll, func(ctx context.Context) error {
		if !r.JetStream.Conn().IsConnected() {
			return nil // it reconnects by itself, and /health tells
		}
		return r.relay(ctx)
	})
	return nil
}

// relay catches up and follows the log for as long as the lease is ours.
func (r *Relay) relay(ctx context.Context) error {
	stream, err := r.stream(ctx)
	if err != nil {
		return err
	}
	last, err := r.last(ctx, stream)
	if err != nil {
		return err
	}
	rang, stop := r.Store.Wake.Listen(TopicLog)
	defer stop()
	connections := r.JetStream.Conn().Stats().Reconnects
	var renewed time.Time
	var ahead []Recorded
	for ctx.Err() == nil {
		if r.JetStream.Conn().Stats().Reconnects != connections {
			return nil // a server that comes back may not hold what the one before did
		}
		if time.Since(renewed) >= relayPoll { // each renewal is a commit, and pages come faster
			failpoint.Reach(failpoint.RelayRenewing)
			mine, err := r.Store.lease(ctx, "relay", r.Owner)
			if err != nil || !mine {
				return err
			}
			renewed = time.Now()
		}
		now, err := r.Store.end(ctx)
		if err != nil {
			return err
		}
		if !now.continues(last.messageID) {
			return errExchanged // the next turn begins the copy anew
		}
		n, err := r.page(ctx, &last, &ahead)
		if err != nil {
			return err
		}
		if n == 0 {
			if err := r.idle(ctx, rang, &last); err != nil {
				return err
			}
		}
	}
	return nil
}

// idle publishes what this process commits as it is handed over, and returns when
// there is something to read: events of other processes, or any that came twice
// or too late. It returns in time to renew the lease.
func (r *Relay) idle(ctx context.Context, rang <-chan struct{}, last *copied) error {
	renew := time.NewTimer(relayPoll)
	defer renew.Stop()
	for {
		select {
		case events := <-r.Store.batcher.fresh:
			if err := r.take(ctx, last, events); err != nil {
				return err
			}
		case <-rang: // perhaps of what is being handed over
			if err := r.takeAll(ctx, last); err != nil {
				return err
			}
			now, err := r.Store.end(ctx)
			if err != nil || now != last.messageID {
				return err
			}
		case <-renew.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// take publishes events that were handed over, if they are the next ones. The
// others are read, since a ring goes with them.
func (r *Relay) take(ctx context.Context, last *copied, events []Recorded) error {
	if events[0].Position != last.pos+1 {
		return nil
	}
	return r.publish(ctx, last, events)
}

func (r *Relay) takeAll(ctx context.Context, last *copied) error {
	for {
		select {
		case events := <-r.Store.batcher.fresh:
			if err := r.take(ctx, last, events); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (r *Relay) stream(ctx context.Context) (jetstream.Stream, error) {
	s, err := r.JetStream.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name:       streamName,
		Subjects:   []string{streamSubjects},
		Retention:  jetstream.LimitsPolicy,
		Discard:    jetstream.DiscardOld,
		Storage:    jetstream.FileStorage,
		Replicas:   max(r.Replicas, 1),
		MaxAge:     streamAge,
		MaxBytes:   streamBytes,
		Duplicates: streamMemory,
	})
	if err != nil {
		return nil, fmt.Errorf("relay: make the stream: %w", err)
	}
	return s, nil
}

// A messageID is a position in an epoch of the log.
type messageID struct {
	epoch int
	pos   int64
}

func (id messageID) String() string {
	return strconv.Itoa(id.epoch) + "." + strconv.FormatInt(id.pos, 10)
}

func parseMessageID(s string) (messageID, error) {
	epoch, pos, _ := strings.Cut(s, ".")
	e, err := strconv.Atoi(epoch)
	if err != nil {
		return messageID{}, fmt.Errorf("message id %q: %w", s, err)
	}
	p, err := strconv.ParseInt(pos, 10, 64)
	if err != nil {
		return messageID{}, fmt.Errorf("message id %q: %w", s, err)
	}
	return messageID{e, p}, nil
}

// A copied is how far the stream holds the log.
type copied struct {
	messageID        // of its last message; position 0 if it is empty
	sequence  uint64 // of its last message, also if that is gone
}

// last returns what the next message has to follow. Where the stream is not a
// whole copy of this log (it belongs to another epoch, is ahead of a log that was
// restored, or its server lost messages) it is purged and begins again.
func (r *Relay) last(ctx context.Context, stream jetstream.Stream) (copied, error) {
	now, err := r.Store.end(ctx)
	if err != nil {
		return copied{}, err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return copied{}, fmt.Errorf("relay: read the stream: %w", err)
	}
	begin := copied{messageID{epoch: now.epoch}, info.State.LastSeq}
	if info.State.Msgs == 0 {
		return begin, nil
	}
	first, err := idOf(ctx, stream, info.State.FirstSeq)
	if err != nil {
		return copied{}, err
	}
	last, err := idOf(ctx, stream, info.State.LastSeq)
	if err != nil {
		return copied{}, err
	}
	messages := int64(info.State.Msgs)
	if now.continues(last) && last.continues(first) && first.pos > 0 && last.pos-first.pos == messages-1 &&
		info.State.LastSeq-info.State.FirstSeq == info.State.Msgs-1 {
		return copied{last, info.State.LastSeq}, nil
	}
	r.Store.Log.Warn("relay: the stream is not a copy of this log, beginning again",
		"first", first.String(), "last", last.String(), "messages", messages, "head", now.String())
	if err := stream.Purge(ctx); err != nil {
		return copied{}, fmt.Errorf("relay: purge the stream: %w", err)
	}
	failpoint.Reach(failpoint.RelayPurged)
	return begin, nil
}

// idOf returns the id of a message, the zero id if it is not one of ours or the
// server has lost it.
func idOf(ctx context.Context, stream jetstream.Stream, sequence uint64) (messageID, error) {
	msg, err := stream.GetMsg(ctx, sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return messageID{}, nil
	}
	if err != nil {
		return messageID{}, fmt.Errorf("relay: read message %d: %w", sequence, err)
	}
	id, err := parseMessageID(msg.Header.Get(nats.MsgIdHdr))
	if err != nil {
		return messageID{}, nil //nolint:nilerr // whatever it is, it is not of our log
	}
	return id, nil
}

// page publishes the next page of the log. Where there is another one behind it,
// that is read meanwhile, and left in ahead.
func (r *Relay) page(ctx context.Context, last *copied, ahead *[]Recorded) (int, error) {
	events := *ahead
	*ahead = nil
	if len(events) == 0 || events[0].Position != last.pos+1 {
		var err error
		if events, err = r.read(ctx, last.pos); err != nil || len(events) == 0 {
			return 0, err
		}
	}
	acks, err := r.send(*last, events)
	if err != nil {
		return 0, err
	}
	if len(events) == pageEvents {
		if *ahead, err = r.read(ctx, events[len(events)-1].Position); err != nil {
			return 0, err
		}
	}
	return len(events), r.await(ctx, last, events, acks)
}

func (r *Relay) read(ctx context.Context, after int64) ([]Recorded, error) {
	return stretch(ctx, r.Store.Pool, after, after+pageEvents, asRecorded)
}

// publish sends events that follow the last one, and waits for their
// acknowledgements.
func (r *Relay) publish(ctx context.Context, last *copied, events []Recorded) error {
	acks, err := r.send(*last, events)
	if err != nil {
		return err
	}
	return r.await(ctx, last, events, acks)
}

// send sends events that follow the last one.
func (r *Relay) send(last copied, events []Recorded) ([]jetstream.PubAckFuture, error) {
	acks := make([]jetstream.PubAckFuture, 0, len(events))
	for _, e := range events {
		id := messageID{last.epoch, e.Position}
		follows := jetstream.WithExpectLastMsgID(last.String())
		if last.pos == 0 {
			follows = jetstream.WithExpectLastSequence(last.sequence)
		}
		ack, err := r.JetStream.PublishMsgAsync(message(e), jetstream.WithMsgID(id.String()), follows)
		if err != nil {
			return nil, fmt.Errorf("relay: publish position %d: %w", e.Position, err)
		}
		acks, last.messageID = append(acks, ack), id
	}
	failpoint.Reach(failpoint.RelayPublished)
	return acks, nil
}

// await waits until all events that were sent are acknowledged.
func (r *Relay) await(ctx context.Context, last *copied, events []Recorded, acks []jetstream.PubAckFuture) error {
	limit := time.NewTimer(ackLimit)
	defer limit.Stop()
	for i, ack := range acks {
		select {
		case stored := <-ack.Ok():
			if stored.Duplicate {
				return fmt.Errorf("relay: publish position %d: %w", events[i].Position, errTwice)
			}
			last.pos = events[i].Position
			limit.Reset(ackLimit)
		case err := <-ack.Err():
			return fmt.Errorf("relay: publish position %d: %w", events[i].Position, err)
		case <-limit.C:
			return fmt.Errorf("relay: publish position %d: %w", events[i].Position, nats.ErrTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	failpoint.Reach(failpoint.RelayCopied)
	return nil
}

// message puts an event on the wire: the data as recorded, the rest as headers.
func message(e Recorded) *nats.Msg {
	board := e.Board
	if board == "" {
		board = "_"
	}
	m := nats.NewMsg("mkt." + board + "." + e.Stream.Category() + "." + e.Stream.ID() + "." + e.Type)
	m.Data = e.Data
	m.Header = nats.Header{
		"Sidequest-Event-Id": {e.ID},
		"Sidequest-Version":  {strconv.Itoa(e.Version)},
		"Sidequest-Actor":    {string(e.Actor)},
		"Sidequest-At":       {e.At.Format(time.RFC3339Nano)},
	}
	return m
}
