package delivery_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"sidequest/domain"
	"sidequest/projections"
)

// TestMain has fewer checks of each property made than rapid's hundred, unless
// told otherwise: one of them is a story of dozens of requests.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// A follower is a client that keeps nothing but its last cursor and what it has
// heard.
type follower struct {
	client client
	name   string // of the event
	cursor string
	heard  []occurrence
	opened int // streams, of which a grant may not open many in a minute
}

func (f *follower) params() string { return fmt.Sprintf(`"name":%q,"cursor":%q`, f.name, f.cursor) }

func (f *follower) poll(t testing.TB, most int) (more bool) {
	r := f.client.poll(t, fmt.Sprintf(`%s,"maxEvents":%d`, f.params(), most))
	if r.Truncated {
		t.Fatal("the answer is truncated")
	}
	f.heard, f.cursor = append(f.heard, r.Events...), r.Cursor
	return r.HasMore
}

// listen hears some events and breaks the connection off.
func (f *follower) listen(t testing.TB, events int) {
	l, active := f.client.listen(t, f.params())
	defer l.close()
	f.opened++
	f.cursor = active.Params.Cursor
	for range events {
		e := l.event(t)
		f.heard, f.cursor = append(f.heard, e), e.Cursor
	}
}

// A tale is a random piece of the market's life.
type tale struct {
	*market
	t    testing.TB
	open []domain.RequestID // of ann
}

// happen does one to three writes at once.
func (s *tale) happen(rt *rapid.T) {
	switch what := rapid.IntRange(0, 3).Draw(rt, "what"); {
	case what == 0 && len(s.open) < 10 || len(s.open) == 0:
		s.open = append(s.open, s.ask(s.t, "ann"))
	case what == 1:
		i := rapid.IntRange(0, len(s.open)-1).Draw(rt, "closed")
		s.finish(s.open[i])
		s.open = slices.Delete(s.open, i, i+1)
	default:
		id := rapid.SampledFrom(s.open).Draw(rt, "request")
		var g errgroup.Group
		for _, name := range names[1 : 1+what] {
			g.Go(func() error {
				s.quote(s.t, name, id)
				return nil
			})
		}
		_ = g.Wait()
	}
}

// finish picks bob's quote, or closes the request if he has none.
func (s *tale) finish(id domain.RequestID) {
	quote := s.quote(s.t, "bob", id)
	if len(id)%2 == 0 {
		do(s.t, s.market, s.people["ann"].key, domain.PickQuote{RequestID: id, QuoteID: quote})
		return
	}
	do(s.t, s.market, s.people["ann"].key, domain.CloseRequest{RequestID: id})
}

func TestPollPushAndBothMixedGiveTheSameEventsInTheSameOrder(t *testing.T) {
	t.Parallel()
	m := open(t)
	m.idle = true
	other := m.start(t)
	s := &tale{market: m, t: t}
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom([]string{projections.FeedInbox, projections.FeedRequests}).Draw(rt, "event")
		audience := string(m.people["ann"].key)
		if name == projections.FeedRequests {
			audience = projections.Everyone
		}
		before := len(m.rows(t, name, audience))
		var followers []*follower
		for range 3 {
			p := rapid.SampledFrom([]*process{m.main, other}).Draw(rt, "process")
			c := p.as(m.another(t))
			followers = append(followers, &follower{client: c, name: name, cursor: c.poll(t, fmt.Sprintf(`"name":%q,"cursor":null`, name)).Cursor})
		}
		polls, pushes, mixes := followers[0], followers[1], followers[2]
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			s.happen(rt)
			if rapid.Bool().Draw(rt, "polls") {
				polls.poll(t, rapid.IntRange(1, 3).Draw(rt, "most"))
			}
			there := len(m.rows(t, name, audience)) - before
			if rapid.Bool().Draw(rt, "pushes") {
				pushes.listen(t, rapid.IntRange(0, there-len(pushes.heard)).Draw(rt, "events"))
			}
			if rapid.Bool().Draw(rt, "mixes") {
				mixes.listen(t, rapid.IntRange(0, there-len(mixes.heard)).Draw(rt, "events"))
			} else {
				mixes.poll(t, 2)
			}
		}
		want := m.rows(t, name, audience)[before:]
		pushes.listen(t, len(want)-len(pushes.heard))
		for mixes.poll(t, 2) || polls.poll(t, 2) {
		}
		ids := eventIDs(want)
		for i, f := range followers {
			var got []string
			for _, o := range f.heard {
				got = append(got, o.EventID)
			}
			if diff := cmp.Diff(ids, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("follower %d (-want +got):\n%s", i, diff)
			}
			if diff := cmp.Diff(polls.heard, f.heard, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("follower %d hears other data (-poll +other):\n%s", i, diff)
			}
		}
	})
}

