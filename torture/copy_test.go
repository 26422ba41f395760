package torture

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// stream is the copy of the log.
const stream = "MKT"

// A copied is one message of the copy.
type copied struct {
	ID, Event, Data string
}

// copyIsTheLog compares the whole stream with the log: all of it, once, in order.
func (f *field) copyIsTheLog() {
	var epoch, head int64
	ok := eventually(patience, func() bool {
		at, err := query[string](f, `SELECT epoch || '.' || pos FROM log.head`)
		if err != nil {
			return false
		}
		epoch, head = messageID(at[0])
		got, err := f.lastCopied()
		return err == nil && got == at[0]
	})
	if !ok {
		got, err := f.lastCopied()
		f.violatef("the copy in JetStream ends at %q and not at %d.%d: %v", got, epoch, head, err)
		return
	}
	got, err := f.copies()
	if err != nil {
		f.violatef("cannot read the copy: %v", err)
		return
	}
	log, err := query[string](f, `SELECT id || ' ' || convert_from(data, 'UTF8') FROM log.events WHERE pos <= $1 ORDER BY pos`, head)
	if err != nil {
		f.violatef("cannot read the log: %v", err)
		return
	}
	var want []copied
	for i, line := range log {
		id, data, _ := strings.Cut(line, " ")
		want = append(want, copied{fmt.Sprintf("%d.%d", epoch, i+1), id, data})
	}
	if len(got) < len(want) { // the head has been copied, so this is a hole
		f.violatef("the copy has %d messages for %d events", len(got), len(want))
		return
	}
	for i := range want {
		if got[i] != want[i] {
			f.violatef("message %d of the copy is %v, want %v", i+1, got[i], want[i])
			return
		}
	}
}

// withCopy does something with the stream.
func (f *field) withCopy(do func(context.Context, jetstream.JetStream, jetstream.Stream) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := nats.Connect(f.nats.url())
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	return do(ctx, js, s)
}

// lastCopied returns the id of the stream's last message, "" if it is empty.
func (f *field) lastCopied() (id string, err error) {
	err = f.withCopy(func(ctx context.Context, _ jetstream.JetStream, s jetstream.Stream) error {
		info, err := s.Info(ctx)
		if err != nil || info.State.Msgs == 0 {
			return err
		}
		m, err := s.GetMsg(ctx, info.State.LastSeq)
		if err == nil {
			id = m.Header.Get(nats.MsgIdHdr)
		}
		return err
	})
	return id, err
}

// copies reads the whole stream.
func (f *field) copies() (all []copied, err error) {
	err = f.withCopy(func(ctx context.Context, js jetstream.JetStream, s jetstream.Stream) error {
		info, err := s.Info(ctx)
		if err != nil {
			return err
		}
		consumer, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
		if err != nil {
			return err
		}
		messages, err := consumer.Messages()
		if err != nil {
			return err
		}
		defer messages.Stop()
		for range info.State.Msgs {
			m, err := messages.Next(jetstream.NextMaxWait(10 * time.Second))
			if err != nil {
				return err
			}
			all = append(all, copied{m.Headers().Get(nats.MsgIdHdr), m.Headers().Get("Sidequest-Event-Id"), string(m.Data())})
		}
		return nil
	})
	return all, err
}

// messageID splits an id of the copy into epoch and position.
func messageID(id string) (epoch, pos int64) {
	a, b, _ := strings.Cut(id, ".")
	epoch, _ = strconv.ParseInt(a, 10, 64)
	pos, _ = strconv.ParseInt(b, 10, 64)
	return epoch, pos
}
