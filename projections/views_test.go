package projections_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sidequest/domain"
	"sidequest/projections"
)

func TestAQuoteIsShownToItsBidderAndToTheCreatorAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ann", "bob", "cat", "dan")
	w.consume()
	id := w.ask("ann")
	bobs, cats := w.bid("bob", id, "10"), w.bid("cat", id, "12")
	w.level()

	for name, want := range map[string][]domain.QuoteID{"ann": {bobs, cats}, "bob": {bobs}, "cat": {cats}, "dan": {}} {
		list, err := projections.ListQuotes{RequestID: id}.List(t.Context(), w.reader(name))
		if err != nil {
			t.Fatal(err)
		}
		got := []domain.QuoteID{}
		for _, q := range list.Quotes {
			got = append(got, q.QuoteID)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s sees %v, want %v", name, got, want)
		}
	}
	if _, err := (projections.ListQuotes{RequestID: "rq_unknown"}).List(t.Context(), w.reader("ann")); domain.CodeOf(err) != "not-found" {
		t.Errorf("an unknown request: %v", err)
	}
}

func TestPublicNoticesCarryNoAmounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ann", "bob")
	w.consume()
	id := w.ask("ann")
	q := w.bid("bob", id, "77.125")
	do(w, w.agents["ann"].AgentKey, domain.PickQuote{RequestID: id, QuoteID: q})
	w.level()

	rows, err := projections.FeedTail(t.Context(), w.Pool, projections.Place{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	public := 0
	for _, r := range rows {
		if r.Audience == projections.Everyone {
			public++
			if strings.Contains(string(r.Data), "77.125") || strings.Contains(string(r.Data), "100") && strings.Contains(string(r.Data), "Max") {
				t.Errorf("a public notice tells the price: %s", r.Data)
			}
		}
	}
	if public != 2 {
		t.Errorf("%d public notices, want request.opened and request.picked", public)
	}
}

func TestRequestsArePagedNewestFirstAndTheCursorIsBoundToTheQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ann", "bob", "cat", "dan", "eve", "fay")
	w.consume()
	var want []domain.RequestID
	for i := range 55 {
		want = append([]domain.RequestID{w.ask([]string{"ann", "bob", "cat", "dan"}[i%4])}, want...)
	}
	w.level()

	r := w.reader("eve")
	first, err := projections.ListQuoteRequests{}.List(t.Context(), r)
	if err != nil || len(first.Requests) != 50 || first.NextCursor == "" {
		t.Fatalf("first page: %d requests, cursor %q, %v", len(first.Requests), first.NextCursor, err)
	}
	second, err := projections.ListQuoteRequests{Cursor: first.NextCursor}.List(t.Context(), r)
	if err != nil || len(second.Requests) != 5 || second.NextCursor != "" {
		t.Fatalf("second page: %d requests, cursor %q, %v", len(second.Requests), second.NextCursor, err)
	}
	for i, item := range append(first.Requests, second.Requests...) {
		if item.RequestID != want[i] {
			t.Errorf("place %d: %s, want %s", i, item.RequestID, want[i])
		}
	}
	for name, q := range map[string]projections.ListQuoteRequests{
		"another question": {Cursor: first.NextCursor, Mine: true},
		"a forged cursor":  {Cursor: first.NextCursor[:len(first.NextCursor)-2] + "AA"},
		"no cursor at all": {Cursor: "hello"},
	} {
		if _, err := q.List(t.Context(), r); domain.CodeOf(err) != "invalid" {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
	other := w.reader("fay")
	if _, err := (projections.ListQuoteRequests{Cursor: first.NextCursor}).List(t.Context(), other); domain.CodeOf(err) != "invalid" {
		t.Errorf("another agent's cursor: %v, want invalid", err)
	}
}

func TestARequestPastItsDeliveryDeadlineIsNotOpenAndBecomesDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ann", "bob")
	w.consume()
	id := w.ask("ann")
	w.level()
	r := w.reader("bob")
	r.Now = time.Now().Add(73 * time.Hour)
	if page, err := (projections.ListQuoteRequests{}).List(t.Context(), r); err != nil || len(page.Requests) != 0 {
		t.Errorf("%d open requests, %v; want none", len(page.Requests), err)
	}
	due, err := projections.DueRequests(t.Context(), w.Pool, r.Now, 10)
	if err != nil || len(due) != 1 || due[0].RequestID != id {
		t.Fatalf("due: %v, %v", due, err)
	}
	if _, err := tryAt(w, domain.System, domain.ExpireRequest{RequestID: id}, r.Now); err != nil {
		t.Fatal(err)
	}
	w.level()
	if due, _ := projections.DueRequests(t.Context(), w.Pool, r.Now, 10); len(due) != 0 {
		t.Errorf("still due: %v", due)
	}
	mine, err := projections.ListQuoteRequests{Mine: true}.List(t.Context(), w.reader("ann"))
	if err != nil || mine.Requests[0].Status != domain.StatusExpired {
		t.Errorf("its creator sees %v, %v", mine.Requests, err)
	}
}

func TestAMergedFeedHasEachNoticeOnceInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ann", "bob", "cat")
	w.consume()
	id := w.ask("ann")
	w.bid("bob", id, "10")
	q := w.bid("cat", id, "12")
	do(w, w.agents["ann"].AgentKey, domain.PickQuote{RequestID: id, QuoteID: q})
	w.level()

	for name, want := range map[string]string{
		"ann": "request.opened quote.received quote.received request.picked(creator)",
		"bob": "request.opened request.picked() quote.lost",
		"cat": "request.opened request.picked(worker)",
	} {
		own := projections.FeedID{Board: "main", Feed: projections.FeedInbox, Audience: string(w.agents[name].AgentKey)}
		sel := projections.Selector{Feeds: []projections.FeedID{own, {Board: "main", Feed: projections.FeedRequests, Audience: "*"}}}
		page, err := sel.Page(t.Context(), w.Pool, projections.Place{}, 50)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range page.Rows {
			kind := r.Kind
			if kind == "request.picked" {
				_, after, _ := strings.Cut(string(r.Data), `"role":"`)
				role, _, _ := strings.Cut(after, `"`)
				kind += "(" + role + ")"
			}
			got = append(got, kind)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s hears %v, want %s", name, got, want)
		}
	}
}