func TestNoRequestHearsWhatIsNotForItsCaller(t *testing.T) {
	t.Parallel()
	m := open(t)
	cursors, requests := m.mingle(t)
	mine := map[string]map[string]bool{} // what each may hear, by event id
	for _, name := range names {
		mine[name] = map[string]bool{}
		for feed, audience := range map[string]string{
			projections.FeedInbox:    string(m.people[name].key),
			projections.FeedRequests: projections.Everyone,
		} {
			for _, id := range eventIDs(m.rows(t, feed, audience)) {
				mine[name][id] = true
			}
		}
	}
	values := rapid.OneOf(rapid.SampledFrom(requests), rapid.SampledFrom([]string{
		"", "*", string(m.people["bob"].key), "quote.received", "request.opened", `x' OR ''='`, "%",
	}), rapid.String())
	heard := 0
	rapid.Check(t, func(rt *rapid.T) {
		for range 20 {
			name := rapid.SampledFrom(names).Draw(rt, "caller")
			params := m.anything(rt, t, values, cursors)
			a := m.main.as(name).call(t, "events/poll", params)
			if a.Error != nil {
				if a.Error.Code != -32602 && a.Error.Code != -32011 {
					t.Fatalf("%s polls %s: %+v", name, params, a.Error)
				}
				continue
			}
			for _, e := range a.page(t).Events {
				heard++
				if !mine[name][e.EventID] {
					t.Fatalf("%s polls %s and hears %+v", name, params, e)
				}
			}
		}
	})
	if heard == 0 {
		t.Error("nobody heard anything, so the test shows nothing")
	}
}

// anything returns parameters of a poll, good or bad.
func (m *market) anything(rt *rapid.T, t *testing.T, values *rapid.Generator[string], cursors []string) string {
	params := fmt.Sprintf(`"name":%q`, rapid.SampledFrom([]string{
		projections.FeedInbox, projections.FeedJobs, projections.FeedApprovals, projections.FeedRequests, "*", "",
	}).Draw(rt, "event"))
	arguments := map[string]any{}
	for _, argument := range []string{"kinds", "requestId", "taskId", "audience", "board", "agentKey", "wallet", "feed"} {
		if rapid.IntRange(0, 7).Draw(rt, argument) > 0 {
			continue
		}
		arguments[argument] = values.Draw(rt, "value")
		if argument == "kinds" {
			arguments[argument] = rapid.SliceOfN(values, 0, 3).Draw(rt, "kinds")
		}
	}
	params += `,"arguments":` + encode(t, arguments)
	switch rapid.IntRange(0, 3).Draw(rt, "start") {
	case 0:
		params += `,"cursor":` + encode(t, rapid.SampledFrom(cursors).Draw(rt, "cursor"))
	case 1:
		params += `,"cursor":` + encode(t, values.Draw(rt, "cursor"))
	}
	members := []string{params}
	for _, member := range []string{`"board":"other"`, `"audience":"*"`, `"agentKey":` + encode(t, m.people["cat"].key)} {
		if rapid.Bool().Draw(rt, "beside") {
			members = append(members, member)
		}
	}
	return strings.Join(members, ",")
}

// mingle lets everyone deal with everyone, and returns all cursors they got and
// the requests.
func (m *market) mingle(t *testing.T) (cursors, requests []string) {
	t.Helper()
	for _, name := range names {
		id := m.ask(t, name)
		requests = append(requests, string(id))
		for _, bidder := range names {
			if bidder != name {
				m.quote(t, bidder, id)
			}
		}
		do(t, m, m.people[name].key, domain.CloseRequest{RequestID: id})
	}
	m.settle(t)
	for _, name := range names {
		for _, event := range []string{projections.FeedInbox, projections.FeedRequests} {
			for _, e := range m.main.as(name).poll(t, fmt.Sprintf(`"name":%q`, event)).Events {
				cursors = append(cursors, e.Cursor)
			}
		}
	}
	return cursors, requests
}
