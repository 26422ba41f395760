package eventstore

import (
	"context"
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

// ackLimit bounds the wait for an acknowledgement. After it the relay looks at
// what the stream holds and goes on from there.
const ackLimit = 5 * time.Second

// relayPoll bounds the delay that a lost wake-up costs.
const relayPoll = time.Second

// A Relay copies the log to JetStream, in order, without gaps or doubles.
//
// Every message is published on condition that its predecessor is the last one
// in the stream (Nats-Expected-Last-Msg-Id), and message ids are positions. So
// the server refuses whatever comes twice or out of turn, and a second relay
// that wakes up late can do no harm.
type Relay struct {
	Store     *Store
	JetStream jetstream.JetStream
	Owner     string // names this process among those that share the lease
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
	for ctx.Err() == nil {
		failpoint.Reach(failpoint.RelayRenewing)
		mine, err := r.Store.lease(ctx, "relay", r.Owner)
		if err != nil || !mine {
			return err
		}
		n, err := r.page(ctx, &last)
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
func (r *Relay) idle(ctx context.Context, rang <-chan struct{}, last *messageID) error {
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
			head, err := r.Store.Head(ctx)
			if err != nil || head > last.pos {
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
func (r *Relay) take(ctx context.Context, last *messageID, events []Recorded) error {
	if events[0].Position != last.pos+1 {
		return nil
	}
	return r.publish(ctx, last, events)
}

func (r *Relay) takeAll(ctx context.Context, last *messageID) error {
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
		Name:      streamName,
		Subjects:  []string{streamSubjects},
		Retention: jetstream.LimitsPolicy,
		Discard:   jetstream.DiscardOld,
		Storage:   jetstream.FileStorage,
		MaxAge:    streamAge,
		MaxBytes:  streamBytes,
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

func (id messageID) String() string { return fmt.Sprintf("%d.%d", id.epoch, id.pos) }

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

// last returns the id the next message has to follow. Where the stream belongs
// to another epoch, or is ahead of the log because the log was restored, it
// holds nothing that is true any more: it is purged and begins again.
func (r *Relay) last(ctx context.Context, stream jetstream.Stream) (messageID, error) {
	var now messageID
	err := r.Store.Pool.QueryRow(ctx, `SELECT epoch, pos FROM log.head WHERE shard = 0`).Scan(&now.epoch, &now.pos)
	if err != nil {
		return messageID{}, fmt.Errorf("relay: read the head: %w", err)
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return messageID{}, fmt.Errorf("relay: read the stream: %w", err)
	}
	if info.State.Msgs == 0 {
		return messageID{epoch: now.epoch}, nil
	}
	msg, err := stream.GetMsg(ctx, info.State.LastSeq)
	if err != nil {
		return messageID{}, fmt.Errorf("relay: read the last message: %w", err)
	}
	id, err := parseMessageID(msg.Header.Get(nats.MsgIdHdr))
	if err == nil && id.epoch == now.epoch && id.pos <= now.pos {
		return id, nil
	}
	r.Store.Log.Warn("relay: the stream is not a copy of this log, beginning again", "last", id.String(), "head", now.String())
	if err := stream.Purge(ctx); err != nil {
		return messageID{}, fmt.Errorf("relay: purge the stream: %w", err)
	}
	failpoint.Reach(failpoint.RelayPurged)
	return messageID{epoch: now.epoch}, nil
}

// page publishes the next page of the log.
func (r *Relay) page(ctx context.Context, last *messageID) (int, error) {
	events, err := r.Store.Read(ctx, last.pos, pageEvents)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	return len(events), r.publish(ctx, last, events)
}

// publish sends events that follow the last one, and waits for their
// acknowledgements.
func (r *Relay) publish(ctx context.Context, last *messageID, events []Recorded) error {
	acks := make([]jetstream.PubAckFuture, 0, len(events))
	before := *last
	for _, e := range events {
		id := messageID{before.epoch, e.Position}
		opts := []jetstream.PublishOpt{jetstream.WithMsgID(id.String())}
		if before.pos > 0 {
			opts = append(opts, jetstream.WithExpectLastMsgID(before.String()))
		}
		ack, err := r.JetStream.PublishMsgAsync(message(e), opts...)
		if err != nil {
			return fmt.Errorf("relay: publish position %d: %w", e.Position, err)
		}
		acks, before = append(acks, ack), id
	}
	failpoint.Reach(failpoint.RelayPublished)
	for i, ack := range acks {
		select {
		case <-ack.Ok():
			last.pos = events[i].Position
		case err := <-ack.Err():
			return fmt.Errorf("relay: publish position %d: %w", events[i].Position, err)
		case <-time.After(ackLimit):
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
	m := nats.NewMsg(fmt.Sprintf("mkt.%s.%s.%s.%s", board, e.Stream.Category(), e.Stream.ID(), e.Type))
	m.Data = e.Data
	m.Header.Set("Sidequest-Event-Id", e.ID)
	m.Header.Set("Sidequest-Version", strconv.Itoa(e.Version))
	m.Header.Set("Sidequest-Actor", string(e.Actor))
	m.Header.Set("Sidequest-At", e.At.Format(time.RFC3339Nano))
	return m
}
