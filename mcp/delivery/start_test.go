package delivery_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidequest/projections"
)

const day = 24 * time.Hour

// history is ann's inbox: one quote of each age, and cursors into it.
type history struct {
	ages   map[string]string // by event id
	quotes map[string]string // cursors behind the quote, by age
	feed   projections.FeedID
	head   projections.Place
}

// tell makes ann's inbox.
func tell(t *testing.T, m *market) history {
	t.Helper()
	now := time.Now()
	id := m.askAt(t, "ann", now.Add(-22*day))
	ages := []string{"20d", "10d", "3d", "0d"}
	for i, back := range []time.Duration{20 * day, 10 * day, 3 * day, 0} {
		m.quoteAt(t, []string{"bob", "cat"}[i%2], id, now.Add(-back))
	}
	ann := string(m.people["ann"].key)
	rows := m.rows(t, projections.FeedInbox, ann)
	h := history{map[string]string{}, map[string]string{}, projections.FeedID{Board: "main", Feed: projections.FeedInbox, Audience: ann}, rows[len(rows)-1].Place}
	for i, r := range rows {
		h.ages["sidequest.inbox:"+r.RowID] = ages[i]
		h.quotes[ages[i]] = cursors().Encode(h.feed, 1, r.Place)
	}
	return h
}

func (h history) told(events []occurrence) []string {
	var told []string
	for _, e := range events {
		told = append(told, h.ages[e.EventID])
	}
	return told
}

func TestAReaderBeginsWhereItsCursorAndAgeSay(t *testing.T) {
	t.Parallel()
	m := open(t)
	h := tell(t, m)
	m.idle = true
	late := m.start(t) // it has nothing of this in memory
	first := cursors().Encode(h.feed, 1, projections.Place{})
	otherEpoch := cursors().Encode(h.feed, 7, h.head)
	future := cursors().Encode(h.feed, 1, projections.Place{Pos: h.head.Pos + 1000})
	aged := func(d time.Duration) string { return fmt.Sprintf(`,"maxAgeMs":%d`, d.Milliseconds()) }
	at := func(cursor string) string { return fmt.Sprintf(`,"cursor":%q`, cursor) }
	for _, tt := range []struct {
		name      string
		params    string
		want      string
		truncated bool
	}{
		{"no cursor looks seven days back", ``, "3d 0d", false},
		{"no cursor and an age", aged(day), "0d", false},
		{"no cursor and an age beyond the look-back", aged(30 * day), "3d 0d", false},
		{"no cursor and no age at all", aged(0), "", false},
		{"an age that is null", `,"maxAgeMs":null`, "3d 0d", false},
		{"null is the head", `,"cursor":null`, "", false},
		{"null ignores an age", `,"cursor":null` + aged(30*day), "", false},
		{"a cursor", at(h.quotes["10d"]), "3d 0d", false},
		{"the last cursor", at(h.quotes["0d"]), "", false},
		{"the last cursor and no age at all", at(h.quotes["0d"]) + aged(0), "", false},
		{"a cursor older than what is kept, with nothing lost", at(h.quotes["20d"]), "10d 3d 0d", false},
		{"a cursor older than what is kept, with a row lost", at(first), "10d 3d 0d", true},
		{"a cursor and an age that skips a row", at(h.quotes["10d"]) + aged(day), "0d", true},
		{"a cursor and an age that skips nothing", at(h.quotes["3d"]) + aged(day), "0d", false},
		{"a cursor and an age beyond what is kept", at(first) + aged(365*day), "10d 3d 0d", true},
		{"a cursor of another history", at(otherEpoch), "3d 0d", true},
		{"a cursor of another history and an age", at(otherEpoch) + aged(day), "0d", true},
		{"a cursor of a future that was undone", at(future), "3d 0d", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := strings.Fields(tt.want)
			ann := late.as(m.another(t))

			r := ann.poll(t, `"name":"sidequest.inbox"`+tt.params)
			if diff := cmp.Diff(want, h.told(r.Events), cmpopts.EquateEmpty()); diff != "" || r.Truncated != tt.truncated {
				t.Errorf("poll: truncated %v, events (-want +got):\n%s", r.Truncated, diff)
			}

			l, active := ann.listen(t, `"name":"sidequest.inbox"`+tt.params)
			defer l.close()
			var pushed []occurrence
			for range want {
				pushed = append(pushed, l.event(t))
			}
			if diff := cmp.Diff(r.Events, pushed, cmpopts.EquateEmpty()); diff != "" || active.Params.Truncated != tt.truncated {
				t.Errorf("stream: truncated %v, events (-poll +stream):\n%s", active.Params.Truncated, diff)
			}
		})
	}
}

