package torture

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// A broker is the NATS of a field: one server, or a cluster of several. Each keeps
// its address however often it stops.
type broker struct {
	t     *testing.T
	nodes []*node
}

// A node is a place for one server after another.
type node struct {
	name        string
	port, peers int // of clients, and of other nodes; 0 if it is alone
	routes      []*url.URL
	store       string
	room        int64              // bytes the store may have
	server      *natsserver.Server // nil while it is stopped
}

func newBroker(t *testing.T, nodes int) *broker {
	t.Helper()
	b := &broker{t: t}
	var routes []*url.URL
	for i := range nodes {
		n := &node{name: fmt.Sprintf("node-%d", i), port: freePort(t), store: t.TempDir(), room: 8 << 30}
		if nodes > 1 {
			n.peers = freePort(t)
			routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", n.peers)})
		}
		b.nodes = append(b.nodes, n)
	}
	for _, n := range b.nodes {
		n.routes = routes
		b.start(n)
	}
	for _, n := range b.nodes {
		if !n.server.ReadyForConnections(20 * time.Second) {
			t.Fatalf("NATS %s does not get ready", n.name)
		}
	}
	if nodes > 1 && !eventually(patience, b.led) {
		t.Fatal("the NATS cluster finds no leader")
	}
	t.Cleanup(func() {
		for _, n := range b.nodes {
			n.stop()
		}
	})
	return b
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// start starts a node's server on its address, and its store.
func (b *broker) start(n *node) {
	b.t.Helper()
	o := &natsserver.Options{
		ServerName: n.name, Host: "127.0.0.1", Port: n.port, JetStream: true, StoreDir: n.store,
		JetStreamMaxStore: n.room, NoLog: true, NoSigs: true,
	}
	if n.peers != 0 {
		o.Cluster = natsserver.ClusterOpts{Name: "torture", Host: "127.0.0.1", Port: n.peers}
		o.Routes = n.routes
	}
	s, err := natsserver.NewServer(o)
	if err != nil {
		b.t.Fatal(err)
	}
	s.Start()
	n.server = s
}

func (n *node) stop() {
	if n.server == nil {
		return
	}
	n.server.Shutdown()
	n.server.WaitForShutdown()
	n.server = nil
}

// resume starts a stopped node and waits until it answers.
func (b *broker) resume(n *node) {
	b.t.Helper()
	b.start(n)
	if !n.server.ReadyForConnections(20 * time.Second) {
		b.t.Errorf("NATS %s does not get ready", n.name)
	}
}

// led says whether the cluster has a leader for its streams.
func (b *broker) led() bool {
	for _, n := range b.nodes {
		if n.server != nil && n.server.JetStreamIsLeader() {
			return true
		}
	}
	return false
}

func (b *broker) url() string {
	var urls []string
	for _, n := range b.nodes {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", n.port))
	}
	return strings.Join(urls, ",")
}

// truncate takes the last part of every file of messages in the store of a
// stopped node, as a crash of the machine may.
func (n *node) truncate() (files int, err error) {
	blocks, err := filepath.Glob(filepath.Join(n.store, "jetstream", "*", "streams", "*", "msgs", "*.blk"))
	if err != nil {
		return 0, err
	}
	for _, path := range blocks {
		info, err := os.Stat(path)
		if err != nil {
			return files, err
		}
		if err := os.Truncate(path, info.Size()*2/3); err != nil {
			return files, err
		}
		files++
	}
	return files, nil
}
