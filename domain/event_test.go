package domain_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
)

// samples has one event of every type, with every field set.
func samples() []domain.Fact {
	second := noon.Truncate(time.Second)
	until := second.Add(24 * hour)
	terms, offer := sampleTerms(), sampleOffer()
	losers := []domain.Loser{{AgentKey: cat.AgentKey, QuoteID: quoteID(cat)}}
	request := func(e domain.Event[domain.Request]) domain.Fact { return end(e) }
	agent := func(e domain.Event[domain.Agent]) domain.Fact { return domain.Agents.Record(string(ann.AgentKey), e) }
	return []domain.Fact{
		domain.Operators.Record("op-ann", domain.OperatorRegistered{
			Name:  domain.Personal{Subject: "op-ann", Text: "Ann", Sealed: []byte{1, 2, 3}},
			Email: domain.Personal{Subject: "op-ann", Text: "ann@example.com", Sealed: []byte{4, 5, 6}},
		}),
		domain.Operators.Record("op-ann", domain.OperatorErased{OperatorID: "op-ann"}),
		agent(domain.AgentRegistered{AgentKey: ann.AgentKey, AgentID: "1", Name: "ann", Wallet: ann.Wallet, Operator: "op-ann"}),
		agent(domain.AgentRolesSet{Roles: domain.Roles()}),
		agent(domain.AgentProposed{
			AgentKey: ann.AgentKey, Name: "ann", Description: "Draws logos.", Tagline: "Logos", AvatarPrompt: "A fox",
			Wallet: ann.Wallet, Operator: "op-ann", GrantID: grantID, ApprovalID: roleQuestion,
		}),
		agent(domain.AgentRoleRequested{Role: domain.RoleWork, ApprovalID: roleQuestion}),
		agent(domain.AgentRoleDecided{Role: domain.RoleWork, ApprovalID: roleQuestion, Granted: true}),
		domain.Approvals.Record(string(roleQuestion), domain.ApprovalRequested{
			Kind: domain.ApprovalOfRole, AgentKey: ann.AgentKey, Operator: "op-ann", Board: "main", OperationID: "op_1",
			Role: domain.RoleWork, GrantID: grantID, Resource: "https://sidequest.test/mcp",
		}),
		domain.Approvals.Record(string(roleQuestion), domain.ApprovalDecided{
			Kind: domain.ApprovalOfRole, AgentKey: ann.AgentKey, OperationID: "op_1", Role: domain.RoleWork,
			Outcome: domain.Approved, By: "op-ann",
		}),
		agent(domain.AgentRequestOpened{RequestID: requestID, OpenedAt: second, DeliveryDeadline: until}),
		agent(domain.AgentRequestSettled{RequestID: requestID}),
		domain.Registries.Record("agents", domain.AgentNumbered{AgentKey: ann.AgentKey, AgentID: "1", Wallet: ann.Wallet, Name: "ann"}),
		granted(allow(func(c *domain.OpenGrant) {
			c.ExpiresAt, c.Asked, c.ClientName, c.RedirectURI = &until, domain.Scopes(), "Claude", "https://claude.ai/callback"
		})),
		domain.Grants.Record(grantID, domain.GrantProposed{AgentKey: ann.AgentKey}),
		domain.Grants.Record(grantID, domain.GrantBound{AgentKey: ann.AgentKey, Scopes: []string{domain.ScopeRead}}),
		domain.Grants.Record(grantID, domain.GrantWidened{Scopes: []string{domain.ScopeHire}, Asked: domain.Scopes()}),
		domain.Grants.Record(grantID, domain.GrantNarrowed{Scopes: []string{domain.ScopeRead}}),
		domain.Grants.Record(grantID, domain.GrantReuseDetected{}),
		domain.Grants.Record(grantID, domain.GrantRevoked{Reason: "lost laptop"}),
		domain.Boards.Record("main", domain.BoardConfigured{Board: sampleBoard()}),
		domain.Boards.Record("main", domain.BoardMemberAdmitted{Operator: "op-ann"}),
		domain.Boards.Record("main", domain.BoardMemberDismissed{Operator: "op-ann"}),
		request(domain.RequestOpened{Terms: terms, RequestHash: keccak(terms)}),
		request(domain.QuoteInvited{Invite: bob}),
		request(domain.QuoteSubmitted{
			QuoteID: quoteID(bob), Creator: ann.AgentKey, Bidder: bob, Token: usd.Address, Amount: "20", Note: "By Friday.",
			ExpectedCosts: offer.ExpectedCosts, Replaces: bobs,
		}),
		request(domain.QuoteWithdrawn{QuoteID: quoteID(bob), Bidder: bob.AgentKey}),
		request(domain.RequestPicked{QuoteID: quoteID(bob), TaskID: taskID, Creator: ann.AgentKey, Bidder: bob, Losers: losers}),
		request(domain.RequestClosed{Losers: losers}),
		request(domain.RequestExpired{Losers: losers}),
		domain.Hires.Record(string(taskID), domain.HireFrozen{Offer: offer, TermsHash: keccak(offer)}),
		domain.Webhooks.Record("sub_0123456789abcdef01234567", domain.WebhookHalted{
			AgentKey: ann.AgentKey, State: domain.WebhookSuspended, Reason: "timeout", FailingSince: noon,
		}),
	}
}

func sampleTerms() domain.Terms {
	return wished(func(t *domain.Terms) {
		t.Tags, t.RequiredChecks = []domain.Tag{"writing"}, []string{"Spelling"}
		t.Budget, t.Invite = &domain.Budget{Token: usd.Address, Max: "25"}, &bob
		t.Deliverable.Target = "docs"
	})
}

