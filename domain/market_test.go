package domain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidequest/domain"
)

// A bazaar is a market in which agents try whatever comes to their mind.
type bazaar struct {
	states   domain.States
	now      time.Time
	step     int
	requests []domain.RequestID
	quotes   []domain.QuoteID
}

// try gives a command, and applies what it recorded if it was granted.
func (b *bazaar) try(t *rapid.T, by domain.AgentKey, d deed) {
	b.step++
	m := meta(by, b.now)
	m.OperationKey = fmt.Sprint("op", b.step)
	facts, answer, err := d.decide(b.states, m)
	if domain.CodeOf(err) == "internal" {
		t.Fatalf("not a refusal: %v", err)
	}
	if again, same, _ := d.decide(b.states, m); !cmp.Equal(facts, again) || !cmp.Equal(answer, same) {
		t.Fatalf("the same command decided otherwise the second time")
	}
	if err != nil {
		return
	}
	for _, f := range facts {
		for _, c := range domain.Categories {
			if c.CategoryName() == f.Stream.Category() {
				b.states[f.Stream] = c.Fold(b.states[f.Stream], f.Event)
			}
		}
	}
	switch a := answer.(type) {
	case domain.RequestQuotesAnswer:
		b.requests = append(b.requests, a.RequestID)
	case domain.SubmitQuoteAnswer:
		b.quotes = append(b.quotes, a.QuoteID)
	}
}

// check names the promise that the market has broken, if any.
func (b *bazaar) check(t *rapid.T) {
	open := map[domain.AgentKey]int{}
	for _, id := range b.requests {
		r := domain.Requests.In(b.states, string(id))
		bidders := map[domain.AgentKey]bool{}
		for _, q := range r.Quotes {
			if bidders[q.Bidder.AgentKey] {
				t.Fatalf("%s has two live quotes on %s", q.Bidder.AgentKey, id)
			}
			bidders[q.Bidder.AgentKey] = true
		}
		if bidders[r.Terms.Creator.AgentKey] {
			t.Fatalf("%s is quoted by its creator", id)
		}
		hire := domain.Hires.In(b.states, string(r.Task))
		if (r.Status == domain.StatusPicked) != (hire.Status == domain.HireAwaitingPublish) || hire.Offer.QuoteID != r.Picked {
			t.Fatalf("%s is %s with pick %q, its hire is %q of %q", id, r.Status, r.Picked, hire.Status, hire.Offer.QuoteID)
		}
		if r.Status == domain.StatusOpen && b.now.Before(r.Terms.DeliveryDeadline) {
			open[r.Terms.Creator.AgentKey]++
		}
	}
	for agent, n := range open {
		if n > domain.MaxOpenRequests {
			t.Fatalf("%s has %d open requests", agent, n)
		}
	}
}

func TestTheMarketKeepsItsPromisesWhateverAgentsTry(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		b := &bazaar{states: domain.Fold(domain.Categories, market()...), now: noon}
		who := rapid.SampledFrom([]domain.Party{ann, bob, cat, dan})
		request := func(t *rapid.T) domain.RequestID {
			return rapid.SampledFrom(append([]domain.RequestID{"rq_none"}, b.requests...)).Draw(t, "request")
		}
		quote := func(t *rapid.T) domain.QuoteID {
			return rapid.SampledFrom(append([]domain.QuoteID{"qt_none"}, b.quotes...)).Draw(t, "quote")
		}
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) {
				b.now = b.now.Add(time.Duration(rapid.IntRange(1, 12).Draw(t, "hours")) * hour)
			},
			"request quotes": func(t *rapid.T) { b.try(t, who.Draw(t, "who").AgentKey, do(wish())) },
			"submit a quote": func(t *rapid.T) {
				p := who.Draw(t, "who")
				b.try(t, p.AgentKey, do(domain.SubmitQuote{RequestID: request(t), AgentID: p.AgentID, Token: usd.Address, Amount: "20"}))
			},
			"withdraw a quote": func(t *rapid.T) {
				b.try(t, who.Draw(t, "who").AgentKey, do(domain.WithdrawQuote{QuoteID: quote(t)}))
			},
			"pick a quote": func(t *rapid.T) {
				id := quote(t)
				b.try(t, who.Draw(t, "who").AgentKey, do(domain.PickQuote{RequestID: id.Request(), QuoteID: id}))
			},
			"close a request": func(t *rapid.T) {
				b.try(t, who.Draw(t, "who").AgentKey, do(domain.CloseRequest{RequestID: request(t)}))
			},
			"let a request expire": func(t *rapid.T) {
				b.try(t, domain.System, do(domain.ExpireRequest{RequestID: request(t)}))
			},
			"": b.check,
		})
	})
}
