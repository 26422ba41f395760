package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"sidequest/projections"
)

// killSeed names the variable that repeats a run with the same kills.
const killSeed = "SIDEQUEST_KILL_SEED"

func seed(t testing.TB) uint64 {
	t.Helper()
	n := rand.Uint64()
	if given := os.Getenv(killSeed); given != "" {
		var err error
		if n, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("%s: %v", killSeed, err)
		}
	}
	t.Logf("%s=%d", killSeed, n)
	return n
}

// A deed is a write that was answered for good.
type deed struct {
	by     *agent
	tool   string
	args   map[string]any
	answer answer
}

// A siege is a market whose processes are killed while agents work in it.
type siege struct {
	*market
	slots []*slot
	over  atomic.Bool // the last kill is done

	mu    sync.Mutex
	deeds []deed
}

// TestNothingIsLostOrDoneTwiceHoweverOftenProcessesAreKilled lets agents strike
// deals over two processes, of which one after the other is killed at any moment.
func TestNothingIsLostOrDoneTwiceHoweverOftenProcessesAreKilled(t *testing.T) {
	t.Parallel()
	const kills, hirers, workers = 8, 3, 3
	seed := seed(t)
	m := openMarket(t)
	s := &siege{market: m, slots: []*slot{m.serve(t), m.serve(t)}}
	var names []string
	for i := range hirers + workers {
		names = append(names, fmt.Sprintf("agent-%d", i))
	}
	cast := m.join(t, 3, names...)
	var listeners []*listener
	for i, a := range cast {
		listeners = append(listeners, a.follow(t, projections.FeedInbox, s.anywhere(seed, 100+i)))
	}
	listeners = append(listeners, m.join(t, 3, "reporter")[0].follow(t, projections.FeedRequests, s.anywhere(seed, 200)))

	var working sync.WaitGroup
	for i, hirer := range cast[:hirers] {
		working.Go(func() {
			s.strikeDeals(t, hirer, cast[hirers:], rand.New(rand.NewPCG(seed, uint64(i))), s.anywhere(seed, 300+i))
		})
	}
	s.kill(t, kills, rand.New(rand.NewPCG(seed, 1000)))
	s.over.Store(true)
	working.Wait()

	t.Logf("%d writes were answered under %d kills", len(s.deeds), kills)
	s.everyDeedIsDoneOnce(t)
	s.everyRepeatIsAnsweredTheSame(t)
	for i, l := range listeners {
		audience := projections.Everyone
		if i < len(cast) {
			audience = string(cast[i].key)
		}
		s.heardAllInOrder(t, l, audience)
	}
	m.logIsWhole(t)
}

// anywhere returns what names a process to ask next.
func (s *siege) anywhere(seed uint64, who int) func() string {
	chance := rand.New(rand.NewPCG(seed, uint64(who)))
	return func() string { return s.slots[chance.IntN(len(s.slots))].origin() }
}

// kill kills processes at random moments, and starts others in their place.
func (s *siege) kill(t *testing.T, times int, chance *rand.Rand) {
	for range times {
		<-time.After(time.Duration(50+chance.IntN(400)) * time.Millisecond)
		s.slots[chance.IntN(len(s.slots))].restart(t)
	}
}

// strikeDeals makes an agent hire until the siege is over, and a little longer.
func (s *siege) strikeDeals(t *testing.T, hirer *agent, workers []*agent, chance *rand.Rand, origin func() string) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	do := func(by *agent, tool string, args map[string]any) answer {
		a, err := by.insist(ctx, origin, tool, args)
		if err != nil || !a.OK {
			t.Errorf("%s of %s: %v, %s", tool, by.name, err, a.raw)
			return answer{Result: json.RawMessage("{}")}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.deeds = append(s.deeds, deed{by, tool, args, a})
		return a
	}
	for n, last := 0, false; !last && !t.Failed(); n++ {
		last = s.over.Load()
		key := fmt.Sprintf("%s-%d", hirer.name, n)
		id := read[requested](t, do(hirer, "request_quotes", requestArgs(key))).RequestID
		var quotes []string
		for i, worker := range workers {
			for again := range 1 + chance.IntN(2) {
				a := do(worker, "submit_quote", worker.quoteArgs(fmt.Sprintf("%s-%d-%d", key, i, again), id))
				quotes = append(quotes[:i], read[quoted](t, a).QuoteID)
			}
		}
		if chance.IntN(4) == 0 {
			do(hirer, "close_request", map[string]any{"operationKey": key + "-close", "requestId": id})
			continue
		}
		do(hirer, "pick_quote", map[string]any{"operationKey": key + "-pick", "requestId": id, "quoteId": quotes[chance.IntN(len(quotes))]})
	}
}