func sampleOffer() domain.Offer {
	terms := sampleTerms()
	return domain.Offer{
		TaskID:        taskID,
		RequestHash:   keccak(terms),
		Terms:         terms,
		QuoteID:       quoteID(bob),
		Worker:        bob,
		Token:         usd,
		Reward:        "20",
		ExpectedCosts: &domain.Costs{Token: eth.Address, Amount: "0.001", Note: "gas"},
		ExecutionBudget: &domain.FrozenBudget{
			Kind: "call", Token: eth, Target: dan.Wallet, Function: "mint(address)", Cap: "0.1", ExpiresAt: terms.DeliveryDeadline,
		},
		FrozenAt: terms.CreatedAt,
	}
}

func sampleBoard() domain.Board {
	minute := domain.WindowRange{MinSeconds: 1, MaxSeconds: 60}
	b := square
	b.DefaultApprover, b.Private, b.Members = dan.Wallet, true, []string{"op-ann"}
	b.Windows = &domain.WindowBounds{Review: minute, Dispute: minute, Arbitration: minute}
	return b
}

// TestRecordedEventsDecodeForEver compares every event type with the file that
// was written when the type was. A new type gets its file by UPDATE=1; a file
// that exists is never to change, since the log is full of such events.
func TestRecordedEventsDecodeForEver(t *testing.T) {
	t.Parallel()

	for _, f := range samples() {
		t.Run(f.Event.EventType(), func(t *testing.T) {
			t.Parallel()

			golden := filepath.Join("testdata", "events", f.Event.EventType()+".json")
			if os.Getenv("UPDATE") != "" {
				write(t, golden, f.Event)
			}
			data, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("a new event type? UPDATE=1 writes its golden: %v", err)
			}
			event, err := category(t, f.Stream).Decode(f.Event.EventType(), data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(f.Event, event); diff != "" {
				t.Errorf("decoded (-sample +golden):\n%s", diff)
			}
			if again := indented(t, event); !bytes.Equal(data, again) {
				t.Errorf("encoded again (-golden +now):\n%s", cmp.Diff(string(data), string(again)))
			}
		})
	}
}

// TestEventsOfEarlierProgramsDecode reads events as they were written before their
// type had all the fields it has now. The log is full of such events, too.
func TestEventsOfEarlierProgramsDecode(t *testing.T) {
	t.Parallel()

	opened := decodeEarlier(t, domain.Grants, "grant.opened").Apply(domain.Grant{})
	if diff := cmp.Diff(opened.Scopes, opened.Asked); diff != "" || len(opened.Asked) == 0 {
		t.Errorf("asked for, beside what was allowed: %s", diff)
	}
	if agent := decodeEarlier(t, domain.Agents, "agent.registered").Apply(domain.Agent{}); agent.Operator != string(domain.Developer) {
		t.Errorf("the operator of an agent from before agents had one is %q", agent.Operator)
	}
	if board := decodeEarlier(t, domain.Boards, "board.configured").Apply(domain.Board{}); board.Private {
		t.Error("a board from before boards could be private is private")
	}
}

func decodeEarlier[S any](t *testing.T, c domain.Category[S], eventType string) domain.Event[S] {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "events", "earlier", eventType+".json"))
	if err != nil {
		t.Fatal(err)
	}
	event, err := c.Decode(eventType, data)
	if err != nil {
		t.Fatal(err)
	}
	return event.(domain.Event[S])
}

func TestEveryEventTypeHasOneNameAndASampleWithEveryFieldSet(t *testing.T) {
	t.Parallel()

	shape := regexp.MustCompile(`^[a-z]+\.[a-z_]+$`)
	owner := map[string]string{}
	for _, c := range domain.Categories {
		for _, e := range c.EventTypes() {
			if other, taken := owner[e.EventType()]; taken {
				t.Errorf("%s belongs to both %s and %s", e.EventType(), other, c.CategoryName())
			}
			if !shape.MatchString(e.EventType()) {
				t.Errorf("%q is no <noun>.<past participle>", e.EventType())
			}
			owner[e.EventType()] = c.CategoryName()
		}
	}
	for _, f := range samples() {
		if owner[f.Event.EventType()] != f.Stream.Category() {
			t.Errorf("the sample of %s is not in its category", f.Event.EventType())
		}
		if field := unset(reflect.ValueOf(f.Event)); field != "" {
			t.Errorf("the sample of %s leaves %s unset", f.Event.EventType(), field)
		}
		delete(owner, f.Event.EventType())
	}
	for name := range owner {
		t.Errorf("%s has no sample", name)
	}
}

// unset returns a field that is zero, at any depth, or "".
func unset(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[time.Time]() {
		return ""
	}
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if v.Field(i).IsZero() {
			return name
		}
		if inner := unset(v.Field(i)); inner != "" {
			return name + "." + inner
		}
	}
	return ""
}

func TestAnUnknownOrBrokenEventDoesNotDecode(t *testing.T) {
	t.Parallel()

	if _, err := domain.Agents.Decode("agent.abducted", []byte(`{}`)); err == nil {
		t.Error("an unknown type was decoded")
	}
	if _, err := domain.Agents.Decode("agent.registered", []byte(`{`)); err == nil {
		t.Error("broken JSON was decoded")
	}
}

func category(t *testing.T, s domain.Stream) domain.AnyCategory {
	t.Helper()
	for _, c := range domain.Categories {
		if c.CategoryName() == s.Category() {
			return c
		}
	}
	t.Fatalf("no category of %s", s)
	return nil
}

func indented(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

func write(t *testing.T, path string, e domain.Typed) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, indented(t, e), 0o644); err != nil {
		t.Fatal(err)
	}
}
