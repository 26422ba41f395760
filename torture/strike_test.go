package torture

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sidequest/failpoint"
	"sidequest/postgres"
)

// killAt arms every process to kill itself at one of the first reaches of a point,
// waits for one that does, and replaces all.
func killAt(p failpoint.Point) func(*field) {
	return func(f *field) {
		kill := fmt.Sprintf("SIDEQUEST_KILL=%s:%d", p, 1+f.chance.IntN(4))
		once := fmt.Sprintf("SIDEQUEST_KILL=%s:1", p)
		switch p {
		case failpoint.ViewRebuilt, failpoint.ViewExchanging, failpoint.ViewExchanged:
			f.killCommand(once, "rebuild", "feed")
		case failpoint.SealSigned, failpoint.SealStored:
			f.killCommand(once, "seal")
		case failpoint.RelayPurged:
			f.killServers(once, func() { f.publishForeign() })
		case failpoint.ExpiryDue, failpoint.ExpiryRecorded:
			f.killServers(once, func() {})
		default:
			f.killServers(kill, func() {})
		}
	}
}

// killCommand runs a command that kills itself, and then once more to the end.
func (f *field) killCommand(env string, args ...string) {
	c := f.launch([]string{env}, args...)
	select {
	case <-c.exited:
	case <-time.After(patience):
	}
	if !eventually(time.Millisecond, func() bool { return isClosed(c.exited) }) || !c.killed() {
		f.violatef("%s did not kill %v: %s", env, args, c.said())
	}
	if _, err := f.command(args...); err != nil {
		f.violatef("after the kill: %v", err)
	}
}

// killServers replaces the processes by armed ones, makes happen what leads to the
// point, and replaces those that died.
func (f *field) killServers(env string, lead func()) {
	for _, s := range f.slots {
		s.restart(env)
	}
	lead()
	died := eventually(patience, func() bool {
		return slices.ContainsFunc(f.slots, func(s *slot) bool { return isClosed(s.now().exited) })
	})
	if !died {
		f.violatef("no process came to %s", env)
	}
	for _, s := range f.slots {
		if c := s.now(); isClosed(c.exited) && !c.killed() {
			f.violatef("a process ended by itself: %v: %s", c.err, c.said())
		}
		s.restart()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func killAtRandom(f *field) {
	for range 3 {
		rest(context.Background(), time.Duration(f.chance.IntN(300))*time.Millisecond)
		f.slots[f.chance.IntN(len(f.slots))].restart()
	}
}

func crashPostgres(f *field) {
	if err := f.cluster().Crash(context.Background()); err != nil {
		f.violatef("%v", err)
	}
}

func terminateAppends(f *field) {
	for range 5 {
		_, err := query[bool](f, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sidequest append'`)
		if err != nil {
			f.violatef("%v", err)
		}
		f.progress(2)
	}
}

func cutInCommit(f *field) {
	f.proxy.cut(8)
	if !eventually(patience, func() bool { return f.proxy.left() == 0 }) {
		f.violatef("%d appends were not there to be cut", f.proxy.left())
		f.proxy.cut(0)
	}
}

func cutAll(f *field) {
	for range 3 {
		f.proxy.cutAll()
		f.progress(3)
	}
}

// stopNATS measures writes before and while NATS is away.
func stopNATS(f *field) {
	f.measured()
	f.progress(30)
	before := f.measured()
	f.nats.nodes[0].stop()
	if !f.progress(30) {
		f.violatef("writes wait for NATS")
	}
	during := f.measured()
	f.nats.resume(f.nats.nodes[0])
	recordRatio("median write without NATS, ms", median(during), median(before), 2)
}

// measured returns the times of the writes since it was last asked.
func (f *field) measured() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.latencies
	f.latencies = nil
	return all
}

func median(all []time.Duration) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return float64(all[len(all)/2].Microseconds()) / 1000
}

func deleteStore(f *field) {
	n := f.nats.nodes[0]
	n.stop()
	if err := os.RemoveAll(n.store); err != nil {
		f.violatef("%v", err)
	}
	f.progress(5)
	f.nats.resume(n)
}

func truncateStore(f *field) {
	f.copyIsTheLogSoFar()
	n := f.nats.nodes[0]
	n.stop()
	files, err := n.truncate()
	if err != nil || files == 0 {
		f.violatef("%d files were truncated: %v", files, err)
	}
	f.progress(5)
	f.nats.resume(n)
}

// copyIsTheLogSoFar waits until there is a copy that can lose something.
func (f *field) copyIsTheLogSoFar() {
	if !eventually(patience, func() bool { id, err := f.lastCopied(); return err == nil && id != "" }) {
		f.violatef("there is no copy")
	}
}

// fillStore moves NATS to a disk that is nearly full, or where that cannot be had
// to a store of bounded size, and back.
func fillStore(f *field) {
	n := f.nats.nodes[0]
	roomy, small := *n, throwaway(f.t, "sidequest-torture-")
	n.stop()
	n.store = small
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=600k"); err == nil {
		defer func() { _ = syscall.Unmount(small, 0) }()
	} else {
		f.t.Logf("no small disk can be mounted, the store is bounded instead: %v", err)
		n.room = 1 << 20
	}
	f.nats.resume(n)
	if !f.progress(60) {
		f.violatef("writes wait for the disk of NATS")
	}
	n.stop()
	n.store, n.room = roomy.store, roomy.room
	f.nats.resume(n)
}

