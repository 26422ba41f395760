package mcp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/mcp"
	"sidequest/projections"
)

func TestAToolOutsideTheScopesIsRefusedWithTheScopesToAskFor(t *testing.T) {
	t.Parallel()
	m := open(t)
	for _, c := range []struct{ token, tool, scope string }{
		{"ann:read", "request_quotes", "sidequest:read sidequest:hire"},
		{"ann:work", "pick_quote", "sidequest:work sidequest:hire"},
		{"ann:hire", "submit_quote", "sidequest:hire sidequest:work"},
		{"dan:read", "withdraw_quote", "sidequest:read sidequest:work"},
		{"setup", "protocol_info", "sidequest:setup sidequest:read"},
	} {
		events, receipts := m.logged(t)
		for _, by := range transports() {
			a := by.call(t, m.main, c.token, c.tool, `{}`)
			challenge := a.header.Get("WWW-Authenticate")
			if a.status != http.StatusForbidden {
				t.Errorf("%s by %s over %s: status %d", c.tool, c.token, by.name, a.status)
			}
			for _, part := range []string{
				`Bearer error="insufficient_scope"`, `scope="` + c.scope + `"`,
				`resource_metadata="https://sidequest.example/.well-known/oauth-protected-resource/mcp"`,
			} {
				if !strings.Contains(challenge, part) {
					t.Errorf("%s by %s over %s: the challenge %s lacks %s", c.tool, c.token, by.name, challenge, part)
				}
			}
			switch {
			case by.name == "rest":
				if a.failure.Code != "insufficient-scope" || a.failure.Retry != "none" {
					t.Errorf("got %s", a.body)
				}
			case a.wire == nil || a.wire.Code != mcp.CodeForbidden || a.wire.Data.Scope != c.scope || a.wire.Data.Code != "insufficient-scope":
				t.Errorf("%s by %s over %s: got %+v %s", c.tool, c.token, by.name, a.wire, a.body)
			}
		}
		if e, r := m.logged(t); e != events || r != receipts {
			t.Errorf("%s by %s recorded something", c.tool, c.token)
		}
	}
}

func TestNobodyGetsInWithoutAToken(t *testing.T) {
	t.Parallel()
	m := open(t)
	for token, says := range map[string]string{"": "", "mallory": `error="invalid_token"`} {
		for _, by := range transports() {
			a := by.call(t, m.main, token, "whoami", `{}`)
			challenge := a.header.Get("WWW-Authenticate")
			if a.status != http.StatusUnauthorized || !strings.Contains(challenge, "resource_metadata=") ||
				!strings.Contains(challenge, says) || says == "" && strings.Contains(challenge, "error=") {
				t.Errorf("%q over %s: %d, challenge %s", token, by.name, a.status, challenge)
			}
			if by.name == "rest" && (a.failure.Code != "unauthenticated" || a.failure.Retry != "none") {
				t.Errorf("%q: got %s", token, a.body)
			}
			if by.name != "rest" && (a.wire == nil || a.wire.Data.Code != "unauthenticated") {
				t.Errorf("%q over %s: got %s", token, by.name, a.body)
			}
		}
	}
}

func TestARoleMissingIsNamedAndFinishingNeedsNone(t *testing.T) {
	t.Parallel()
	over(t, func(t *testing.T, by transport) {
		m := open(t)
		ann, bob := m.person("ann"), m.person("bob")
		kept, picked := m.ask(t, ann), m.ask(t, ann)
		quote := m.offer(t, bob, kept)
		m.give(t, ann)
		m.give(t, bob)

		for _, c := range []struct {
			who, tool, role string
			args            object
		}{
			{"ann", "request_quotes", "hire", wish()},
			{"ann", "pick_quote", "hire", object{"requestId": kept, "quoteId": quote}},
			{"bob", "submit_quote", "work", bid(bob, picked)},
		} {
			a := by.call(t, m.main, c.who, c.tool, encode(t, with(c.args, object{"operationKey": "k-" + c.tool})))
			f := a.failure
			if f.Code != "role-required" || f.Role != c.role || f.Retry != "after-operator" || f.Reason != "" {
				t.Errorf("%s: got %s", c.tool, a.body)
			}
			if by.name == "rest" && a.status != http.StatusForbidden || by.name != "rest" && a.status != http.StatusOK {
				t.Errorf("%s: status %d", c.tool, a.status)
			}
			if known := row("request_role") != nil; known != (f.Next != nil) {
				t.Errorf("%s: next is %+v while the tool it names is there: %v", c.tool, f.Next, known)
			}
		}
		by.call(t, m.main, "bob", "withdraw_quote", encode(t, object{"operationKey": "w", "quoteId": quote})).result(t, &submitted{})
		by.call(t, m.main, "ann", "close_request", encode(t, object{"operationKey": "c", "requestId": kept})).result(t, &opened{})

		m.give(t, ann, domain.RoleHire)
		by.call(t, m.main, "ann", "request_quotes", encode(t, wish(object{"operationKey": "k-request_quotes"}))).result(t, &opened{})
	})
}

