package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/migrations"
	"sidequest/postgres"
	"sidequest/projections"
	"sidequest/secret"
)

// The deployment that is tortured.
const (
	publicURL = "http://127.0.0.1:8080"
	testUSD   = "0x36692a59A3cB08C976f92E468a581E6e0a1AF89E"
	patience  = 2 * time.Minute // for what must happen by itself, on a busy machine
)

// A field is a deployment of its own: a Postgres cluster behind a proxy that can
// cut connections, NATS, processes, agents at work, and those who watch.
type field struct {
	t       *testing.T
	chance  *rand.Rand
	program string
	dir     string
	db      *postgres.Cluster
	proxy   *proxy
	nats    *broker
	slots   []*slot
	agents  []*agent

	listeners []*listener
	tails     []*tail
	outsider  *outsider

	mu         sync.Mutex
	deeds      []deed
	violations []string
	latencies  []time.Duration // of writes that needed one attempt, since last asked
}

// openField brings up everything, with so many processes and NATS nodes.
func openField(t *testing.T, seed uint64, processes, nodes int) *field {
	t.Helper()
	f := &field{t: t, chance: rand.New(rand.NewPCG(seed, 1)), program: binary(t), dir: throwaway(t, "sidequest-torture-")}
	f.db = newCluster(t)
	f.migrate(f.db)
	f.proxy = newProxy(t, f.db)
	f.nats = newBroker(t, nodes)
	if _, err := secret.LoadOrCreate(f.kekFile()); err != nil {
		t.Fatal(err)
	}
	f.describe()
	for range processes {
		s := &slot{f: f}
		f.slots = append(f.slots, s)
		s.start()
	}
	f.join("hanna", "hugo", "wanda", "walter", "reporter")
	f.watch()
	return f
}

// throwaway returns a folder that the server's user can reach, gone with the test.
func throwaway(t *testing.T, prefix string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", prefix) //nolint:usetesting // its parents must be open to another user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newCluster(t *testing.T) *postgres.Cluster {
	t.Helper()
	// After a run that was killed, sidequest testdb sweeps folders of this name.
	c := &postgres.Cluster{Dir: throwaway(t, "sidequest-testdb-"), Throwaway: true}
	if err := c.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Stop(context.Background())
		_ = os.RemoveAll(c.Home())
	})
	return c
}

func (f *field) migrate(c *postgres.Cluster) {
	f.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, c.URL(postgres.Database, postgres.Owner))
	if err == nil {
		err = errors.Join(migrations.Up(ctx, conn), conn.Close(ctx))
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *field) kekFile() string { return filepath.Join(f.dir, "kek.json") }

