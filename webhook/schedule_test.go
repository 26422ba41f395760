package webhook

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var began = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func failing(fault Fault) Outcome { return Outcome{Fault: fault, Error: err4xx} }

func TestAnHourOfOutageGivesNothingUpAndMakesFewAttempts(t *testing.T) {
	t.Parallel()
	s, h, now := StandardSchedule(), Health{State: Active}, began
	attempts := 0
	for now.Before(began.Add(time.Hour)) {
		var v Verdict
		if h, v = s.After(h, failing(EndpointFault), now, 0.5); v != Held {
			t.Fatalf("attempt %d gives the row up", attempts)
		}
		attempts++
		if wait := h.NextAt.Sub(now); wait < time.Second || wait > s.Most {
			t.Errorf("attempt %d is followed by a wait of %s", attempts, wait)
		}
		if suspended := h.State == Suspended; suspended != (now.Sub(began) >= s.SuspendAfter) {
			t.Errorf("after %s the lane is %s", now.Sub(began), h.State)
		}
		now = h.NextAt
	}
	if attempts > 15 {
		t.Errorf("%d attempts were made in an hour", attempts)
	}
	if h, v := s.After(h, Outcome{}, now, 0); v != Delivered || h.State != Active || !h.FailingSince.IsZero() || h.Tries != 0 {
		t.Errorf("after a success the lane is %+v", h)
	}
}

func TestTheFirstRepeatComesWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	h, _ := StandardSchedule().After(Health{State: Active}, failing(EndpointFault), began, 0.999)
	if wait := h.NextAt.Sub(began); wait < time.Second || wait > 2*time.Second {
		t.Errorf("it comes after %s", wait)
	}
}

func TestWhatAReceiverAsksForGoesBeforeTheSchedule(t *testing.T) {
	t.Parallel()
	for asked, want := range map[time.Duration]time.Duration{
		time.Nanosecond: time.Second, 90 * time.Second: 90 * time.Second, 48 * time.Hour: 6 * time.Hour,
	} {
		o := failing(EndpointFault)
		o.RetryAfter = asked
		h, _ := StandardSchedule().After(Health{State: Active, Tries: 7}, o, began, 0)
		if got := h.NextAt.Sub(began); got != want {
			t.Errorf("asked for %s it waits %s, not %s", asked, got, want)
		}
	}
}

func TestARowIsGivenUpAtTheFourthRefusalWithinTenMinutes(t *testing.T) {
	t.Parallel()
	s, h, now := StandardSchedule(), Health{State: Active}, began
	var v Verdict
	for n := 1; v == Held; n++ {
		h, v = s.After(h, failing(RowRefused), now, 0.99)
		if (v == GivenUp) != (n == 4) {
			t.Fatalf("refusal %d: %v", n, v)
		}
		now = h.NextAt
	}
	if now.Sub(began) > 10*time.Minute {
		t.Errorf("it took %s", now.Sub(began))
	}
}

func TestAReceiverThatRefusesEverythingEatsNoMoreThanThreeRows(t *testing.T) {
	t.Parallel()
	for _, fault := range []Fault{RowRefused, RowTooLarge, RowGone} {
		s, h, now, given := StandardSchedule(), Health{State: Active}, began, 0
		for range 100 {
			var v Verdict
			if h, v = s.After(h, failing(fault), now, 0.5); v == GivenUp {
				given++
			}
			now = h.NextAt
		}
		if given != maxSkipped || h.State == Active {
			t.Errorf("%v: %d rows were given up, and the lane is %s", fault, given, h.State)
		}
	}
}

func TestALaneThatFailsForFiveDaysIsDisabled(t *testing.T) {
	t.Parallel()
	s, h, now := StandardSchedule(), Health{State: Active}, began
	for now.Before(began.Add(6*24*time.Hour)) && h.State != Disabled {
		h, _ = s.After(h, failing(EndpointFault), now, 0.5)
		now = h.NextAt
	}
	if after := now.Sub(began); h.State != Disabled || after < s.DisableAfter || after > s.DisableAfter+2*s.Most {
		t.Errorf("after %s it is %s", after, h.State)
	}
}

// A world is what the model lives in: rows in order, the one place that survives
// crashes, processes that hold a lease of it or believe so, and a receiver.
type world struct {
	t        *rapid.T
	schedule Schedule
	now      time.Time
	rows     int

	// What the database holds.
	place, fence int
	health       Health
	leaseUntil   time.Time
	dead         []int

	got    []int // what the receiver took, in order
	owners [2]owner
}

// An owner is a process with a lane, as it was when it took the lease.
type owner struct {
	holds    bool
	fence    int
	taken    time.Time
	place    int
	health   Health
	unsaved  bool
	pendDead []int
	stopped  bool
}

const (
	modelLease = 30 * time.Second
	modelTurn  = 15 * time.Second
)

