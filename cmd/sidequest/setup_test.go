package main

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/mcp"
	"sidequest/oauth"
	"sidequest/projections"
	"sidequest/secret"
)

// decide answers a question as the operator of development agents.
func (m *market) decide(t *testing.T, c domain.DecideApproval) {
	t.Helper()
	m.with(t, func(ctx context.Context, store *eventstore.Store, _ secret.Vault) error {
		grants, err := oauth.LoadGrants(ctx, store)
		if err != nil {
			return err
		}
		live, err := grants.OfOperator(ctx, string(developer))
		if err != nil {
			return err
		}
		for _, g := range live {
			if g.AgentKey == "" {
				c.Grants = append(c.Grants, g.ID)
			}
		}
		op := eventstore.Operation{Owner: developer, Key: "decide-" + string(c.ApprovalID), Tool: "decide_approval", Board: mainBoard, At: time.Now()}
		_, err = eventstore.Execute(ctx, store, op, c)
		return err
	})
}

// within waits for something that has to happen within a second.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	began := time.Now()
	eventually(t, what, holds)
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %s until %s", took, what)
	}
}

func (a answer) status(t *testing.T) (status, approveURL string) {
	t.Helper()
	var w struct {
		Status     string `json:"status"`
		ApproveURL string `json:"approveUrl"`
	}
	if err := json.Unmarshal([]byte(a.raw), &w); err != nil {
		t.Fatal(err)
	}
	return w.Status, w.ApproveURL
}

func TestAnAgentIsSetUpOnOneReplicaAndActsOnAnotherWithTheSameToken(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	one, two := m.start(t), m.start(t)
	var minted mintedToken
	m.with(t, func(ctx context.Context, store *eventstore.Store, vault secret.Vault) (err error) {
		minted, err = mintToken(ctx, store, vault, m.development, tokenRequest{Board: mainBoard, Scopes: []string{domain.ScopeSetup}})
		return err
	})
	here := connection{http: http.DefaultClient, origin: one.origin, token: minted.Token, version: mcp.V20260728}
	there := here
	there.origin = two.origin

	create := map[string]any{"operationKey": "eve", "name": "Eve"}
	made := here.must(t, "create_agent", create)
	result := read[struct {
		AgentKey   domain.AgentKey
		ApprovalID domain.ApprovalID
	}](t, made)
	status, url := made.status(t)
	if status != "approval" || url != m.config().PublicURL+"/approve/"+string(result.ApprovalID) {
		t.Fatalf("create_agent answers %s", made.raw)
	}
	if again := there.must(t, "create_agent", create); again.raw != made.raw {
		t.Errorf("the other replica answers the repeat %s, not %s", again.raw, made.raw)
	}
	if sealed := query[int](t, m, `SELECT count(*)::int FROM auth.secrets WHERE name = $1`, "wallet:"+string(result.AgentKey)); sealed[0] != 1 {
		t.Errorf("%d wallets were made for the agent", sealed[0])
	}

	m.decide(t, domain.DecideApproval{ApprovalID: result.ApprovalID, Outcome: domain.Approved, Roles: []domain.Role{domain.RoleHire}})
	type self struct {
		AgentID string
		Address domain.Address
		Roles   []string
	}
	within(t, "the token acts as the agent on both replicas", func() bool {
		a, b := read[self](t, here.must(t, "whoami", nil)), read[self](t, there.must(t, "whoami", nil))
		return a.AgentID != "" && a.AgentID == b.AgentID && a.Address == b.Address && slices.Equal(b.Roles, []string{"hire"})
	})
	if status, _ := there.must(t, "create_agent", create).status(t); status != "confirmed" {
		t.Errorf("the repeat after the decision is %s", status)
	}
	there.must(t, "request_quotes", requestArgs("r"))
	list, err := there.call(t.Context(), "setup_status", map[string]any{"agentKey": result.AgentKey})
	if err != nil || read[struct{ State string }](t, list).State != projections.AgentReady {
		t.Errorf("setup_status after the decision: %s, %v", list.raw, err)
	}
}

func TestRolesActOnTheNextCallOfEveryConnectionOnEveryReplica(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	one, two := m.start(t), m.start(t)
	ann := m.join(t, 2, "ann")[0]
	there := connection{http: http.DefaultClient, origin: two.origin, token: ann.tokens[1], version: mcp.V20260728}
	roles := func(roles ...domain.Role) {
		t.Helper()
		m.with(t, func(ctx context.Context, store *eventstore.Store, _ secret.Vault) error {
			_, err := giveRoles(ctx, store, ann.key, tokenRequest{Roles: append([]domain.Role{}, roles...)})
			return err
		})
	}
	for i, held := range []bool{false, true, false} {
		roles(map[bool][]domain.Role{true: {domain.RoleHire}}[held]...)
		for _, c := range []connection{ann.at(one.origin), there} {
			self := read[struct{ Roles []string }](t, c.must(t, "whoami", nil))
			if slices.Contains(self.Roles, "hire") != held {
				t.Errorf("round %d: whoami tells the roles %q", i, self.Roles)
			}
			a, err := c.call(t.Context(), "request_quotes", requestArgs("r-"+c.token[len(c.token)-8:]+string(rune('a'+i))))
			if err != nil || a.OK != held || !held && a.Code != "role-required" {
				t.Errorf("round %d: %s, %v", i, a.raw, err)
			}
		}
	}
}

func TestARoleIsAskedForOnOneReplicaAndUsedOnAnother(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	one, two := m.start(t), m.start(t)
	ann := m.join(t, 1, "ann")[0]
	m.with(t, func(ctx context.Context, store *eventstore.Store, _ secret.Vault) error {
		_, err := giveRoles(ctx, store, ann.key, tokenRequest{Roles: []domain.Role{}})
		return err
	})
	heard := ann.at(two.origin).hold(t, projections.FeedApprovals)
	ask := map[string]any{"role": "hire", "operationKey": "role"}
	asked := ann.at(one.origin).must(t, "request_role", ask)
	if again := ann.at(two.origin).must(t, "request_role", ask); again.raw != asked.raw {
		t.Errorf("the other replica answers %s, not %s", again.raw, asked.raw)
	}
	m.decide(t, domain.DecideApproval{
		ApprovalID: read[struct{ ApprovalID domain.ApprovalID }](t, asked).ApprovalID, Outcome: domain.Approved,
	})
	if status, _ := ann.at(two.origin).must(t, "request_role", ask).status(t); status != "confirmed" {
		t.Errorf("the repeat after the decision is %s", status)
	}
	ann.at(two.origin).must(t, "request_quotes", requestArgs("r"))
	for _, kind := range []string{"approval.requested", "approval.decided", "role.granted"} {
		if f, open := heard.next(t); !open || f.Params.Data.Kind != kind {
			t.Errorf("the stream of approvals brings %+v, want %s", f, kind)
		}
	}
	eventually(t, "the operator sees when the connection was used", func() bool {
		return len(query[string](t, m, `SELECT grant_id FROM auth.grant_use`)) > 0
	})
}