func TestARowThatIsOlderThanTheOneBeforeItIsNeitherLostNorCutOff(t *testing.T) {
	t.Parallel()
	m := open(t)
	ann := m.main.as("ann")
	head := ann.poll(t, fromNow).Cursor
	now := time.Now()
	id := m.askAt(t, "ann", now.Add(-time.Hour))
	m.quoteAt(t, "bob", id, now)
	m.quoteAt(t, "cat", id, now.Add(-30*time.Second)) // it was asked for first but took longer
	want := eventIDs(m.rows(t, projections.FeedInbox, string(m.people["ann"].key)))
	for _, start := range []string{"", `,"maxAgeMs":600000`, fmt.Sprintf(`,"cursor":%q`, head)} {
		r := ann.poll(t, `"name":"sidequest.inbox"`+start)
		var got []string
		for _, e := range r.Events {
			got = append(got, e.EventID)
		}
		if diff := cmp.Diff(want, got); diff != "" || r.Truncated {
			t.Errorf("from %q: truncated %v, events (-want +got):\n%s", start, r.Truncated, diff)
		}
	}
}

func TestParametersThatAreWrongAreRefusedBeforeAStreamOpens(t *testing.T) {
	t.Parallel()
	m := open(t)
	h := tell(t, m)
	good := h.quotes["3d"]
	flipped := strings.Map(func(r rune) rune {
		if r == 'A' {
			return 'B'
		}
		return r
	}, good)
	foreign := cursors()
	foreign.Network = "another"
	unknownKey := cursors()
	unknownKey.Keys = map[byte][]byte{2: []byte(strings.Repeat("k", 32))}
	unknownKey.Current = 2
	bobs := projections.FeedID{Board: "main", Feed: projections.FeedInbox, Audience: string(m.people["bob"].key)}
	public := projections.FeedID{Board: "main", Feed: projections.FeedRequests, Audience: projections.Everyone}
	elsewhere := projections.FeedID{Board: "other", Feed: projections.FeedInbox, Audience: string(m.people["ann"].key)}
	inbox := func(members string) string { return `"name":"sidequest.inbox",` + members }
	at := func(cursor string) string { return inbox(fmt.Sprintf(`"cursor":%q`, cursor)) }
	for _, tt := range []struct {
		name   string
		params string
		code   int
		word   string // the message has it
	}{
		{"no name", ``, -32602, "params.name"},
		{"a name that is no string", `"name":1`, -32602, "params.name"},
		{"an unknown event", `"name":"sidequest.nothing"`, -32011, "events/list"},
		{"a name of another case", `"name":"Sidequest.inbox"`, -32011, "events/list"},
		{"arguments that are no object", inbox(`"arguments":[]`), -32602, "params.arguments"},
		{"an unknown argument", inbox(`"arguments":{"wallet":"0x1"}`), -32602, "wallet"},
		{"an argument of another event", inbox(`"arguments":{"taskId":"tk_1"}`), -32602, "taskId"},
		{"an argument where there are none", `"name":"sidequest.requests","arguments":{"kinds":["request.opened"]}`, -32602, "kinds"},
		{"kinds that are no array", inbox(`"arguments":{"kinds":"quote.received"}`), -32602, "params.arguments.kinds"},
		{"kinds that are null", inbox(`"arguments":{"kinds":null}`), -32602, "params.arguments.kinds"},
		{"a kind that is no string", inbox(`"arguments":{"kinds":[1]}`), -32602, "params.arguments.kinds"},
		{"a kind of another form", inbox(`"arguments":{"kinds":["Quote.received"]}`), -32602, "params.arguments.kinds"},
		{"a kind with a line break", inbox(`"arguments":{"kinds":["quote.received\n"]}`), -32602, "params.arguments.kinds"},
		{"21 kinds", inbox(`"arguments":{"kinds":[` + strings.TrimSuffix(strings.Repeat(`"a.b",`, 21), ",") + `]}`), -32602, "at most 20"},
		{"a request that is no string", inbox(`"arguments":{"requestId":7}`), -32602, "params.arguments.requestId"},
		{"an empty request", inbox(`"arguments":{"requestId":""}`), -32602, "params.arguments.requestId"},
		{"an empty task", `"name":"sidequest.jobs","arguments":{"taskId":""}`, -32602, "params.arguments.taskId"},
		{"an age below zero", inbox(`"maxAgeMs":-1`), -32602, "params.maxAgeMs"},
		{"an age that is no number", inbox(`"maxAgeMs":"1"`), -32602, "params.maxAgeMs"},
		{"an age that is not whole", inbox(`"maxAgeMs":1.5`), -32602, "params.maxAgeMs"},
		{"a cursor that is no string", inbox(`"cursor":{}`), -32602, "params.cursor"},
		{"an empty cursor", at(""), -32602, "params.cursor"},
		{"no cursor at all", at("hello"), -32602, "params.cursor"},
		{"a cursor cut short", at(good[:len(good)-1]), -32602, "params.cursor"},
		{"a cursor with more behind it", at(good + "A"), -32602, "params.cursor"},
		{"a cursor with letters changed", at(flipped), -32602, "params.cursor"},
		{"a cursor of another network", at(foreign.Encode(h.feed, 1, h.head)), -32602, "params.cursor"},
		{"a cursor under an unknown key", at(unknownKey.Encode(h.feed, 1, h.head)), -32602, "params.cursor"},
		{"a cursor of another agent", at(cursors().Encode(bobs, 1, h.head)), -32602, "params.cursor"},
		{"a cursor of another feed", at(cursors().Encode(public, 1, h.head)), -32602, "params.cursor"},
		{"a cursor of another board", at(cursors().Encode(elsewhere, 1, h.head)), -32602, "params.cursor"},
		{"a cursor of a list", at(cursors().EncodePage("list_quotes", 3)), -32602, "params.cursor"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, method := range []string{"events/poll", "events/stream"} {
				a := m.main.as("ann").call(t, method, tt.params)
				if a.Error == nil || a.Error.Code != tt.code || !strings.Contains(a.Error.Message, tt.word) {
					t.Errorf("%s: answered %+v, want %d with the word %q", method, a.Error, tt.code, tt.word)
				}
			}
		})
	}
	for _, tt := range []struct{ name, params, word string }{
		{"no events", inbox(`"maxEvents":0`), "params.maxEvents"},
		{"events that are no number", inbox(`"maxEvents":"5"`), "params.maxEvents"},
		{"a timeout below zero", inbox(`"timeoutMs":-5`), "params.timeoutMs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := m.main.as("ann").call(t, "events/poll", tt.params)
			if a.Error == nil || a.Error.Code != -32602 || !strings.Contains(a.Error.Message, tt.word) {
				t.Errorf("answered %+v, want -32602 with the word %q", a.Error, tt.word)
			}
		})
	}
}

