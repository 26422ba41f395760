package oauth

import (
	"testing"
	"time"
)

func TestTheUseOfAGrantIsWrittenDownOnceAMinute(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	here, there := NewUses(d.process(t).store.Pool), NewUses(d.process(t).store.Pool)
	begin := time.Now().Truncate(time.Second).UTC()
	note := func(u *Uses, after time.Duration) time.Time {
		t.Helper()
		u.Note("gr_used", begin.Add(after))
		if err := u.Flush(t.Context(), begin.Add(after)); err != nil {
			t.Fatal(err)
		}
		var used time.Time
		err := d.vault.Pool.QueryRow(t.Context(), `
			SELECT used_at
			FROM auth.grant_use
			WHERE grant_id = 'gr_used'`).Scan(&used)
		if err != nil {
			t.Fatal(err)
		}
		return used.UTC()
	}
	for _, c := range []struct {
		name string
		by   *Uses
		at   time.Duration
		want time.Duration
	}{
		{"the first use", here, 0, 0},
		{"another within the minute", here, 59 * time.Second, 0},
		{"another process within the minute", there, 30 * time.Second, 0},
		{"a minute later", here, time.Minute, time.Minute},
	} {
		if got := note(c.by, c.at); !got.Equal(begin.Add(c.want)) {
			t.Errorf("%s: written down %v, want %v", c.name, got.Sub(begin), c.want)
		}
	}
}

func TestWhatCannotBeWrittenDownIsTriedAgain(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	p := d.process(t)
	u := NewUses(p.store.Pool)
	now := time.Now()
	u.Note("gr_used", now)
	p.store.Pool.Close()
	if err := u.Flush(t.Context(), now); err == nil {
		t.Fatal("a note was written into a closed database")
	}
	u.db = d.vault.Pool
	if ids, _ := u.due(now); len(ids) != 1 {
		t.Errorf("%d notes are left, want 1", len(ids))
	}
}
