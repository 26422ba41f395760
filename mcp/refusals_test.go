package mcp_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/mcp"
)

// A refusal is a call and how it is refused.
type refusal struct {
	name    string
	by      string // one of the cast, or of the scene
	tool    string
	args    object
	arrange func(s *scene) object // makes what the call meets, and more arguments

	code  string
	class domain.Class // "" for the code itself
	field string       // JSON pointer
	rule  string       // part of the message
}

func (r refusal) is() domain.Class {
	if r.class == "" {
		return domain.Class(r.code)
	}
	return r.class
}

// contract is how each class is answered: the HTTP status of REST, and what a
// repeat would do.
var contract = map[domain.Class]struct {
	status int
	retry  domain.Retry
}{
	domain.Unauthenticated:   {401, domain.RetryNone},
	domain.InsufficientScope: {403, domain.RetryNone},
	domain.RoleRequired:      {403, domain.RetryAfterOperator},
	domain.SetupPending:      {409, domain.RetryAfterOperator},
	domain.Forbidden:         {403, domain.RetryNone},
	domain.Invalid:           {400, domain.RetryNewKey},
	domain.KeyConflict:       {409, domain.RetryNone},
	domain.Conflict:          {409, domain.RetryNewKey},
	domain.NotFound:          {404, domain.RetryNone},
	domain.RateLimited:       {429, domain.RetrySameKey},
	domain.Overloaded:        {503, domain.RetrySameKey},
	domain.Unavailable:       {503, domain.RetrySameKey},
}

func TestARefusalNamesFieldAndRuleAndRecordsNothing(t *testing.T) {
	t.Parallel()
	over(t, func(t *testing.T, by transport) {
		m, finer := open(t), finerCodes{}
		for _, r := range slices.Concat(invalidRequests(), invalidOthers(), brokenRules(), refusedQuotes(), refusedPicks(), refusedEnds(), refusedStrangers(), refusedAccess()) {
			t.Run(r.name, func(t *testing.T) {
				r.provoke(t, m, by)
				finer.add(r)
			})
		}
		finer.compare(t)
	})
}

// provoke makes the call twice, and checks both answers and what is recorded.
func (r refusal) provoke(t *testing.T, m *market, by transport) {
	t.Helper()
	s := &scene{T: t, market: m, cast: map[string]*person{}}
	args, key := with(r.args), m.key()
	if writes(r.tool) {
		args = with(object{"operationKey": key}, r.args)
	}
	if r.arrange != nil {
		args = with(args, r.arrange(s))
	}
	caller := s.as(r.by)
	events, receipts := m.logged(t)

	first := by.call(t, m.main, caller.name, r.tool, encode(t, args))
	r.check(t, by, first)
	again := by.call(t, m.main, caller.name, r.tool, encode(t, args))
	if first.body != again.body || first.status != again.status {
		t.Errorf("the repeat answers %d %s\nthe first call %d %s", again.status, again.body, first.status, first.body)
	}

	if r.is().LeavesReceipt() {
		receipts++
		r.findReceipt(t, m, by, eventstore.Operation{Owner: caller.key, Key: key}, caller, first)
	}
	eventsNow, receiptsNow := m.logged(t)
	if eventsNow != events || receiptsNow != receipts {
		t.Errorf("%d events and %d receipts were recorded that should not be", eventsNow-events, receiptsNow-receipts)
	}
}

// check compares an answer with the row.
func (r refusal) check(t *testing.T, by transport, a answer) {
	t.Helper()
	if a.wire != nil {
		t.Fatalf("refused as a whole: %+v", a.wire)
	}
	class, reason := r.is(), ""
	if r.code != string(class) {
		reason = string(class)
	}
	f, want := a.failure, contract[class]
	if f.OK || f.Code != r.code || f.Reason != reason || f.Retry != want.retry || f.Field != r.field {
		t.Fatalf("got %s\nwant code %q, reason %q, retry %q, field %q", a.body, r.code, reason, want.retry, r.field)
	}
	if !strings.Contains(f.Message, r.rule) {
		t.Errorf("the message %q does not say %q", f.Message, r.rule)
	}
	if by.name == "rest" && a.status != want.status {
		t.Errorf("the HTTP status is %d, want %d", a.status, want.status)
	}
	checkAdvice(t, f)
}

var toolNames = regexp.MustCompile(`\b[a-z]+_[a-z_]+\b`)

