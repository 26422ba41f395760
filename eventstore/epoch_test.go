package eventstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sidequest/eventstore"
	"sidequest/eventstore/eventstoretest"
)

func TestAMemoryOfALogThatWasExchangedEnds(t *testing.T) {
	t.Parallel()
	for _, exchange := range []struct {
		name string
		do   func(t *testing.T, db *eventstoretest.DB, p process)
	}{
		{"by a restore of which the operator told", func(t *testing.T, _ *eventstoretest.DB, p process) {
			t.Helper()
			if epoch, err := p.NewEpoch(t.Context()); err != nil || epoch != 2 {
				t.Fatalf("epoch %d, %v", epoch, err)
			}
		}},
		{"by one that lacks what was seen", loseTail},
	} {
		t.Run(exchange.name, func(t *testing.T) {
			t.Parallel()
			db := eventstoretest.NewDB(t)
			p := start(t, db, eventstoretest.NewNATS(t))
			for i := range 3 {
				if _, err := count(t, p, "ann", fmt.Sprint(i), Count{ID: "a", By: 1}); err != nil {
					t.Fatal(err)
				}
			}
			ended, level := make(chan error, 1), make(chan struct{}, 100)
			go func() {
				ended <- p.Follow(t.Context(), 0, func(events []eventstore.Recorded, _ time.Time) {
					if len(events) == 0 {
						select {
						case level <- struct{}{}:
						default:
						}
					}
				})
			}()
			<-level
			exchange.do(t, db, p)
			select {
			case err := <-ended:
				if err == nil {
					t.Error("the memory ended without an error")
				}
			case <-time.After(10 * time.Second):
				t.Error("the memory goes on")
			}
		})
	}
}

// loseTail takes the last event from the log, as if a standby that never got it
// had taken over.
func loseTail(t *testing.T, db *eventstoretest.DB, _ process) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), `
		ALTER TABLE log.events DISABLE TRIGGER USER;
		DELETE FROM log.events WHERE pos = (SELECT pos FROM log.head);
		UPDATE log.streams SET version = version - 1;
		UPDATE log.head SET pos = pos - 1`)
	if err != nil {
		t.Fatal(err)
	}
}

// The relay of a running process must not go on behind a message of the former
// log: what came instead of it would never be copied.
func TestARelayBeginsTheCopyAnewWhenTheLogIsExchangedUnderIt(t *testing.T) {
	t.Parallel()
	db, ns := eventstoretest.NewDB(t), eventstoretest.NewNATS(t)
	p := start(t, db, ns)
	js, err := jetstream.New(p.nats)
	if err != nil {
		t.Fatal(err)
	}
	go (&eventstore.Relay{Store: p.Store, JetStream: js, Owner: "relay"}).Run(t.Context())
	last := func() string {
		stream, err := js.Stream(t.Context(), "MKT")
		if err != nil {
			return ""
		}
		info, err := stream.Info(t.Context())
		if err != nil || info.State.Msgs == 0 {
			return ""
		}
		msg, err := stream.GetMsg(t.Context(), info.State.LastSeq)
		if err != nil {
			return ""
		}
		return fmt.Sprintf("%d messages to %s", info.State.Msgs, msg.Header.Get(nats.MsgIdHdr))
	}
	write := func(key string) {
		if _, err := count(t, p, "ann", key, Count{ID: "a", By: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"1", "2", "3"} {
		write(key)
	}
	eventually(t, "three are copied", func() bool { return last() == "3 messages to 1.3" })
	loseTail(t, db, p)
	eventually(t, "the copy lacks it too", func() bool { return last() == "2 messages to 1.2" })
	write("4")
	eventually(t, "what came instead is copied", func() bool { return last() == "3 messages to 1.3" })
	if _, err := p.NewEpoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is copied under the new epoch", func() bool { return last() == "3 messages to 2.3" })
}