func TestTooManyWritesWaitAndRepeatsAreFree(t *testing.T) {
	t.Parallel()
	over(t, func(t *testing.T, by transport) {
		const most = 3
		m := open(t, func(tools *mcp.Market) {
			tools.Limits = mcp.Limits{PerAgent: most, PerIP: 1000, Span: time.Hour}
		})
		second := m.start(t, func(tools *mcp.Market) { tools.Limits = m.main.Limits })
		var done []string
		for range most {
			sent := encode(t, wish(object{"operationKey": m.key()}))
			done = append(done, by.call(t, m.main, "ann", "request_quotes", sent).body, sent)
		}
		fresh := encode(t, wish(object{"operationKey": "fresh"}))
		for _, p := range []*process{m.main, second} {
			a := by.call(t, p, "ann", "request_quotes", fresh)
			f := a.failure
			if f.Code != "rate-limited" || f.Retry != "same-key" || f.RetryAfter < 3590 || f.RetryAfter > 3600 || !strings.Contains(f.Message, "at most 3 per agent") {
				t.Errorf("got %s", a.body)
			}
			if by.name == "rest" && (a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != strconv.Itoa(f.RetryAfter)) {
				t.Errorf("got %d, Retry-After %s", a.status, a.header.Get("Retry-After"))
			}
			for pair := range slices.Chunk(done, 2) {
				if again := by.call(t, p, "ann", "request_quotes", pair[1]); again.body != pair[0] {
					t.Errorf("a repeat is answered %s", again.body)
				}
			}
			by.call(t, p, "ann", "list_quote_requests", `{}`).result(t, &struct{}{})
		}
		by.call(t, m.main, "bob", "request_quotes", fresh).result(t, &opened{})
	})
}

func TestManyAgentsOfOneAddressShareALimit(t *testing.T) {
	t.Parallel()
	m := open(t, func(tools *mcp.Market) { tools.Limits = mcp.Limits{PerAgent: 1000, PerIP: 2, Span: time.Hour} })
	for i, who := range []string{"ann", "bob", "cat"} {
		a := transports()[i].call(t, m.main, who, "request_quotes", encode(t, wish(object{"operationKey": "k"})))
		if a.failure.OK != (i < 2) || i == 2 && a.failure.Code != "rate-limited" {
			t.Errorf("%s: got %s", who, a.body)
		}
	}
}

func TestWhatCannotBeSeenYetIsUnavailableForAWhile(t *testing.T) {
	t.Parallel()
	m := open(t)
	m.settle(t)
	release := m.holdBack(t, &projections.Requests)
	transports()[0].call(t, m.main, "ann", "request_quotes", encode(t, wish(object{"operationKey": "k"}))).result(t, &opened{})

	for i, a := range m.race(t, "ann", "list_quote_requests", []*process{m.main}, []string{`{}`, `{}`, `{}`}) {
		if a.failure.Code != "unavailable" || a.failure.Retry != "same-key" || a.failure.RetryAfter != 1 || a.failure.ErrorID != "" {
			t.Errorf("got %s", a.body)
		}
		if transports()[i].name == "rest" && (a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1") {
			t.Errorf("got %d, Retry-After %s", a.status, a.header.Get("Retry-After"))
		}
	}
	release()
	var list projections.RequestList
	transports()[0].call(t, m.main, "ann", "list_quote_requests", `{}`).result(t, &list)
	if len(list.Requests) != 1 {
		t.Errorf("ann does not see what she wrote: %+v", list)
	}
}

