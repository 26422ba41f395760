package eventstore_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/eventstore/eventstoretest"
)

// A Tally counts. It is the smallest aggregate that can conflict.
type Tally struct{ N int }

var tallies = domain.Category[Tally]{Name: "tally", Events: []domain.Event[Tally]{Counted{}}, SnapshotForm: 1}

type Counted struct {
	By   int    `json:"by"`
	Note string `json:"note,omitempty"`
}

func (Counted) EventType() string     { return "tally.counted" }
func (e Counted) Apply(t Tally) Tally { t.N += e.By; return t }

// Count adds to a tally, Times events at once, up to a limit.
type Count struct {
	ID    string
	By    int
	Times int
	Limit int
	Note  string
}

type CountAnswer struct {
	N int `json:"n"`
}

func (c Count) Reads(domain.Meta) []domain.Stream { return []domain.Stream{tallies.Stream(c.ID)} }

func (c Count) Decide(states domain.States, _ domain.Meta) ([]domain.Fact, CountAnswer, error) {
	t := tallies.In(states, c.ID)
	if c.By < 0 {
		return nil, CountAnswer{}, domain.Refuse(domain.Invalid, "count up").At("/by")
	}
	if c.Limit > 0 && t.N+c.By > c.Limit {
		return nil, CountAnswer{}, domain.RefuseAs(domain.Conflict, "full", "the tally is full")
	}
	var facts []domain.Fact
	for range max(c.Times, 1) {
		facts = append(facts, tallies.Record(c.ID, Counted{c.By, c.Note}))
		t.N += c.By
	}
	return facts, CountAnswer(t), nil
}

// A process is one copy of the program, as far as the store goes.
type process struct {
	*eventstore.Store
	nats *nats.Conn
}

// start runs a store on the database and the NATS server until the test ends.
func start(t *testing.T, db *eventstoretest.DB, ns *natsserver.Server) process {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(ns.ClientURL(), nats.InProcessServer(ns))
	if err != nil {
		t.Fatal(err)
	}
	wake, err := eventstore.NewWake(nc, "test")
	if err != nil {
		t.Fatal(err)
	}
	s := eventstore.Open(eventstore.Config{
		URL: db.URL, Pool: pool, Wake: wake, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Categories: []domain.AnyCategory{tallies, domain.Operators},
		Wrapping:   wrapping(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		nc.Close()
		pool.Close()
	})
	return process{s, nc}
}

// wrapping stands in for the key-encryption key: it shows that the store keeps
// nothing but what it was given back.
func wrapping() eventstore.Wrapping {
	mix := func(bound string, key []byte) []byte {
		mask := sha256.Sum256([]byte("a key-encryption key for " + bound))
		out := make([]byte, len(key))
		for i := range key {
			out[i] = key[i] ^ mask[i]
		}
		return out
	}
	return eventstore.Wrapping{Wrap: mix, Unwrap: func(bound string, wrapped []byte) ([]byte, error) { return mix(bound, wrapped), nil }}
}

// op is an operation of an owner, with the arguments its fingerprint is made of.
func op(t *testing.T, owner, key, args string) eventstore.Operation {
	t.Helper()
	hash, err := eventstore.HashArgs("count", []byte(args))
	if err != nil {
		t.Fatal(err)
	}
	return eventstore.Operation{
		Owner: domain.AgentKey(owner), Key: key, Tool: "count", ArgsHash: hash, Board: "main", At: time.Now(),
	}
}

// count executes Count with arguments derived from the command.
func count(t *testing.T, p process, owner, key string, c Count) (eventstore.Receipt, error) {
	t.Helper()
	return eventstore.Execute(t.Context(), p.Store, op(t, owner, key, fmt.Sprintf(`{"id":%q,"by":%d,"times":%d}`, c.ID, c.By, c.Times)), c)
}

// everything reads the whole log and checks that nothing is missing in it.
func everything(t *testing.T, p process) []eventstore.Recorded {
	t.Helper()
	var all []eventstore.Recorded
	for {
		page, err := p.Read(t.Context(), int64(len(all)), 500)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}

// eventually waits for something that happens by itself.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
