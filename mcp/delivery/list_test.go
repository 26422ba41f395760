package delivery_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"sidequest/domain"
	"sidequest/mcp/delivery"
)

type listed struct {
	Events []struct {
		Name          string   `json:"name"`
		Description   string   `json:"description"`
		Delivery      []string `json:"delivery"`
		InputSchema   any      `json:"inputSchema"`
		PayloadSchema any      `json:"payloadSchema"`
	} `json:"events"`
}

func list(t *testing.T, m *market, token string) listed {
	t.Helper()
	a := m.main.as(token).call(t, "events/list", "")
	if a.Error != nil {
		t.Fatalf("list: %+v", a.Error)
	}
	var l listed
	if err := json.Unmarshal(a.Result, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTheListHasFourEventsWithTheWaysTheyAreDelivered(t *testing.T) {
	t.Parallel()
	for network, want := range map[string][]string{
		domain.NetworkTest: {"poll", "webhook", "push"},
		domain.NetworkMain: {"poll", "webhook"},
	} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			m := open(t, func(c *delivery.Config) { c.Network = network })
			var names []string
			for _, e := range list(t, m, "ann").Events {
				names = append(names, e.Name)
				if diff := cmp.Diff(want, e.Delivery); diff != "" || e.Description == "" {
					t.Errorf("%s: delivery (-want +got):\n%s", e.Name, diff)
				}
			}
			if diff := cmp.Diff([]string{"sidequest.inbox", "sidequest.jobs", "sidequest.approvals", "sidequest.requests"}, names); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			m.main.as("ann").listen(t, fromNow) // offered or not, it works
		})
	}
}

func TestASetupConnectionMayListAndNoMore(t *testing.T) {
	t.Parallel()
	m := open(t)
	if n := len(list(t, m, "setup").Events); n != 4 {
		t.Errorf("%d events are listed", n)
	}
	for _, method := range []string{"events/poll", "events/stream"} {
		a := m.main.as("setup").call(t, method, fromNow)
		if a.status != http.StatusForbidden || a.Error.Code != -32003 {
			t.Errorf("%s is answered with %d %+v", method, a.status, a.Error)
		}
	}
}

func TestTheListHasOnePage(t *testing.T) {
	t.Parallel()
	m := open(t)
	if a := m.main.as("ann").call(t, "events/list", `"cursor":"next"`); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("an unknown page is answered with %s", a.Result)
	}
	if a := m.main.as("ann").call(t, "events/list", `"cursor":null`); a.Error != nil {
		t.Errorf("the first page is refused: %+v", a.Error)
	}
}

func TestPayloadsAndArgumentsConformToTheSchemasOfTheList(t *testing.T) {
	t.Parallel()
	m := open(t)
	id := m.ask(t, "ann")
	pick := m.quote(t, "bob", id)
	m.quote(t, "cat", id)
	do(t, m, m.people["ann"].key, domain.PickQuote{RequestID: id, QuoteID: pick})

	m.settle(t)
	kinds := map[string]bool{}
	for _, e := range list(t, m, "ann").Events {
		payload, arguments := compile(t, e.PayloadSchema), compile(t, e.InputSchema)
		for _, name := range names {
			for _, o := range m.main.as(name).poll(t, `"name":"`+e.Name+`"`).Events {
				kinds[o.kind()] = true
				if err := payload.Validate(o.Data); err != nil {
					t.Errorf("%s: %v", e.Name, err)
				}
			}
		}
		for _, args := range []string{
			`{}`, `{"kinds":[]}`, `{"kinds":["a.b","a.b_c"]}`, `{"kinds":["A.b"]}`, `{"kinds":[7]}`, `{"kinds":{}}`,
			`{"requestId":"rq"}`, `{"requestId":""}`, `{"requestId":null}`, `{"taskId":"tk"}`, `{"taskId":""}`, `{"board":"main"}`,
		} {
			var v any
			if err := json.Unmarshal([]byte(args), &v); err != nil {
				t.Fatal(err)
			}
			a := m.main.as("ann").call(t, "events/poll", `"name":"`+e.Name+`","arguments":`+args)
			if valid := arguments.Validate(v) == nil; valid != (a.Error == nil) {
				t.Errorf("%s %s: by its schema valid is %v, but it is answered with %+v", e.Name, args, valid, a.Error)
			}
		}
	}
	if diff := cmp.Diff(map[string]bool{"request.opened": true, "request.picked": true, "quote.received": true, "quote.lost": true}, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

func compile(t *testing.T, schema any) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", schema); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}
