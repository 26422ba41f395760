package eventstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/eventstore/eventstoretest"
)

// totals is a consumer that sums all tallies into one row.
func totals(t *testing.T, p process) eventstore.Consumer {
	t.Helper()
	for _, sql := range []string{
		`CREATE SCHEMA IF NOT EXISTS totals`,
		`CREATE TABLE IF NOT EXISTS totals.total (n bigint NOT NULL, events bigint NOT NULL)`,
		`INSERT INTO totals.total (n, events) VALUES (0, 0)`,
		`INSERT INTO log.checkpoints (name, epoch, pos) VALUES ('totals/1', 1, 0)`,
	} {
		if _, err := p.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return eventstore.Consumer{Name: "totals/1", Schema: "totals", Apply: func(b *pgx.Batch, e eventstore.Recorded) {
		b.Queue(`UPDATE total SET n = n + $1, events = events + 1`, e.Event.(Counted).By)
	}}
}

// consume runs a consumer until the test ends.
func consume(t *testing.T, p process, c eventstore.Consumer) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Consume(ctx, c)
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func TestConsumersOnTwoProcessesApplyEachEventOnce(t *testing.T) {
	t.Parallel()
	db, ns := eventstoretest.NewDB(t), natsServer(t)
	p, q := start(t, db, ns), start(t, db, ns)
	c := totals(t, p)
	consume(t, p, c)
	consume(t, q, c)

	for i := range 100 {
		if _, err := count(t, []process{p, q}[i%2], "ann", fmt.Sprint("k", i), Count{ID: fmt.Sprint(i % 3), By: i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.AwaitOwn(t.Context(), "ann", []string{c.Name}); err != nil {
		t.Fatal(err)
	}
	var n, events int
	if err := p.Pool.QueryRow(t.Context(), `SELECT n, events FROM totals.total`).Scan(&n, &events); err != nil {
		t.Fatal(err)
	}
	if n != 4950 || events != 100 {
		t.Errorf("%d in %d events, want 4950 in 100", n, events)
	}
}

func TestAReaderSeesItsOwnWriteOnAnyProcess(t *testing.T) {
	t.Parallel()
	db, ns := eventstoretest.NewDB(t), natsServer(t)
	p, q := start(t, db, ns), start(t, db, ns)
	c := totals(t, p)
	consume(t, p, c)

	for i := range 30 {
		if _, err := count(t, p, "ann", fmt.Sprint("k", i), Count{ID: "a", By: 1}); err != nil {
			t.Fatal(err)
		}
		if err := q.AwaitOwn(t.Context(), "ann", []string{c.Name}); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := q.Pool.QueryRow(t.Context(), `SELECT n FROM totals.total`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != i+1 {
			t.Fatalf("after write %d the view says %d", i+1, n)
		}
	}
}

func TestAReaderWhoseViewStandsStillIsToldToRepeat(t *testing.T) {
	t.Parallel()
	p := start(t, eventstoretest.NewDB(t), natsServer(t))
	c := totals(t, p) // nobody consumes
	if _, err := count(t, p, "ann", "k", Count{ID: "a", By: 1}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := p.AwaitOwn(ctx, "ann", []string{c.Name}); domain.CodeOf(err) != "unavailable" {
		t.Errorf("%v, want unavailable", err)
	}
	if err := p.AwaitOwn(t.Context(), "bob", []string{c.Name}); err != nil {
		t.Errorf("someone who wrote nothing has to wait: %v", err)
	}
}

func TestAConsumerNeverPassesTheOneItFollows(t *testing.T) {
	t.Parallel()
	p := start(t, eventstoretest.NewDB(t), natsServer(t))
	first := totals(t, p)
	if _, err := p.Pool.Exec(t.Context(), `INSERT INTO log.checkpoints (name, epoch, pos) VALUES ('second/1', 1, 0)`); err != nil {
		t.Fatal(err)
	}
	second := eventstore.Consumer{Name: "second/1", Schema: "totals", After: []string{first.Name}, Apply: func(*pgx.Batch, eventstore.Recorded) {}}
	consume(t, p, second)
	if _, err := count(t, p, "ann", "k", Count{ID: "a", By: 1}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := p.AwaitOwn(ctx, "ann", []string{second.Name}); err == nil {
		t.Error("the second moved before the first")
	}
	consume(t, p, first)
	if err := p.AwaitOwn(t.Context(), "ann", []string{second.Name}); err != nil {
		t.Error(err)
	}
}

func TestRacingRelaysCopyTheLogOnceAndInOrder(t *testing.T) {
	t.Parallel()
	db, ns := eventstoretest.NewDB(t), natsServer(t)
	p, q := start(t, db, ns), start(t, db, ns)
	for i, x := range []process{p, q} {
		js, err := jetstream.New(x.nats)
		if err != nil {
			t.Fatal(err)
		}
		relay := &eventstore.Relay{Store: x.Store, JetStream: js, Owner: fmt.Sprint("process ", i)}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = relay.Run(ctx)
		}()
		t.Cleanup(func() { cancel(); <-done })
	}
	for i := range 60 {
		if _, err := count(t, p, "ann", fmt.Sprint("k", i), Count{ID: fmt.Sprint(i % 3), By: 1, Times: 2}); err != nil {
			t.Fatal(err)
		}
	}
	js, err := jetstream.New(p.nats)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stream holds the whole log", func() bool {
		s, err := js.Stream(t.Context(), "MKT")
		if err != nil {
			return false
		}
		info, err := s.Info(t.Context())
		return err == nil && info.State.Msgs == 120
	})
	s, err := js.Stream(t.Context(), "MKT")
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 120; i++ {
		m, err := s.GetMsg(t.Context(), uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		if id := m.Header.Get(nats.MsgIdHdr); id != fmt.Sprintf("1.%d", i) {
			t.Errorf("message %d has id %s", i, id)
		}
	}
}
