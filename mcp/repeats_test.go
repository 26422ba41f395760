package mcp_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"sidequest/mcp"
)

func TestARelativeTimeMeansForEverWhatItMeantFirst(t *testing.T) {
	t.Parallel()
	m := open(t)
	later := m.start(t, func(tools *mcp.Market) {
		tools.Now = func() time.Time { return time.Now().Add(time.Hour) }
	})
	sent := encode(t, wish(object{"operationKey": "k", "quoteDeadline": "1d12h", "deliveryDeadline": "3d"}))
	before := time.Now().Truncate(time.Second)
	first := transports()[0].call(t, m.main, "ann", "request_quotes", sent)
	after := time.Now()
	for _, by := range transports() {
		if again := by.call(t, later, "ann", "request_quotes", sent); again.body != first.body {
			t.Errorf("an hour later it means %s, at first %s", again.body, first.body)
		}
	}
	var r opened
	first.result(t, &r)
	for _, c := range []struct {
		got time.Time
		in  time.Duration
	}{{r.Deadlines.Quote, 36 * time.Hour}, {r.Deadlines.Delivery, 72 * time.Hour}} {
		if c.got.Before(before.Add(c.in)) || c.got.After(after.Add(c.in)) {
			t.Errorf("the answer says %v for in %v from %v", c.got, c.in, before)
		}
	}
}

// race makes calls at once, shared out over processes and transports.
func (m *market) race(t *testing.T, token, tool string, processes []*process, calls []string) []answer {
	t.Helper()
	all, errs := make([]answer, len(calls)), make([]error, len(calls))
	start, done := make(chan struct{}), sync.WaitGroup{}
	for i, args := range calls {
		done.Go(func() {
			<-start
			by := transports()[i%3]
			all[i], errs[i] = by.try(t, processes[i%len(processes)], token, tool, args)
		})
	}
	close(start)
	done.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestFiftyEqualWritesHaveOneEffectAndOneAnswer(t *testing.T) {
	t.Parallel()
	m := open(t)
	processes := []*process{m.main, m.start(t)}
	id := m.ask(t, m.person("ann"))
	for tool, args := range map[string]object{"request_quotes": wish(), "submit_quote": bid(m.person("bob"), id)} {
		events, receipts := m.logged(t)
		sent := encode(t, with(args, object{"operationKey": "fifty-" + tool}))
		all := m.race(t, "bob", tool, processes, slices.Repeat([]string{sent}, 50))
		for _, a := range all {
			if a.body != all[0].body || !a.failure.OK {
				t.Fatalf("%s answers %s and %s", tool, a.body, all[0].body)
			}
		}
		eventsNow, receiptsNow := m.logged(t)
		if want := map[string]int{"request_quotes": 2, "submit_quote": 1}[tool]; eventsNow-events != want || receiptsNow-receipts != 1 {
			t.Errorf("%s recorded %d events and %d receipts", tool, eventsNow-events, receiptsNow-receipts)
		}
	}
}

func TestOneKeyWithTwoMeaningsInFlightKeepsOne(t *testing.T) {
	t.Parallel()
	m := open(t)
	processes := []*process{m.main, m.start(t)}
	var calls []string
	for i := range 48 {
		calls = append(calls, encode(t, wish(object{"operationKey": "k", "title": []string{"A logo", "A song"}[i/3%2]})))
	}
	granted := map[string]int{}
	for _, a := range m.race(t, "ann", "request_quotes", processes, calls) {
		switch {
		case a.failure.OK:
			granted[a.body]++
		case a.failure.Code != "key-conflict":
			t.Errorf("answered %s", a.body)
		}
	}
	if len(granted) != 1 {
		t.Fatalf("granted %v", granted)
	}
	for body, n := range granted {
		if n != 24 {
			t.Errorf("granted %d times, want 24: %s", n, body)
		}
	}
}

func TestAKeyBelongsToItsAgent(t *testing.T) {
	t.Parallel()
	m := open(t)
	sent := encode(t, wish(object{"operationKey": "k"}))
	var a, b opened
	transports()[0].call(t, m.main, "ann", "request_quotes", sent).result(t, &a)
	transports()[1].call(t, m.main, "bob", "request_quotes", sent).result(t, &b)
	if a.RequestID == b.RequestID {
		t.Errorf("two agents made one request, %s", a.RequestID)
	}
}

func TestAMendedCallMayUseTheKeyOfTheInvalidOne(t *testing.T) {
	t.Parallel()
	m := open(t)
	for i, by := range transports() {
		key := object{"operationKey": m.key()}
		for _, wrong := range []object{{"title": ""}, {"title": " "}, {"quoteDeadline": "9d"}, {"workerBond": "0.1"}} {
			if a := by.call(t, m.main, "ann", "request_quotes", encode(t, wish(key, wrong))); a.failure.OK {
				t.Fatalf("granted %s", a.body)
			}
		}
		by.call(t, m.main, "ann", "request_quotes", encode(t, wish(key))).result(t, &opened{})
		if _, receipts := m.logged(t); i == 0 && receipts == 0 {
			t.Error("no receipt of the mended call")
		}
	}
}
