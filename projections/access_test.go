package projections_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidequest/domain"
	"sidequest/projections"
)

func TestAnOperatorSeesItsConnectionsAsTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ann")
	w.consume()
	ann := w.agents["ann"].AgentKey
	bound, gone, soon := w.connect(), w.connect(), time.Now().Add(time.Hour)
	w.connect(func(c *domain.OpenGrant) { c.ExpiresAt = &soon })
	if _, err := try(w, "stranger", domain.OpenGrant{
		ClientID: "client", Operator: "stranger", Scopes: []string{domain.ScopeSetup}, Resource: "https://sidequest.test/mcp",
	}); err != nil {
		t.Fatal(err)
	}
	do(w, "operator", domain.RevokeGrant{GrantID: gone, Reason: "lost"})
	do(w, "operator", domain.BindGrant{GrantID: bound, AgentKey: ann, Scopes: []string{domain.ScopeRead, domain.ScopeHire}})
	do(w, "operator", domain.NarrowGrant{GrantID: bound, Scopes: []string{domain.ScopeRead}})
	do(w, "operator", domain.WidenGrant{GrantID: bound, Scopes: []string{domain.ScopeWork}})
	w.level()
	used := time.Now().Add(-time.Hour).Truncate(time.Second).UTC()
	if _, err := w.Pool.Exec(t.Context(), `
		INSERT INTO auth.grant_use (grant_id, used_at)
		VALUES ($1, $2)`, bound, used); err != nil {
		t.Fatal(err)
	}

	now, err := projections.ConnectionsOf(t.Context(), w.Pool, "operator", time.Now())
	if err != nil || len(now) != 2 {
		t.Fatalf("%d connections, %v; want the bound one and the one that waits", len(now), err)
	}
	later, err := projections.ConnectionsOf(t.Context(), w.Pool, "operator", soon)
	if err != nil || len(later) != 1 {
		t.Fatalf("%d connections once one has run out, %v; want 1", len(later), err)
	}
	want := projections.Connection{
		GrantID: bound, AgentKey: ann, AgentName: "ann", ClientID: "client", ClientName: "Client",
		RedirectURI: "https://client.test/cb", Resource: "https://sidequest.test/mcp",
		Asked: domain.Scopes(), Scopes: []string{domain.ScopeRead, domain.ScopeWork}, LastUsed: &used,
	}
	if diff := cmp.Diff(want, later[0], cmpopts.IgnoreFields(projections.Connection{}, "Since")); diff != "" {
		t.Errorf("connection (-want +got):\n%s", diff)
	}
}

func TestAnOperatorSeesItsAgentsAndQuestions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ann")
	w.consume()
	conn := w.connect()
	eve := do(w, domain.AgentKey(conn), domain.ProposeAgent{Name: "Eve", Tagline: "Logos", Wallet: "0x00000000000000000000000000000000000000eE"})
	do(w, "operator", domain.SetRoles{AgentKey: w.agents["ann"].AgentKey})
	first := do(w, w.agents["ann"].AgentKey, domain.RequestRole{Role: domain.RoleHire})
	second := do(w, w.agents["ann"].AgentKey, domain.RequestRole{Role: domain.RoleWork})
	do(w, "operator", domain.DecideApproval{ApprovalID: second.ApprovalID, Outcome: domain.Refused})
	w.level()

	questions, err := projections.ApprovalsOf(t.Context(), w.Pool, "operator")
	if err != nil {
		t.Fatal(err)
	}
	var got []domain.ApprovalID
	for _, q := range questions {
		got = append(got, q.ID)
	}
	if diff := cmp.Diff([]domain.ApprovalID{first.ApprovalID, eve.ApprovalID, second.ApprovalID}, got); diff != "" {
		t.Errorf("what is open comes first, each newest first (-want +got):\n%s", diff)
	}
	agents, err := projections.AgentsOf(t.Context(), w.Pool, "operator")
	if err != nil || len(agents) != 2 {
		t.Fatalf("%d agents, %v", len(agents), err)
	}
	if a := agents[1]; a.Name != "Eve" || a.Tagline != "Logos" || a.State != projections.AgentWaits || a.AgentID != "" || a.ApprovalID != eve.ApprovalID {
		t.Errorf("an agent that waits is %+v", a)
	}
	if _, found, err := projections.GetAgent(t.Context(), w.Pool, eve.AgentKey); found || err != nil {
		t.Errorf("an agent that waits can act: %v, %v", found, err)
	}
	one, found, err := projections.GetApproval(t.Context(), w.Pool, eve.ApprovalID)
	if err != nil || !found || one.Kind != domain.ApprovalOfAgent || one.GrantID != conn || one.Status != projections.ApprovalOpen || one.Board != "main" {
		t.Errorf("the question is %+v, %v, %v", one, found, err)
	}
	if _, found, err := projections.GetApproval(t.Context(), w.Pool, "ap_none"); found || err != nil {
		t.Errorf("a question that was never put: %v, %v", found, err)
	}
}

func TestAnAgentsQuestionsComeInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ann")
	w.consume()
	ann := w.agents["ann"].AgentKey
	do(w, "operator", domain.SetRoles{AgentKey: ann})
	const asked = 51
	for range asked {
		q := do(w, ann, domain.RequestRole{Role: domain.RoleHire})
		do(w, "operator", domain.DecideApproval{ApprovalID: q.ApprovalID, Outcome: domain.Refused})
	}
	w.level()

	list := projections.ListApprovals{State: domain.Refused}
	first, next, err := list.List(t.Context(), w.reader("ann"))
	if err != nil || len(first) != 50 || next == "" {
		t.Fatalf("the first page has %d, then %q, %v", len(first), next, err)
	}
	list.Cursor = next
	rest, end, err := list.List(t.Context(), w.reader("ann"))
	if err != nil || len(rest) != asked-50 || end != "" {
		t.Errorf("the second page has %d, then %q, %v", len(rest), end, err)
	}
	list.State = domain.Approved
	if _, _, err := list.List(t.Context(), w.reader("ann")); domain.CodeOf(err) != "invalid" {
		t.Errorf("the cursor of another list: %v", err)
	}
}
