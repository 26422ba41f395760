package eventstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/eventstore/eventstoretest"
)

func TestFiftyIdenticalWritesOnTwoProcessesHaveOneEffectAndOneAnswer(t *testing.T) {
	t.Parallel()
	db, ns := eventstoretest.NewDB(t), eventstoretest.NewNATS(t)
	processes := []process{start(t, db, ns), start(t, db, ns)}

	receipts := make([]eventstore.Receipt, 50)
	var wg sync.WaitGroup
	for i := range receipts {
		wg.Go(func() {
			var err error
			receipts[i], err = count(t, processes[i%2], "ann", "k1", Count{ID: "a", By: 3})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()

	first := 0
	for _, r := range receipts {
		if string(r.Result) != `{"n":3}` || r.OperationID != receipts[0].OperationID {
			t.Errorf("answer %s of %s, want the same of all", r.Result, r.OperationID)
		}
		if !r.Replayed {
			first++
		}
	}
	if first != 1 {
		t.Errorf("%d writes believe they were the first, want 1", first)
	}
	if events := everything(t, processes[0]); len(events) != 1 {
		t.Errorf("%d events, want 1", len(events))
	}
}

func TestAKeyBelongsToItsOwnerAndItsArguments(t *testing.T) {
	t.Parallel()
	db := eventstoretest.NewDB(t)
	p := start(t, db, eventstoretest.NewNATS(t))

	if _, err := count(t, p, "ann", "k1", Count{ID: "a", By: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := count(t, p, "ann", "k1", Count{ID: "a", By: 2}); domain.CodeOf(err) != "key-conflict" {
		t.Errorf("other arguments: %v, want key-conflict", err)
	}
	other := op(t, "ann", "k1", `{"id":"a","by":1,"times":0}`)
	other.Tool = "recount"
	if _, err := eventstore.Execute(t.Context(), p.Store, other, Count{ID: "a", By: 1}); domain.CodeOf(err) != "key-conflict" {
		t.Errorf("another tool: %v, want key-conflict", err)
	}
	if r, err := count(t, p, "bob", "k1", Count{ID: "a", By: 2}); err != nil || string(r.Result) != `{"n":3}` {
		t.Errorf("another owner: %s, %v, want an effect of its own", r.Result, err)
	}
}

func TestAReusedKeyIsRefusedAlsoWhileTheFirstIsInFlight(t *testing.T) {
	t.Parallel()
	db, ns := eventstoretest.NewDB(t), eventstoretest.NewNATS(t)
	p, q := start(t, db, ns), start(t, db, ns)

	var mu sync.Mutex
	var ok, conflict int
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			_, err := count(t, []process{p, q}[i%2], "ann", "k1", Count{ID: fmt.Sprint(i % 4), By: 1 + i%4})
			mu.Lock()
			defer mu.Unlock()
			switch domain.CodeOf(err) {
			case "":
				ok++
			case "key-conflict":
				conflict++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()

	if ok != 10 || conflict != 30 {
		t.Errorf("%d answered and %d refused, want the 10 of one kind answered and the other 30 refused", ok, conflict)
	}
	if events := everything(t, p); len(events) != 1 {
		t.Errorf("%d events, want 1", len(events))
	}
}

func TestARefusalByStateIsRememberedAndAnyOtherIsNot(t *testing.T) {
	t.Parallel()
	p := start(t, eventstoretest.NewDB(t), eventstoretest.NewNATS(t))

	full := Count{ID: "a", By: 5, Limit: 3}
	if _, err := count(t, p, "ann", "k1", full); domain.CodeOf(err) != "full" {
		t.Fatalf("%v, want full", err)
	}
	full.Limit = 0 // the state has moved on, the receipt has not
	r, err := count(t, p, "ann", "k1", full)
	if domain.CodeOf(err) != "full" || !r.Replayed {
		t.Errorf("%v, want the same refusal from the receipt", err)
	}
	bad := Count{ID: "a", By: -1}
	if _, err := count(t, p, "ann", "k2", bad); domain.CodeOf(err) != "invalid" {
		t.Fatalf("%v, want invalid", err)
	}
	if _, err := count(t, p, "ann", "k2", Count{ID: "a", By: 1}); err != nil {
		t.Errorf("mended arguments with the same key: %v", err)
	}
	if events := everything(t, p); len(events) != 1 {
		t.Errorf("%d events, want 1", len(events))
	}
}

func TestRacingWritersLeaveNoGapAndLoseNothing(t *testing.T) {
	t.Parallel()
	db, ns := eventstoretest.NewDB(t), eventstoretest.NewNATS(t)
	processes := []process{start(t, db, ns), start(t, db, ns)}
	const writers, writes, hot = 16, 40, 5

	acked := make([]int, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range writes {
				c := Count{ID: fmt.Sprint(rand.IntN(hot)), By: 1, Times: 1 + rand.IntN(3)}
				if _, err := count(t, processes[w%2], fmt.Sprint("w", w), fmt.Sprint("k", i), c); err != nil {
					t.Error(err)
					return
				}
				acked[w] += c.Times
			}
		})
	}
	seen := tail(t, processes[0], writers*writes)
	wg.Wait()

	want := 0
	for _, n := range acked {
		want += n
	}
	all := everything(t, processes[1])
	if len(all) != want {
		t.Errorf("%d events in the log, %d acknowledged", len(all), want)
	}
	checkChains(t, all)
	eventually(t, "the tail has seen all", func() bool { return seen() == want })
}

func TestAStreamThatEverybodyWantsLetsOneAfterTheOtherThrough(t *testing.T) {
	t.Parallel()
	db, ns := eventstoretest.NewDB(t), eventstoretest.NewNATS(t)
	processes := []process{start(t, db, ns), start(t, db, ns)}
	const writers = 60

	began := time.Now()
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			if _, err := count(t, processes[i%2], fmt.Sprint("w", i), "k", Count{ID: "hot", By: 1}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	if events := everything(t, processes[0]); len(events) != writers {
		t.Errorf("%d events, want %d", len(events), writers)
	}
	t.Logf("%d writers of one stream took %s, %s each", writers, took, took/writers)
}

// tail follows the log while it is written and returns how much it has seen.
func tail(t *testing.T, p process, _ int) func() int {
	t.Helper()
	var mu sync.Mutex
	n := 0
	go p.Follow(t.Context(), 0, func(events []eventstore.Recorded, _ time.Time) {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range events {
			n++
			if e.Position != int64(n) {
				t.Errorf("the tail saw position %d as number %d", e.Position, n)
			}
		}
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// checkChains checks that versions are contiguous and hashes chained in each stream.
func checkChains(t *testing.T, all []eventstore.Recorded) {
	t.Helper()
	last := map[domain.Stream]eventstore.Recorded{}
	for _, e := range all {
		before := last[e.Stream]
		if e.Version != before.Version+1 || !bytes.Equal(e.PrevHash, before.Hash) {
			t.Errorf("%s version %d does not continue version %d", e.Stream, e.Version, before.Version)
		}
		last[e.Stream] = e
	}
}

func TestAPoisonedWriteDoesNotFailItsNeighbours(t *testing.T) {
	t.Parallel()
	p := start(t, eventstoretest.NewDB(t), eventstoretest.NewNATS(t))

	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			key := fmt.Sprint("k", i)
			if i%10 == 0 {
				key = "k\x00" + key // Postgres has no such text
			}
			_, err := count(t, p, "ann", key, Count{ID: fmt.Sprint(i), By: 1})
			if poisoned := i%10 == 0; poisoned != (err != nil) {
				t.Errorf("write %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if events := everything(t, p); len(events) != 27 {
		t.Errorf("%d events, want 27", len(events))
	}
}

func TestAWriteSurvivesTheLossOfItsConnection(t *testing.T) {
	t.Parallel()
	db := eventstoretest.NewDB(t)
	p := start(t, db, eventstoretest.NewNATS(t))
	owner, err := pgxpool.New(t.Context(), db.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()

	stop := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(30 * time.Millisecond):
				// The program may end its own connections.
				_, _ = p.Pool.Exec(t.Context(), `
					SELECT pg_terminate_backend(pid)
					FROM pg_stat_activity
					WHERE application_name = 'sidequest append' AND datname = current_database()`)
			}
		}
	})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 20 {
				if _, err := count(t, p, fmt.Sprint("w", w), fmt.Sprint("k", i), Count{ID: fmt.Sprint(w), By: 1}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	killer.Wait()
	if events := everything(t, p); len(events) != 160 {
		t.Errorf("%d events, want 160", len(events))
	}
}

func TestTheProgramCannotChangeOrRemoveEvents(t *testing.T) {
	t.Parallel()
	db := eventstoretest.NewDB(t)
	p := start(t, db, eventstoretest.NewNATS(t))
	if _, err := count(t, p, "ann", "k1", Count{ID: "a", By: 1}); err != nil {
		t.Fatal(err)
	}
	owner, err := pgx.Connect(t.Context(), db.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(t.Context())

	for _, sql := range []string{
		`UPDATE log.events SET data = '{}'`,
		`DELETE FROM log.events`,
		`TRUNCATE log.events`,
		`UPDATE log.events_0 SET data = '{}'`,
		`DELETE FROM log.events_0`,
		`UPDATE log.operations SET status = 'refused'`,
		`DELETE FROM log.operations`,
		`DROP TABLE log.events`,
		`ALTER TABLE log.events DISABLE TRIGGER ALL`,
	} {
		_, err := p.Pool.Exec(t.Context(), sql)
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "42501" {
			t.Errorf("%s as the program: %v, want insufficient privilege", sql, err)
		}
	}
	for _, sql := range []string{`UPDATE log.events SET data = '{}'`, `DELETE FROM log.events`, `TRUNCATE log.events`} {
		if _, err := owner.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s as the owner of the table is not refused", sql)
		}
	}
	if events := everything(t, p); len(events) != 1 {
		t.Errorf("%d events, want 1", len(events))
	}
}
