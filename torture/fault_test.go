package torture

import (
	"fmt"
	"time"

	"sidequest/failpoint"
)

// A fault is something that goes wrong while agents work, and is right again when
// strike returns.
type fault struct {
	name   string
	must   string // what holds nevertheless, beside all that is checked after every fault
	short  bool   // it is part of every run, also the short one
	alone  bool   // it brings its own load
	strike func(f *field)
}

// faults is every fault of a field with one NATS server.
func faults() []fault {
	all := []fault{
		{"two processes killed at random, again and again", "", true, false, killAtRandom},
		{"Postgres crashes under load", "clients repeat, and nothing that was answered is gone", true, false, crashPostgres},
		{"the connections of appends are ended by the server", "", true, false, terminateAppends},
		{"connections are cut after an append was sent and before it was answered", "the outcome is found out, not guessed", true, false, cutInCommit},
		{"every connection to Postgres is cut at once", "", false, false, cutAll},
		{"NATS is away", "no write fails or waits for it", true, false, stopNATS},
		{"the store of NATS is deleted", "the copy is made anew", true, false, deleteStore},
		{"the store of NATS loses its tail", "the copy goes on where it ends now", true, false, truncateStore},
		{"the disk of NATS is full", "no write fails; the copy goes on when there is room", false, false, fillStore},
		{"NATS is ahead of Postgres", "the copy begins anew", true, false, natsAhead},
		{"an idle transaction with an id is held", "tails are never a second behind", true, false, holdTransaction},
		{"the publishing process is stopped", "another one publishes within seconds", false, false, stopAt(failpoint.RelayCopied)},
		{"a process is stopped while it holds a view", "another one takes the view over within seconds", false, false, stopAt(failpoint.ViewHeld)},
		{"a process is stopped before it sends an append", "clients repeat elsewhere; what it sends later is no second effect", false, false, stopAt(failpoint.WriteAppending)},
		{"a process is stopped between commit and answer", "clients repeat elsewhere and get the answer", false, false, stopAt(failpoint.WriteCommitted)},
		{"a third process comes and goes", "", false, false, thirdProcess},
	}
	for _, p := range failpoint.All() {
		all = append(all, fault{fmt.Sprintf("a process is killed at %s", p), "", alwaysKilledAt[p], false, killAt(p)})
	}
	return all
}

// alwaysKilledAt are the points of the short run; it takes others by chance.
var alwaysKilledAt = map[failpoint.Point]bool{
	failpoint.WriteCommitted: true,
	failpoint.RelayPublished: true,
	failpoint.ViewApplied:    true,
}

// round lets agents work, strikes, lets them work on, and checks everything. It
// returns what did not fit.
func (f *field) round(n int, ft fault) (violations []string, took time.Duration) {
	began := time.Now()
	if ft.alone {
		ft.strike(f)
	}
	l := f.deals(fmt.Sprintf("r%d", n))
	if !f.progress(5) {
		f.violatef("agents do not get on before the fault")
	}
	if !ft.alone {
		ft.strike(f)
	}
	if !f.progress(10) {
		f.violatef("agents do not get on after the fault")
	}
	l.stop()
	f.check()
	f.mu.Lock()
	defer f.mu.Unlock()
	violations, f.violations = f.violations, nil
	return violations, time.Since(began)
}
