package torture

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"sidequest/failpoint"
)

// TestTheCopyHasNoDoubleWhenPublisherAndNodesOfAClusterDie lets three processes
// share a NATS cluster of three nodes, and kills the publishing process, the node
// that holds the copy, and one that does not.
func TestTheCopyHasNoDoubleWhenPublisherAndNodesOfAClusterDie(t *testing.T) {
	t.Parallel()
	f := openField(t, seed(t, rand.Uint64()), 3, 3)
	nodes := []fault{
		{name: "the publishing process is killed before it hears that all is stored", strike: killAt(failpoint.RelayPublished)},
		{name: "the node with the copy stops", strike: func(f *field) { f.stopNode(true) }},
	}
	if budget() > 0 {
		nodes = append(nodes,
			fault{name: "a node without the copy stops", strike: func(f *field) { f.stopNode(false) }},
			fault{name: "the publishing process is killed after it heard that all is stored", strike: killAt(failpoint.RelayCopied)})
	}
	for n, ft := range nodes {
		violations, took := f.round(n, ft)
		if len(violations) > 0 {
			t.Errorf("%s:\n  %s", ft.name, strings.Join(violations, "\n  "))
		}
		record(measurement{
			Name: "faults found, three processes and a NATS cluster of three nodes: " + ft.name,
			Ours: float64(len(violations)), Goal: "0", Pass: len(violations) == 0,
		})
		t.Logf("%s (%.1f s, %d writes so far)", ft.name, took.Seconds(), f.done())
	}
}

// stopNode stops the node that holds the copy, or another one, for a while.
func (f *field) stopNode(holder bool) {
	f.copyIsTheLogSoFar()
	leader := ""
	err := f.withCopy(func(ctx context.Context, _ jetstream.JetStream, s jetstream.Stream) error {
		info, err := s.Info(ctx)
		if err == nil && info.Cluster != nil {
			leader = info.Cluster.Leader
		}
		return err
	})
	if err != nil || leader == "" {
		f.violatef("nobody holds the copy: %v", err)
		return
	}
	for _, n := range f.nats.nodes {
		if (n.name == leader) == holder {
			n.stop()
			if !f.progress(20) {
				f.violatef("writes wait for a node of NATS")
			}
			f.nats.resume(n)
			return
		}
	}
}