// everyDeedIsDoneOnce compares the record with what was answered: each write is
// there, no more often than once, and nothing is there that nobody asked for.
func (s *siege) everyDeedIsDoneOnce(t *testing.T) {
	want, got := map[string]int{}, map[string]int{}
	event := map[string]string{
		"request_quotes": "request.opened", "submit_quote": "quote.submitted", "pick_quote": "request.picked", "close_request": "request.closed",
	}
	for _, d := range s.deeds {
		want[event[d.tool]+" by "+d.answer.OperationID]++
	}
	for _, line := range query[string](t, s.market, `
		SELECT type || ' by ' || causation
		FROM log.events
		WHERE type = ANY ($1)`, slices.Collect(maps.Values(event))) {
		got[line]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what was answered and what is on record (-answered +recorded):\n%s", diff)
	}
}

func (s *siege) everyRepeatIsAnsweredTheSame(t *testing.T) {
	head := s.head(t)
	for i, d := range s.deeds {
		if again := d.by.at(s.slots[i%len(s.slots)].origin()).must(t, d.tool, d.args); again.raw != d.answer.raw {
			t.Errorf("%s was answered %s, and later %s", d.tool, d.answer.raw, again.raw)
		}
	}
	if now := s.head(t); now != head {
		t.Errorf("repeats moved the log from %d to %d", head, now)
	}
}

// heardAllInOrder compares what a listener heard over all its streams with the feed.
func (s *siege) heardAllInOrder(t *testing.T, l *listener, audience string) {
	want := s.feedIDs(t, l.feed, audience)
	l.comesToHold(func() bool {
		return len(want) == 0 || len(l.heard) > 0 && l.heard[len(l.heard)-1].EventID == want[len(want)-1]
	})
	if diff := cmp.Diff(want, l.ids(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s of %s, over %d streams (-feed +heard):\n%s", l.feed, audience, l.opened, diff)
	}
}

// A recorded event as an auditor sees it.
type recordedEvent struct {
	Pos                                  int64
	ID, Stream                           string
	Version                              int
	Type                                 string
	Schema                               int
	Actor, Board, Causation, Correlation string
	At                                   time.Time
	Data, PrevHash, Hash                 []byte
}

// logIsWhole checks what an auditor would: positions and versions have no gaps,
// and every event names and hashes its predecessor.
func (m *market) logIsWhole(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, m.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `
		SELECT pos, id, stream_id, version, type, schema_v, actor, board, causation, correlation, at, data, prev_hash, hash
		FROM log.events
		ORDER BY pos`)
	if err != nil {
		t.Fatal(err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[recordedEvent])
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]recordedEvent{}
	for i, e := range events {
		before := last[e.Stream]
		if e.Pos != int64(i)+1 || e.Version != before.Version+1 || !bytes.Equal(e.PrevHash, before.Hash) || !bytes.Equal(e.Hash, e.digest(t)) {
			t.Fatalf("event %d of the log does not follow from those before: %+v", i+1, e)
		}
		last[e.Stream] = e
	}
	if head := m.head(t); head != int64(len(events)) {
		t.Errorf("the head is at %d, after %d events", head, len(events))
	}
}

// digest is the hash of an event as the format of the export defines it, written
// down a second time.
func (e recordedEvent) digest(t testing.TB) []byte {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"id": e.ID, "stream": e.Stream, "version": e.Version, "type": e.Type, "schema": e.Schema, "actor": e.Actor, "board": e.Board,
		"causation": e.Causation, "correlation": e.Correlation, "at": e.At.UTC().Format("2006-01-02T15:04:05.000000Z"),
		"data": json.RawMessage(e.Data), "prevHash": hex.EncodeToString(e.PrevHash),
	})
	if err != nil {
		t.Fatal(err)
	}
	doc := jsontext.Value(raw)
	if err := doc.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(doc)
	return sum[:]
}

// TestAKilledProcessAnswersTheSameKeyTheSame kills a process under fifty identical
// writes, and asks the one that takes its place.
func TestAKilledProcessAnswersTheSameKeyTheSame(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	s := m.serve(t)
	ann := m.join(t, 1, "ann")[0]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	answers := make([]answer, 50)
	first := make(chan struct{})
	var once sync.Once
	var sending sync.WaitGroup
	for i := range answers {
		sending.Go(func() {
			var err error
			if answers[i], err = ann.insist(ctx, s.origin, "request_quotes", requestArgs("one")); err != nil {
				t.Error(err)
			}
			once.Do(func() { close(first) })
		})
	}
	<-first
	s.restart(t)
	sending.Wait()
	s.restart(t)
	later := ann.at(s.origin()).must(t, "request_quotes", requestArgs("one"))
	for i, a := range answers {
		if a.raw != later.raw {
			t.Errorf("write %d was answered %s, and after the kill %s", i, a.raw, later.raw)
		}
	}
	if n := m.count(t, "request.opened"); n != 1 || !strings.HasPrefix(later.OperationID, "op_") {
		t.Errorf("%d requests were opened: %s", n, later.raw)
	}
}