// foreignPosition is one that the log never reaches.
const foreignPosition = 999_999_999

// natsAhead makes the copy end at a position that the log has not reached, as
// after a failover to a standby that lacks the last events.
func natsAhead(f *field) {
	f.publishForeign()
	if !eventually(patience, func() bool {
		id, err := f.lastCopied()
		_, pos := messageID(id)
		return err == nil && pos > 0 && pos != foreignPosition
	}) {
		f.violatef("the copy is not begun anew")
	}
}

func (f *field) publishForeign() {
	ok := eventually(patience, func() bool {
		err := f.withCopy(func(ctx context.Context, js jetstream.JetStream, _ jetstream.Stream) error {
			_, err := js.PublishMsg(ctx, &nats.Msg{Subject: "mkt.main.none.none.none", Data: []byte("{}")},
				jetstream.WithMsgID(fmt.Sprintf("1.%d", foreignPosition)))
			return err
		})
		return err == nil
	})
	if !ok {
		f.violatef("cannot publish to the copy")
	}
}

// holdTransaction measures the lag of the tails while a transaction holds an id.
func holdTransaction(f *field) {
	ctx := context.Background()
	conn, err := f.direct(ctx, postgres.Super)
	if err != nil {
		f.violatef("%v", err)
		return
	}
	defer conn.Close(ctx)
	for _, sql := range []string{`BEGIN`, `SELECT pg_current_xact_id()`} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			f.violatef("%v", err)
		}
	}
	for _, t := range f.tails {
		t.worst()
	}
	hold := 2 * time.Second
	if budget() > 0 {
		hold = time.Minute
	}
	rest(ctx, hold)
	lag := max(f.tails[0].worst(), f.tails[1].worst())
	recordLimit("lag of tails beside an idle transaction, ms", float64(lag.Microseconds())/1000, 1000)
	if lag > time.Second {
		f.violatef("a tail was %s behind", lag)
	}
}

// stopAt arms a process to stop itself at a point, and measures until the others
// have done its work. It goes on afterwards as if nothing had been.
func stopAt(p failpoint.Point) func(*field) {
	return func(f *field) {
		stopped := f.slots[f.chance.IntN(len(f.slots))]
		for _, s := range f.slots {
			s.restart(fmt.Sprintf("SIDEQUEST_STOP=%s:%d", p, 1+f.chance.IntN(3)))
		}
		found := eventually(patience, func() bool {
			for _, s := range f.slots {
				if isStopped(s.now().cmd.Process.Pid) {
					stopped = s
					return true
				}
			}
			return false
		})
		if !found {
			f.violatef("no process stopped at %s", p)
		}
		for _, s := range f.slots {
			if s != stopped {
				s.restart()
			}
		}
		began := time.Now()
		head, err := query[string](f, `SELECT epoch || '.' || pos FROM log.head`)
		if err != nil {
			f.violatef("%v", err)
			return
		}
		if !eventually(patience, func() bool { return f.passed(head[0]) }) {
			f.violatef("nobody takes over from a process stopped at %s", p)
		}
		recordLimit(fmt.Sprintf("others do the work of one that stopped at %s, s", p), time.Since(began).Seconds(), 10)
		if !f.progress(5) {
			f.violatef("clients do not get on beside a process stopped at %s", p)
		}
		_ = stopped.now().cmd.Process.Signal(syscall.SIGCONT)
		f.progress(5)
		stopped.restart()
	}
}

// passed says whether views and copy have passed a position.
func (f *field) passed(at string) bool {
	_, head := messageID(at)
	slowest, err := query[int64](f, `SELECT min(pos) FROM log.checkpoints WHERE name NOT LIKE '%\_next/%'`)
	if err != nil || slowest[0] < head {
		return false
	}
	id, err := f.lastCopied()
	_, pos := messageID(id)
	return err == nil && pos >= head
}

// isStopped reads the state of a process from /proc, see proc(5).
func isStopped(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return strings.HasPrefix(rest, "T")
}

func thirdProcess(f *field) {
	s := &slot{f: f}
	s.start()
	before := f.slots
	f.serve(append(slices.Clone(before), s))
	f.progress(20)
	killAtRandom(f)
	f.progress(20)
	f.serve(before)
	s.now().kill()
}
