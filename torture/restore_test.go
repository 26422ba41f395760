package torture

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sidequest/postgres"
)

// restored is the last fault of a field: afterwards its log is another one.
var restored = fault{
	"Postgres is restored from a dump into a new cluster, and begins a new epoch",
	"what the dump lacks is carried out anew under the same keys; listeners are told; the copy is made anew", true, true, restoreDump,
}

// restoreDump dumps the database, lets agents write what the dump will lack, and
// serves from a new cluster.
func restoreDump(f *field) {
	l := f.deals("dumped")
	f.progress(10)
	l.stop()
	f.levels()
	file := filepath.Join(f.dir, "dump")
	if err := pgTool("pg_dump", "--format=custom", "--file="+file, "--dbname="+f.cluster().URL(postgres.Database, postgres.Super)); err != nil {
		f.violatef("%v", err)
		return
	}
	kept := f.done()
	lost := f.deals("lost")
	f.progress(20)
	lost.stop()
	f.copyIsTheLogSoFar()
	for _, s := range f.slots {
		s.now().kill()
	}
	deeds := f.history()
	if err := f.cluster().Stop(context.Background()); err != nil {
		f.violatef("%v", err)
	}
	f.forget(deeds[:kept])

	next := newCluster(f.t)
	if err := pgTool("pg_restore", "--exit-on-error", "--dbname="+next.URL(postgres.Database, postgres.Super), file); err != nil {
		f.violatef("%v", err)
		return
	}
	f.move(next)
	if _, err := f.command("epoch"); err != nil {
		f.violatef("%v", err)
	}
	told := f.told()
	for _, s := range f.slots {
		s.start()
	}
	for _, d := range deeds[kept:] { // clients that repeat what the dump lacks
		f.write(d.by, d.tool, d.args)
	}
	if !eventually(patience, func() bool { return f.told() >= told+len(f.listeners) }) {
		f.violatef("of %d listeners %d were told that the log was exchanged", len(f.listeners), f.told()-told)
	}
}

// forget leaves the field with the deeds of the log that is restored, and begins
// the tails anew.
func (f *field) forget(deeds []deed) {
	f.mu.Lock()
	f.deeds = slices.Clip(deeds)
	f.mu.Unlock()
	for _, t := range f.tails {
		t.forget()
	}
}

// told is how often listeners were told that they may have missed something.
func (f *field) told() (n int) {
	for _, l := range f.listeners {
		l.mu.Lock()
		n += l.truncated
		l.mu.Unlock()
	}
	return n
}

// pgTool runs a tool of Postgres.
func pgTool(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}