// claim is what the statement of the same name does to one lane.
func (w *world) claim(i int) {
	o := &w.owners[i]
	if o.holds || o.stopped || w.place >= w.rows || w.health.State == Disabled || w.health.NextAt.After(w.now) || w.leaseUntil.After(w.now) {
		return
	}
	w.fence++
	w.leaseUntil = w.now.Add(modelLease)
	*o = owner{holds: true, fence: w.fence, taken: w.now, place: w.place, health: w.health}
}

// attempt sends the row at hand and draws the consequence.
func (w *world) attempt(i int, outcome Outcome, took time.Duration) {
	o := &w.owners[i]
	if !o.holds || o.stopped {
		return
	}
	if w.now.Sub(o.taken) > modelTurn || o.place >= w.rows {
		w.save(i, true)
		return
	}
	row := o.place
	if outcome.Fault == NoFault {
		w.got = append(w.got, row)
	}
	w.now = w.now.Add(took)
	var v Verdict
	o.health, v = w.schedule.After(o.health, outcome, w.now, rapid.Float64Range(0, 0.999).Draw(w.t, "chance"))
	o.unsaved = true
	switch v {
	case Delivered:
		o.place++
	case GivenUp:
		o.place++
		o.pendDead = append(o.pendDead, row)
		w.save(i, false) // or a crash would have the row tried again, after the next one
	case Held:
		w.save(i, true)
	}
}

// save is what the committer does: all of it or, under another fence, nothing.
func (w *world) save(i int, release bool) {
	o := &w.owners[i]
	if !o.holds || o.stopped {
		return
	}
	if o.fence == w.fence {
		if o.place < w.place {
			w.t.Fatalf("the place went back from %d to %d", w.place, o.place)
		}
		w.place, w.health, w.dead = o.place, o.health, append(w.dead, o.pendDead...)
		if release {
			w.leaseUntil = time.Time{}
		}
	}
	o.unsaved, o.pendDead = false, nil
	if release || o.fence != w.fence {
		o.holds = false
	}
}

// check says what must hold after every scenario: everything was taken or given up
// (I1), first sightings are in order (I2), and nothing beyond the place counts (I4).
func (w *world) check() {
	seen, last := map[int]bool{}, -1
	for _, row := range w.got {
		if !seen[row] && row < last {
			w.t.Fatalf("row %d was first seen after row %d: %v", row, last, w.got)
		}
		if !seen[row] {
			last = row
		}
		seen[row] = true
	}
	for row := range w.place {
		if !seen[row] && !slices.Contains(w.dead, row) {
			w.t.Fatalf("row %d was passed, but neither taken nor given up", row)
		}
	}
	for i, row := range w.dead {
		if slices.Contains(w.dead[i+1:], row) {
			w.t.Fatalf("row %d was given up twice", row)
		}
	}
}

func TestTwoProcessesThatCrashAndStopLoseNothingAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			t: t, schedule: StandardSchedule(), now: began, rows: rapid.IntRange(1, 20).Draw(t, "rows"), health: Health{State: Active},
		}
		interrupted := 0
		which := func() int { return rapid.IntRange(0, 1).Draw(t, "process") }
		t.Repeat(map[string]func(*rapid.T){
			"claim":   func(*rapid.T) { w.claim(which()) },
			"deliver": func(*rapid.T) { w.attempt(which(), Outcome{}, time.Millisecond) },
			"down":    func(*rapid.T) { w.attempt(which(), failing(EndpointFault), 10*time.Second) },
			"refuse":  func(*rapid.T) { w.attempt(which(), failing(RowRefused), time.Millisecond) },
			"large":   func(*rapid.T) { w.attempt(which(), failing(RowTooLarge), time.Millisecond) },
			"save":    func(*rapid.T) { w.save(which(), false) },
			"crash": func(*rapid.T) {
				o := &w.owners[which()]
				if o.unsaved {
					interrupted += o.place - w.place
				}
				*o = owner{}
			},
			"stop": func(*rapid.T) { w.owners[which()].stopped = true },
			"go on": func(*rapid.T) {
				o := &w.owners[which()]
				if o.stopped && o.holds && w.now.Sub(o.taken) > modelLease {
					interrupted += max(o.place-w.place, 1)
				}
				o.stopped = false
			},
			"wait": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 7200).Draw(t, "seconds")) * time.Second)
			},
			"": func(*rapid.T) { w.check() },
		})
		w.finish()
		w.check()
		if w.place != w.rows {
			t.Fatalf("the lane ends at %d of %d: %+v", w.place, w.rows, w.health)
		}
	})
}

// finish lets a healthy receiver take the rest.
func (w *world) finish() {
	w.owners = [2]owner{}
	if w.health.State == Disabled {
		w.health = Health{State: Active, NextAt: w.now}
	}
	for n := 0; w.place < w.rows; n++ {
		if n > 100 {
			w.t.Fatal(fmt.Sprintf("the lane does not go on: %+v", w.health))
		}
		w.now = w.now.Add(7 * time.Hour)
		w.claim(0)
		for w.owners[0].place < w.rows && w.now.Sub(w.owners[0].taken) <= modelTurn {
			w.attempt(0, Outcome{}, time.Millisecond)
		}
		w.save(0, true)
	}
}
