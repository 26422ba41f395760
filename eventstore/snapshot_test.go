package eventstore_test

import (
	"fmt"
	"sync"
	"testing"

	"sidequest/eventstore/eventstoretest"
)

func TestALongStreamIsDecidedFromItsSnapshotAndNothingIsLost(t *testing.T) {
	t.Parallel()
	db, ns := eventstoretest.NewDB(t), eventstoretest.NewNATS(t)
	p, q := start(t, db, ns), start(t, db, ns)
	const writes = 260
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := range writes / 2 {
				if _, err := count(t, []process{p, q}[w], "ann", fmt.Sprint("k", w, "-", i), Count{ID: "a", By: 1, Times: 2}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var version, events int
	if err := p.Pool.QueryRow(t.Context(), `SELECT version FROM log.snapshots WHERE stream_id = 'tally-a'`).Scan(&version); err != nil || version < 400 {
		t.Errorf("the snapshot is of version %d, %v; want one of the last hundred of %d", version, err, 2*writes)
	}
	if err := p.Pool.QueryRow(t.Context(), `SELECT count(*) FROM log.events`).Scan(&events); err != nil || events != 2*writes {
		t.Errorf("%d events, %v; want %d", events, err, 2*writes)
	}
	r, err := count(t, p, "bob", "last", Count{ID: "a", By: 1})
	if err != nil || string(r.Result) != fmt.Sprintf(`{"n":%d}`, 2*writes+1) {
		t.Errorf("%s, %v; want %d", r.Result, err, 2*writes+1)
	}
	for _, sql := range []string{
		`UPDATE log.snapshots SET form = 99`, // of a program to come
		`DELETE FROM log.snapshots`,          // gone
	} {
		if _, err := p.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
		if r, err := count(t, p, "bob", sql[:6], Count{ID: "a", By: 0}); err != nil || string(r.Result) != fmt.Sprintf(`{"n":%d}`, 2*writes+1) {
			t.Errorf("after %s: %s, %v", sql, r.Result, err)
		}
	}
}