func TestMoreEventsThanTheMostCountAsTheMost(t *testing.T) {
	t.Parallel()
	m := open(t)
	tell(t, m)
	r := m.main.as("ann").poll(t, `"name":"sidequest.inbox","maxEvents":100000,"maxAgeMs":9007199254740991,"timeoutMs":null,"arguments":null`)
	if len(r.Events) != 2 {
		t.Errorf("answered with %d events, want 2", len(r.Events))
	}
}

func FuzzCursor(f *testing.F) {
	feeds := []projections.FeedID{
		{Board: "main", Feed: projections.FeedInbox, Audience: "ag_1"},
		{Board: "main", Feed: projections.FeedInbox, Audience: "ag_2"},
		{Board: "main", Feed: projections.FeedRequests, Audience: projections.Everyone},
		{Board: "other", Feed: projections.FeedRequests, Audience: projections.Everyone},
	}
	c := cursors()
	for _, feed := range feeds {
		f.Add(c.Encode(feed, 1, projections.Place{Pos: 1234, Ord: 5}))
		f.Add(c.Encode(feed, 1<<31, projections.Place{Pos: 1 << 62, Ord: 1<<16 - 1}))
	}
	f.Add("")
	f.Add("c1.")
	f.Add(c.EncodePage("list", 7))
	f.Fuzz(func(t *testing.T, s string) {
		accepted := 0
		for _, feed := range feeds {
			epoch, p, err := c.Decode(feed, s)
			if err != nil {
				continue
			}
			accepted++
			if back := c.Encode(feed, epoch, p); back != s {
				t.Errorf("%q is read as the place of %q", s, back)
			}
		}
		if accepted > 1 {
			t.Errorf("%q is a cursor of %d feeds", s, accepted)
		}
	})
}