// checkAdvice fails if a refusal sends its reader to a tool that is not there, or
// to one that would not take the call.
func checkAdvice(t *testing.T, f mcp.Failure) {
	t.Helper()
	for _, name := range toolNames.FindAllString(f.Message, -1) {
		if row(name) == nil {
			t.Errorf("the message names %s, which is no tool: %s", name, f.Message)
		}
	}
	if f.Next == nil {
		return
	}
	tool := row(f.Next.Tool)
	if tool == nil {
		t.Fatalf("the next step %s is no tool", f.Next.Tool)
	}
	args := with(f.Next.Args)
	if tool.Write {
		args["operationKey"] = "k"
	}
	if err := tool.In.Check(args); err != nil {
		t.Errorf("the next step is not complete: %v", err)
	}
}

// findReceipt checks that the refusal is on record for its agent.
func (r refusal) findReceipt(t *testing.T, m *market, by transport, op eventstore.Operation, caller *person, a answer) {
	t.Helper()
	var found struct {
		Status  string       `json:"status"`
		Tool    string       `json:"tool"`
		Refusal mcp.Failure  `json:"refusal"`
		Retry   domain.Retry `json:"retry"`
	}
	by.call(t, m.main, caller.name, "check_operation", encode(t, object{"operationId": op.ID()})).result(t, &found)
	if found.Status != "refused" || found.Tool != r.tool || found.Retry != a.failure.Retry ||
		found.Refusal.Code != a.failure.Code || found.Refusal.Message != a.failure.Message {
		t.Errorf("check_operation tells %+v of the refusal %s", found, a.body)
	}
}

// finerCodes are the codes finer than their class that each tool gave.
type finerCodes map[string]map[string]domain.Class

func (f finerCodes) add(r refusal) {
	if r.code == string(r.is()) {
		return
	}
	if f[r.tool] == nil {
		f[r.tool] = map[string]domain.Class{}
	}
	f[r.tool][r.code] = r.is()
}

// compare fails if a row of the tool table promises other codes than were seen, or
// the documents say them to be of another class.
func (f finerCodes) compare(t *testing.T) {
	t.Helper()
	doc := mcp.ErrorsDoc(table())
	for _, tool := range table() {
		got, want := slices.Sorted(maps.Keys(f[tool.Name])), slices.Sorted(slices.Values(tool.Refusals))
		if !slices.Equal(got, want) {
			t.Errorf("the row of %s names the refusals %q, the tests provoke %q", tool.Name, want, got)
		}
		for code, class := range f[tool.Name] {
			if !strings.Contains(doc, fmt.Sprintf("| [`%[1]s`](#%[1]s) | [`%[2]s`](#%[2]s) |", code, class)) {
				t.Errorf("%s is of the class %s, the documents say something else", code, class)
			}
		}
	}
}

// A scene is what one call meets: people whom no other call knows.
type scene struct {
	*testing.T
	*market

	cast map[string]*person
}

// as returns one of the market's cast, or else of the scene's own: they have both
// roles.
func (s *scene) as(name string) *person {
	if p := s.person(name); p != nil {
		return p
	}
	if s.cast[name] == nil {
		s.cast[name] = s.join(s.T, name+" "+s.key(), domain.Roles()...)
	}
	return s.cast[name]
}

// table is the tool table, made once: its schemas are costly.
var table = sync.OnceValue(mcp.Tools)

// row returns the row of a tool, nil if there is none.
func row(name string) *mcp.Tool {
	i := slices.IndexFunc(table(), func(t mcp.Tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &table()[i]
}

func writes(tool string) bool { return row(tool) != nil && row(tool).Write }

// object is a JSON object, for arguments.
type object = map[string]any

// with returns arguments with changes; nil removes a member.
func with(args object, changes ...object) object {
	all := object{}
	maps.Copy(all, args)
	for _, change := range changes {
		maps.Copy(all, change)
	}
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

func encode(t *testing.T, args object) string {
	t.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// wish is what a caller of request_quotes sends, less the operation key.
func wish(changes ...object) object {
	return with(object{
		"title": "A logo", "brief": "Draw a logo.", "acceptanceCriteria": []string{"It is a logo."},
		"budget": object{"token": usd.Address, "max": "25"}, "quoteDeadline": "24h", "deliveryDeadline": "3d",
	}, changes...)
}

// bid is what a caller of submit_quote sends, less the operation key.
func bid(p *person, id domain.RequestID) object {
	return object{"requestId": id, "agentId": p.id, "token": usd.Address, "amount": "20"}
}
