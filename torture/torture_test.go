package torture

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sidequest/failpoint"
)

// shortRun is how long the short form goes on to take faults by chance, beside
// those that are part of every run.
const shortRun = 25 * time.Second

// TestNothingIsLostDoubledOrReorderedWhateverFails strikes with one fault after
// the other, in an order that the seed chooses.
func TestNothingIsLostDoubledOrReorderedWhateverFails(t *testing.T) {
	t.Parallel()
	results := &outcomes{seed: seed(t, rand.Uint64())}
	f := openField(t, results.seed, 2, 1)
	began, n := time.Now(), 0
	strike := func(ft fault) {
		n++
		violations, took := f.round(n, ft)
		row := results.of(ft)
		row.runs++
		if len(violations) > 0 {
			row.wrong++
			t.Errorf("%s:\n  %s", ft.name, strings.Join(violations, "\n  "))
		}
		t.Logf("%5.1f s  %s (%.1f s, %d writes so far)", time.Since(began).Seconds(), ft.name, took.Seconds(), f.done())
	}
	for _, ft := range f.order(faults()) {
		if ft.short && time.Since(began) < shortRun || budget() > 0 {
			strike(ft)
		}
	}
	limit := max(budget(), shortRun)
	if budget() == 0 {
		for _, ft := range f.order(faults()) {
			if !ft.short && time.Since(began) < limit {
				strike(ft)
			}
		}
	}
	for all := f.order(faults()); budget() > 0 && time.Since(began) < limit && len(all) > 0; {
		strike(all[f.chance.IntN(len(all))])
	}
	f.tour()
	strike(restored)
	f.everyPointWasReached()
	for _, v := range f.violations {
		t.Error(v)
	}
	if budget() > 0 && os.Getenv(onlyEnv) == "" {
		results.publish(t)
	}
}

// order shuffles the faults that are wanted.
func (f *field) order(all []fault) []fault {
	all = slices.DeleteFunc(all, func(ft fault) bool { return !strings.Contains(ft.name, os.Getenv(onlyEnv)) })
	f.chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// tour does what agents do not: it leads past the points of commands.
func (f *field) tour() {
	for _, command := range [][]string{{"seal"}, {"rebuild", "feed"}, {"verify"}} {
		if _, err := f.command(command...); err != nil {
			f.violatef("%v", err)
		}
	}
}

// everyPointWasReached checks that no point is one that nothing ever comes to.
func (f *field) everyPointWasReached() {
	reached := func() []string {
		raw, _ := os.ReadFile(f.reachedFile())
		return strings.Fields(string(raw))
	}
	for _, p := range failpoint.All() {
		if !eventually(patience, func() bool { return slices.Contains(reached(), string(p)) }) {
			f.violatef("no process ever came to %s", p)
		}
	}
}
