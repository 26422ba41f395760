package delivery_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidequest/projections"
)

func TestACallersOwnWriteIsInTheNextPoll(t *testing.T) {
	t.Parallel()
	m := open(t)
	for range 10 {
		id := m.ask(t, "ann")
		got := m.main.as("ann").poll(t, `"name":"sidequest.requests","maxEvents":100`)
		if last := got.Events[len(got.Events)-1]; last.Data["requestId"] != string(id) {
			t.Fatalf("the newest event is %v, want the request %s just opened", last.Data, id)
		}
	}
}

func TestAnOccurrenceHasTheShapeOfTheContract(t *testing.T) {
	t.Parallel()
	m := open(t)
	m.quote(t, "bob", m.ask(t, "ann"))
	row := m.rows(t, projections.FeedInbox, string(m.people["ann"].key))[0]

	got := m.main.as("ann").poll(t, `"name":"sidequest.inbox"`)

	var data map[string]any // less what depends on the deployment
	if err := json.Unmarshal(row.Data, &data); err != nil {
		t.Fatal(err)
	}
	got.Cursor = got.Events[0].Cursor // its own is further: at the head
	data["chainId"], data["cursor"] = 1337.0, got.Cursor
	want := pollResult{ResultType: "complete", Cursor: got.Cursor, NextPollMS: 60_000, Events: []occurrence{{
		EventID:   "sidequest.inbox:" + row.RowID,
		Name:      "sidequest.inbox",
		Timestamp: row.OccurredAt.UTC().Format("2006-01-02T15:04:05.000Z"),
		Cursor:    got.Cursor,
		Data:      data,
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func TestPagesLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	m := open(t)
	id := m.ask(t, "ann")
	for range 25 {
		m.quote(t, "bob", id)
	}
	want := eventIDs(m.rows(t, projections.FeedInbox, string(m.people["ann"].key)))

	var got []string
	cursor, pages := "", 0
	for more := true; more; pages++ {
		r := m.main.as("ann").poll(t, `"name":"sidequest.inbox","maxEvents":7`+cursor)
		for _, e := range r.Events {
			got = append(got, e.EventID)
		}
		more, cursor = r.HasMore, fmt.Sprintf(`,"cursor":%q`, r.Cursor)
		if want := 60_000; !more && r.NextPollMS != want || more && r.NextPollMS != 0 {
			t.Errorf("nextPollMs is %d with hasMore %v", r.NextPollMS, more)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if pages != 4 {
		t.Errorf("25 events came in %d pages of 7", pages)
	}
}

func TestEveryCursorEverGivenContinuesWithExactlyTheRest(t *testing.T) {
	t.Parallel()
	m := open(t)
	id := m.ask(t, "ann")
	for range 10 {
		m.quote(t, "bob", id)
	}
	m.settle(t)
	all := m.main.as("ann").poll(t, `"name":"sidequest.inbox"`)
	for i, e := range all.Events {
		rest := m.main.as("ann").poll(t, fmt.Sprintf(`"name":"sidequest.inbox","cursor":%q`, e.Cursor))
		if diff := cmp.Diff(all.Events[i+1:], rest.Events, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("after event %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestAnEmptyAnswerMovesTheCursorToTheHead(t *testing.T) {
	t.Parallel()
	m := open(t)
	bob := m.main.as("bob")
	before := bob.poll(t, `"name":"sidequest.inbox","cursor":null`)
	m.ask(t, "ann") // public, so not for bob's inbox
	m.settle(t)
	after := bob.poll(t, fmt.Sprintf(`"name":"sidequest.inbox","cursor":%q`, before.Cursor))
	if len(before.Events)+len(after.Events) > 0 || before.Cursor == after.Cursor {
		t.Errorf("the cursor did not move past rows of others: %+v, %+v", before, after)
	}
	again := bob.poll(t, fmt.Sprintf(`"name":"sidequest.inbox","cursor":%q`, after.Cursor))
	if again.Cursor != after.Cursor {
		t.Error("the same place has two cursors")
	}
}

func TestALongPollAnswersWithTheFirstEventThatComes(t *testing.T) {
	t.Parallel()
	m := open(t)
	id := m.ask(t, "ann")
	other := m.ask(t, "ann")
	answered := m.main.as("ann").pollAside(t, fmt.Sprintf(
		`"name":"sidequest.inbox","cursor":null,"timeoutMs":25000,"arguments":{"requestId":%q}`, id))
	eventually(t, "the poll waits", func() bool { return m.main.feeds.Stats().WaitingPolls == 1 })
	m.quote(t, "bob", other) // hers, but not what she waits for
	m.quote(t, "cat", id)
	a := <-answered
	if r := a.page(t); len(r.Events) != 1 || r.Events[0].Data["requestId"] != string(id) {
		t.Errorf("the poll was answered with %+v", r)
	}
	if n := m.main.feeds.Stats().WaitingPolls; n != 0 {
		t.Errorf("%d polls still count as waiting", n)
	}
}

func TestALongPollInVainAnswersWithTheHead(t *testing.T) {
	t.Parallel()
	m := open(t)
	r := m.main.as("ann").poll(t, `"name":"sidequest.inbox","cursor":null,"timeoutMs":50`)
	if len(r.Events) != 0 || r.HasMore || r.Truncated || r.NextPollMS != 60_000 || r.Cursor == "" {
		t.Errorf("answered with %+v", r)
	}
}

func TestAFifthLongPollOfAGrantIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	m := open(t)
	const wait = `"name":"sidequest.inbox","cursor":null,"timeoutMs":25000`
	var waiting []<-chan answer
	for range 4 {
		waiting = append(waiting, m.main.as("ann").pollAside(t, wait))
	}
	eventually(t, "four polls wait", func() bool { return m.main.feeds.Stats().WaitingPolls == 4 })

	fifth := m.main.as("ann").poll(t, wait)
	if len(fifth.Events) != 0 || fifth.NextPollMS != 60_000 {
		t.Errorf("the fifth poll was answered with %+v", fifth)
	}
	m.quote(t, "bob", m.ask(t, "ann"))
	for _, answered := range waiting {
		if a := <-answered; len(a.page(t).Events) != 1 {
			t.Errorf("a waiting poll was answered with %s", a.Result)
		}
	}
}

func eventIDs(rows []projections.FeedRow) []string {
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.Feed+":"+r.RowID)
	}
	return ids
}