// holdBack keeps a view from following the log, as a process does that is stopped
// in the middle of a step.
func (m *market) holdBack(t *testing.T, view *projections.Projection) (release func()) {
	t.Helper()
	tx, err := m.main.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), `
		SELECT
		FROM log.checkpoints
		WHERE name = $1
		FOR UPDATE`, view.Checkpoint())
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullQueueIsOverloadedWithTheSameKey(t *testing.T) {
	t.Parallel()
	m := open(t)
	stuck := m.idle(t) // it takes writes, and no loop of it appends them
	ctx, leave := context.WithCancel(t.Context())
	full := make(chan struct{})
	var once sync.Once
	var writers sync.WaitGroup
	for i := range 2049 { // one more than fit
		writers.Go(func() {
			op := eventstore.Operation{Owner: "crowd", Key: strconv.Itoa(i), Tool: "test", Board: "main", At: time.Now()}
			_, err := eventstore.Execute(ctx, stuck.Store, op, nothing{})
			if domain.CodeOf(err) == "overloaded" {
				once.Do(func() { close(full) })
			}
		})
	}
	<-full
	for _, by := range transports() {
		a := by.call(t, stuck, "ann", "request_quotes", encode(t, wish(object{"operationKey": "k"})))
		if a.failure.Code != "overloaded" || a.failure.Retry != "same-key" || a.failure.RetryAfter != 1 {
			t.Errorf("got %s", a.body)
		}
		if by.name == "rest" && (a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1") {
			t.Errorf("got %d, Retry-After %s", a.status, a.header.Get("Retry-After"))
		}
	}
	leave()
	writers.Wait()
	transports()[0].call(t, m.main, "ann", "request_quotes", encode(t, wish(object{"operationKey": "k"}))).result(t, &opened{})
}

// nothing is a command that leaves a receipt alone.
type nothing struct{}

func (nothing) Reads(domain.Meta) []domain.Stream { return nil }

func (nothing) Decide(domain.States, domain.Meta) ([]domain.Fact, struct{}, error) {
	return nil, struct{}{}, nil
}

func TestAnInternalErrorShowsNothingButItsID(t *testing.T) {
	t.Parallel()
	m := open(t)
	var log syncBuffer
	broken := m.idle(t, func(tools *mcp.Market) { tools.Log = log.logger() })
	broken.DB.Close()
	for _, by := range transports() {
		for tool, args := range map[string]string{
			"list_quote_requests": `{}`, "protocol_info": `{}`, "request_quotes": encode(t, wish(object{"operationKey": "k"})),
		} {
			a := by.call(t, broken, "ann", tool, args)
			f := a.failure
			if f.Code != "unavailable" || f.Reason != "internal" || f.Retry != "same-key" || len(f.ErrorID) != 12 || strings.Contains(a.body, "pool") {
				t.Errorf("%s over %s: got %s", tool, by.name, a.body)
			}
			if by.name == "rest" && a.status != http.StatusInternalServerError {
				t.Errorf("%s: status %d", tool, a.status)
			}
			if !strings.Contains(log.String(), f.ErrorID) || !strings.Contains(log.String(), "closed pool") {
				t.Errorf("%s: the log does not explain %s:\n%s", tool, f.ErrorID, log.String())
			}
		}
	}
}

func TestARequestThatIsNoCallIsRefusedOverREST(t *testing.T) {
	t.Parallel()
	m := open(t)
	post := func(path, kind, body string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Authorization", "Bearer ann")
		return r
	}
	foreign := post("/api/whoami", "application/json", `{}`)
	foreign.Header.Set("Origin", "null")
	for name, c := range map[string]struct {
		r      *http.Request
		status int
		code   string
	}{
		"an unknown tool":     {post("/api/nothing", "application/json", `{}`), 404, "not-found"},
		"a body of no object": {post("/api/whoami", "application/json", `[]`), 400, "invalid"},
		"null":                {post("/api/whoami", "application/json", `null`), 400, "invalid"},
		"broken JSON":         {post("/api/whoami", "application/json", `{`), 400, "invalid"},
		"a name twice":        {post("/api/inbox", "application/json", `{"limit":1,"limit":2}`), 400, "invalid"},
		"half a character":    {post("/api/inbox", "application/json", `{"cursor":"\ud800"}`), 400, "invalid"},
		"a form":              {post("/api/whoami", "application/x-www-form-urlencoded", `a=b`), 415, "invalid"},
		"GET":                 {httptest.NewRequest(http.MethodGet, "/api/whoami", nil), 405, "invalid"},
		"a foreign page":      {foreign, 403, "forbidden"},
	} {
		w := httptest.NewRecorder()
		m.main.ServeHTTP(w, c.r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), `{"ok":false,"code":"`+c.code+`"`) || !strings.Contains(w.Body.String(), `"retry":"`) {
			t.Errorf("%s: got %d %s, want %d %s", name, w.Code, w.Body, c.status, c.code)
		}
	}
}
