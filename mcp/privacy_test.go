package mcp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
	"sidequest/projections"
)

func TestAQuoteIsForItsBidderAndTheCreatorAlone(t *testing.T) {
	t.Parallel()
	m := open(t)
	id := m.ask(t, m.person("ann"))
	for name, amount := range map[string]domain.Amount{"bob": "11.111111", "cat": "22.222222"} {
		p := m.person(name)
		do(t, m, p.key, domain.SubmitQuote{RequestID: id, AgentID: p.id, Token: usd.Address, Amount: amount, Note: "by " + name})
	}
	m.settle(t)
	for _, by := range transports() {
		for name, want := range map[string]map[string]bool{
			"ann": {"11.111111": true, "22.222222": true}, "bob": {"11.111111": true}, "cat": {"22.222222": true}, "dan": {},
		} {
			var list projections.QuoteList
			by.call(t, m.main, name, "list_quotes", encode(t, object{"requestId": id})).result(t, &list)
			got := map[string]bool{}
			for _, q := range list.Quotes {
				got[string(q.Amount)] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s over %s sees (-want +got):\n%s", name, by.name, diff)
			}
		}
	}
}

// TestWhatBiddersOfferStaysOutOfSight looks for amounts and notes in all that a
// third party can read, from the first quote to after the pick.
func TestWhatBiddersOfferStaysOutOfSight(t *testing.T) {
	t.Parallel()
	m := open(t)
	ann, bob, cat := m.person("ann"), m.person("bob"), m.person("cat")
	id := m.ask(t, ann)
	var quotes []domain.QuoteID
	for i, p := range []*person{bob, cat} {
		quotes = append(quotes, do(t, m, p.key, domain.SubmitQuote{
			RequestID: id, AgentID: p.id, Token: usd.Address, Amount: domain.Amount(fmt.Sprintf("1%d.765432", i)), Note: "my secret plan",
			ExpectedCosts: &domain.Costs{Token: eth.Address, Amount: "0.765432", Note: "my secret plan"},
		}).QuoteID)
	}
	look := func(when string, also ...string) {
		secrets := append(also, "765432", "secret", string(quotes[1]), string(ann.key), string(bob.key), string(cat.key))
		m.settle(t)
		for _, by := range transports() {
			for tool, args := range map[string]string{
				"list_quote_requests": `{"recent":true}`, "inbox": `{}`, "list_quotes": encode(t, object{"requestId": id}),
			} {
				a := by.call(t, m.main, "dan", tool, args)
				a.result(t, &struct{}{})
				for _, secret := range secrets {
					if strings.Contains(a.body, secret) {
						t.Errorf("%s, %s shows a third party %q: %s", when, tool, secret, a.body)
					}
				}
			}
		}
	}
	look("while it is open", string(quotes[0]))
	var list projections.RequestList
	transports()[0].call(t, m.main, "dan", "list_quote_requests", `{}`).result(t, &list)
	if list.Requests[0].QuotesCount != 2 {
		t.Errorf("everyone may know that there are 2 quotes, shown are %d", list.Requests[0].QuotesCount)
	}
	do(t, m, ann.key, domain.PickQuote{RequestID: id, QuoteID: quotes[0]})
	look("after the pick")
}

func TestAnInboxIsOutOfReachForOthers(t *testing.T) {
	t.Parallel()
	m := open(t)
	id := m.ask(t, m.person("ann"))
	m.offer(t, m.person("bob"), id)
	m.settle(t)
	for _, by := range transports() {
		var anns notices
		by.call(t, m.main, "ann", "inbox", `{"includePublic":false}`).result(t, &anns)
		if diff := cmp.Diff([]string{"quote.received"}, anns.kinds()); diff != "" {
			t.Fatalf("ann hears (-want +got):\n%s", diff)
		}
		for _, args := range []object{
			{"includePublic": false},
			{"includePublic": false, "requestId": id},
			{"includePublic": false, "kinds": []string{"quote.received"}},
		} {
			var dans notices
			by.call(t, m.main, "dan", "inbox", encode(t, args)).result(t, &dans)
			if len(dans.Events) != 0 {
				t.Errorf("dan asks for %v and hears %v", args, dans.kinds())
			}
		}
		a := by.call(t, m.main, "dan", "inbox", encode(t, object{"cursor": anns.Cursor}))
		if a.failure.Code != "invalid" || a.failure.Field != "/cursor" {
			t.Errorf("ann's cursor gives dan %s", a.body)
		}
	}
}

func TestNoticesGoOnBehindTheirCursor(t *testing.T) {
	t.Parallel()
	m := open(t)
	for range 5 {
		m.offer(t, m.person("bob"), m.ask(t, m.person("ann")))
	}
	m.settle(t)
	over(t, func(t *testing.T, by transport) {
		var got []string
		args := object{"limit": 2}
		for more := true; more; {
			var page notices
			by.call(t, m.main, "ann", "inbox", encode(t, args)).result(t, &page)
			for _, e := range page.Events {
				got = append(got, e.EventID)
			}
			args, more = object{"limit": 2, "cursor": page.Cursor}, page.HasMore
		}
		var all notices
		by.call(t, m.main, "ann", "inbox", `{}`).result(t, &all)
		var want []string
		for _, e := range all.Events {
			want = append(want, e.EventID)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) != 10 {
			t.Errorf("page by page (-at once +paged):\n%s", diff)
		}
	})
}
