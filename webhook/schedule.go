package webhook

import (
	"math"
	"time"
)

// States of a subscription.
const (
	Active    = "active"
	Suspended = "suspended" // nothing was delivered for a while; it goes on trying
	Disabled  = "disabled"  // it does not, until somebody subscribes again
)

// What went wrong, as owners and clients see it. No more is shown: a closer look
// would let a subscriber explore networks by what our requests meet there.
const (
	errConnection = "connection_refused"
	errTimeout    = "timeout"
	errTLS        = "tls_error"
	err4xx        = "http_4xx" // redirects, too: they are not followed
	err5xx        = "http_5xx"
	errChallenge  = "challenge_failed"
)

// A Fault says whose fault a failed attempt is.
type Fault int

// The faults.
const (
	NoFault       Fault = iota
	EndpointFault       // whatever had been sent: the lane waits at this row
	RowRefused          // this row, perhaps not the next: a few more attempts
	RowTooLarge         // this row, for certain
	RowGone             // 410: this row, and perhaps the receiver is gone for good
)

// An Outcome is what came of one attempt.
type Outcome struct {
	Fault      Fault
	Error      string        // one of the categories, "" without a fault
	Status     int           // of HTTP, 0 if there was no answer
	RetryAfter time.Duration // what the receiver asked for, 0 for nothing
	Took       time.Duration
}

// Health is how a lane fares.
type Health struct {
	State        string
	Tries        int       // that failed at the row at hand
	Refusals     int       // of them, those that were the row's own fault
	Skipped      int       // rows the receiver made us give up since the last success
	FailingSince time.Time // zero while all is well
	NextAt       time.Time // no attempt before
	Slow         bool      // it waits with others like it, not to hold up the rest
	LastError    string
}

// A Verdict says what becomes of the row at hand.
type Verdict int

// The verdicts.
const (
	Held      Verdict = iota // it is tried again
	Delivered                // the lane passes it
	GivenUp                  // the lane passes it, and it is a dead letter
)

// A Schedule says when a lane tries again and when it gives up what.
type Schedule struct {
	First, Most  time.Duration   // first and longest wait for an endpoint that fails
	Refused      []time.Duration // waits for a row that is refused; after one attempt more it is given up
	SlowAfter    time.Duration   // an attempt that takes longer makes the lane slow
	SuspendAfter time.Duration   // without a success
	DisableAfter time.Duration
}

// StandardSchedule returns the schedule of the product. The first attempt comes
// soon, because receivers exist that are not ready before their subscribe call has
// been answered.
func StandardSchedule() Schedule {
	return Schedule{
		First: 2 * time.Second, Most: time.Hour,
		Refused:   []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute},
		SlowAfter: 2 * time.Second, SuspendAfter: 15 * time.Minute, DisableAfter: 5 * 24 * time.Hour,
	}
}

const (
	// maxSkipped bounds the rows in a row that a receiver can make us give up. One
	// that is set up wrongly and refuses everything must not eat the backlog.
	maxSkipped = 3

	minRetryAfter = time.Second
	maxRetryAfter = 6 * time.Hour
)

// After returns how the lane fares after an attempt, and what becomes of the row.
// chance, in [0, 1), spreads attempts that failed together.
func (s Schedule) After(h Health, o Outcome, now time.Time, chance float64) (Health, Verdict) {
	if o.Fault == NoFault {
		return Health{State: Active, NextAt: now, Slow: o.Took > s.SlowAfter}, Delivered
	}
	h.Slow, h.LastError, h.Tries = true, o.Error, h.Tries+1
	if h.FailingSince.IsZero() {
		h.FailingSince = now
	}
	fault := o.Fault
	if fault != EndpointFault && h.Skipped >= maxSkipped {
		fault, h.State = EndpointFault, Suspended
	}
	switch fault {
	case RowTooLarge, RowGone:
		return h.skip(now), GivenUp
	case RowRefused:
		if h.Refusals++; h.Refusals > len(s.Refused) {
			return h.skip(now), GivenUp
		}
		h.NextAt = now.Add(spread(s.Refused[h.Refusals-1], chance))
	default:
		h.NextAt = now.Add(s.wait(h.Tries, o.RetryAfter, chance))
	}
	return s.judge(h, now), Held
}

// judge suspends or disables a lane by the time that passed without a success. A
// rate would not do: a lane has one row under way, and the longer it fails the
// fewer attempts it makes.
func (s Schedule) judge(h Health, now time.Time) Health {
	switch failing := now.Sub(h.FailingSince); {
	case failing >= s.DisableAfter:
		h.State = Disabled
	case failing >= s.SuspendAfter:
		h.State = Suspended
	}
	return h
}

// skip is after the row at hand was given up.
func (h Health) skip(now time.Time) Health {
	h.Tries, h.Refusals, h.NextAt = 0, 0, now
	h.Skipped++
	return h
}

// wait doubles with every attempt. What the receiver asks for goes before.
func (s Schedule) wait(tries int, asked time.Duration, chance float64) time.Duration {
	if asked > 0 {
		asked = min(max(asked, minRetryAfter), maxRetryAfter)
		return asked + time.Duration(chance*float64(asked)/10)
	}
	return spread(time.Duration(math.Min(float64(s.Most), float64(s.First)*math.Pow(2, float64(tries-1)))), chance)
}

// spread returns between a half and the whole of d.
func spread(d time.Duration, chance float64) time.Duration {
	return d/2 + time.Duration(chance*float64(d)/2)
}