// describe leaves a note of the deployment for the commands of developers.
func (f *field) describe() {
	note, err := json.Marshal(map[string]string{
		"publicUrl": publicURL, "databaseUrl": f.proxy.url, "natsUrl": f.nats.url(), "kekFile": f.kekFile(), "wakePrefix": "sidequest",
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(f.dir, "deployment.json"), note, 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// environment configures every process of the field.
func (f *field) environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir(), "GORACE=halt_on_error=0",
		"SIDEQUEST_ADDR=127.0.0.1:0",
		"SIDEQUEST_PUBLIC_URL=" + publicURL,
		"SIDEQUEST_DATABASE_URL=" + f.proxy.url,
		"SIDEQUEST_NATS_URL=" + f.nats.url(),
		"SIDEQUEST_KEK_FILE=" + f.kekFile(),
		"SIDEQUEST_NETWORK=test",
		"SIDEQUEST_CHAIN_ID=735711",
		"SIDEQUEST_REWARD_TOKENS=" + testUSD + ":tUSD:6",
		"SIDEQUEST_ARBITRATOR=0xE000000000000000000000000000000000000005",
		"SIDEQUEST_WRITES_PER_AGENT=1000000",
		"SIDEQUEST_WRITES_PER_IP=1000000",
		"SIDEQUEST_DATA=" + f.dir,
		"SIDEQUEST_REACHED=" + f.reachedFile(),
	}
}

func (f *field) reachedFile() string { return filepath.Join(f.dir, "reached") }

// An agent has two tokens, so that its streams may come back often.
type agent struct {
	name   string
	key    domain.AgentKey
	id     string
	tokens []string
}

// join brings agents that may hire and work. The first two hire, the next two work.
func (f *field) join(names ...string) {
	f.t.Helper()
	for _, name := range names {
		f.agents = append(f.agents, &agent{name: name, key: domain.DevelopmentAgent(name), tokens: make([]string, 2)})
	}
	var minting sync.WaitGroup
	for _, a := range f.agents {
		minting.Go(func() {
			for i := range a.tokens {
				out, err := f.command("token", "--agent", a.name, "--ttl", "24h")
				if err != nil {
					f.t.Error(err)
				}
				a.tokens[i] = strings.TrimSpace(out)
			}
		})
	}
	minting.Wait()
	if f.t.Failed() {
		f.t.FailNow()
	}
	for _, a := range f.agents {
		got, err := f.insist(context.Background(), a, "whoami", map[string]any{})
		var who struct {
			AgentID string `json:"agentId"`
		}
		if err = errors.Join(err, json.Unmarshal(got.Result, &who)); err != nil || who.AgentID == "" {
			f.t.Fatalf("whoami of %s: %v, %s", a.name, err, got.raw)
		}
		a.id = who.AgentID
	}
}

func (f *field) hirers() []*agent  { return f.agents[:2] }
func (f *field) workers() []*agent { return f.agents[2:4] }

// watch starts all who watch: listeners over HTTP, tails of the log, and an
// outsider who reads the copy in JetStream.
func (f *field) watch() {
	for _, a := range f.agents[:4] {
		f.listeners = append(f.listeners, f.listen(a, projections.FeedInbox, string(a.key)))
	}
	f.listeners = append(f.listeners, f.listen(f.agents[4], projections.FeedRequests, projections.Everyone))
	f.tails = []*tail{f.follow(), f.follow()}
	f.outsider = f.readCopy()
}

// anywhere is the address of some process.
func (f *field) anywhere() string {
	slots := f.serving()
	return slots[rand.IntN(len(slots))].origin()
}

func (f *field) serving() []*slot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.slots
}

// serve says which slots clients turn to from now on.
func (f *field) serve(slots []*slot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slots = slots
}

// violatef notes that something happened that must not.
func (f *field) violatef(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.violations) < 20 {
		f.violations = append(f.violations, fmt.Sprintf(format, args...))
	}
}

// direct connects to the server itself, beside the proxy, as a role.
func (f *field) direct(ctx context.Context, role string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, f.cluster().URL(postgres.Database, role))
}

func (f *field) cluster() *postgres.Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.db
}

// move makes everybody use another cluster.
func (f *field) move(c *postgres.Cluster) {
	f.mu.Lock()
	f.db = c
	f.mu.Unlock()
	f.proxy.aim(f.t, c)
}

// store opens the log as the program's own role, beside the proxy, for a check.
func (f *field) store(do func(context.Context, *eventstore.Store) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cfg, err := pgxpool.ParseConfig(f.cluster().URL(postgres.Database, postgres.Program))
	if err != nil {
		return err
	}
	cfg.ConnConfig.RuntimeParams["search_path"] = projections.SearchPath()
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	conn, err := nats.Connect(f.nats.url(), nats.RetryOnFailedConnect(true))
	if err != nil {
		return err
	}
	defer conn.Close()
	wake, err := eventstore.NewWake(conn, "sidequest")
	if err != nil {
		return err
	}
	defer wake.Close()
	keys, err := secret.Load(f.kekFile())
	if err != nil {
		return err
	}
	return do(ctx, eventstore.Open(eventstore.Config{
		URL: f.cluster().URL(postgres.Database, postgres.Program), Pool: pool, Wake: wake, Log: slog.New(slog.DiscardHandler),
		Categories: domain.Categories,
		Wrapping: eventstore.Wrapping{
			Wrap:   func(subject string, key []byte) []byte { return keys.Seal("subject", subject, key) },
			Unwrap: func(subject string, wrapped []byte) ([]byte, error) { return keys.Open("subject", subject, wrapped) },
		},
	}))
}

// query reads one column of rows, with patience while the server restarts.
func query[T any](f *field, sql string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := f.direct(ctx, postgres.Super)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[T])
}

// eventually waits for something that happens by itself, and says whether it did.
func eventually(limit time.Duration, holds func() bool) bool {
	deadline := time.After(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			return holds()
		}
	}
	return true
}
