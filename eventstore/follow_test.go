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
	return totalsNamed(t, p, "totals")
}

func totalsNamed(t *testing.T, p process, name string) eventstore.Consumer {
	t.Helper()
	for _, sql := range []string{
		`CREATE SCHEMA ` + name,
		`CREATE TABLE ` + name + `.total (n bigint NOT NULL, events bigint NOT NULL)`,
		`INSERT INTO ` + name + `.total (n, events) VALUES (0, 0)`,
		`INSERT INTO log.checkpoints (name, epoch, pos) VALUES ('` + name + `/1', 1, 0)`,
	} {
		if _, err := p.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return eventstore.Consumer{Name: name + "/1", Schema: name, Apply: func(b *pgx.Batch, e eventstore.Recorded) {
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
	db, ns := eventstoretest.NewDB(t), eventstoretest.NewNATS(t)
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
	db, ns := eventstoretest.NewDB(t), eventstoretest.NewNATS(t)
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
	p := start(t, eventstoretest.NewDB(t), eventstoretest.NewNATS(t))
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
	p := start(t, eventstoretest.NewDB(t), eventstoretest.NewNATS(t))
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

func TestAConsumerStandsStillBeforeAPoisonedEventUntilItIsSkipped(t *testing.T) {
	t.Parallel()
	p := start(t, eventstoretest.NewDB(t), eventstoretest.NewNATS(t))
	c := totals(t, p)
	sound := c.Apply
	c.Apply = func(b *pgx.Batch, e eventstore.Recorded) {
		switch e.Event.(Counted).By {
		case 13:
			b.Queue(`UPDATE no_such_table SET n = 1`)
		case 14:
			panic("a fault of the program")
		default:
			sound(b, e)
		}
	}
	for i, by := range []int{1, 2, 13, 4, 14, 5} {
		if _, err := count(t, p, "ann", fmt.Sprint("k", i), Count{ID: "a", By: by}); err != nil {
			t.Fatal(err)
		}
	}
	consume(t, p, c)
	other := totalsNamed(t, p, "others")
	consume(t, p, other)
	if err := p.AwaitHead(t.Context(), []string{other.Name}); err != nil {
		t.Errorf("another consumer is held up: %v", err)
	}
	for _, position := range []int64{3, 5} {
		eventually(t, "the dead letter is written", func() bool {
			letters, err := p.DeadLetters(t.Context())
			return err == nil && len(letters) > 0 && letters[len(letters)-1].Position == position
		})
		if err := p.Skip(t.Context(), c.Name, position+1); domain.CodeOf(err) != "not-found" {
			t.Errorf("skip an event that is sound: %v", err)
		}
		if err := p.Skip(t.Context(), c.Name, position); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "it goes on", func() bool { return p.AwaitHead(t.Context(), []string{c.Name}) == nil })
	var n int
	if err := p.Pool.QueryRow(t.Context(), `SELECT n FROM totals.total`).Scan(&n); err != nil || n != 12 {
		t.Errorf("%d, %v; want 12: all but the skipped events", n, err)
	}
}

func TestRacingRelaysCopyTheLogOnceAndInOrder(t *testing.T) {
	t.Parallel()
	db, ns := eventstoretest.NewDB(t), eventstoretest.NewNATS(t)
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
