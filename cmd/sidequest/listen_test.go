package main

import (
	"bufio"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/mcp"
	"sidequest/secret"
)

// A toolsListener holds subscriptions/listen open.
type toolsListener struct {
	lines chan string // the frames' data; closed at the end
	close context.CancelFunc
}

// hear opens subscriptions/listen for the tools and reads up to the first change.
func (c connection) hear(t testing.TB) *toolsListener {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	l := &toolsListener{make(chan string, 100), cancel}
	go func() {
		defer close(l.lines)
		res, err := c.post(ctx, "subscriptions/listen", map[string]any{"notifications": map[string]any{"toolsListChanged": true}})
		if err != nil {
			return
		}
		defer res.Body.Close()
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				l.lines <- data
			}
		}
	}()
	for _, want := range []string{"notifications/subscriptions/acknowledged", "notifications/tools/list_changed"} {
		if line := l.next(t); !strings.Contains(line, want) {
			t.Fatalf("the stream says %s, not %s", line, want)
		}
	}
	return l
}

// next returns the next frame, "" at the end.
func (l *toolsListener) next(t testing.TB) string {
	t.Helper()
	select {
	case line := <-l.lines:
		return line
	case <-time.After(30 * time.Second):
		t.Fatal("nothing comes on the stream")
	}
	panic("unreachable")
}

// tools returns the names that tools/list shows.
func (c connection) tools(t testing.TB) []string {
	t.Helper()
	var list struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := c.ask(context.Background(), "tools/list", map[string]any{}, &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func (m *market) setRoles(t testing.TB, a *agent, roles ...domain.Role) {
	t.Helper()
	m.with(t, func(ctx context.Context, store *eventstore.Store, _ secret.Vault) error {
		_, err := carryOut(ctx, store, "", ulid.Make().String(), "set_roles", domain.SetRoles{AgentKey: a.key, Roles: roles})
		return err
	})
}

func TestWhoListensSeesExactlyTheToolsItCanCallOnWhateverReplica(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	one, two := m.start(t), m.start(t)
	ann := m.join(t, 1, "ann")[0]
	all := ann.at(two.origin).tools(t)
	m.setRoles(t, ann, domain.RoleWork)
	if diff := cmp.Diff(all, ann.at(two.origin).tools(t)); diff != "" {
		t.Errorf("who does not listen cannot see a role go (-before +after):\n%s", diff)
	}

	l := ann.at(one.origin).hear(t)
	for _, roles := range [][]domain.Role{{}, {domain.RoleHire}, {domain.RoleHire, domain.RoleWork}, {domain.RoleWork}} {
		m.setRoles(t, ann, roles...)
		for _, r := range []*replica{one, two} {
			for !shows(ann.at(r.origin).tools(t), roles) {
				if line := l.next(t); !strings.Contains(line, "notifications/tools/list_changed") {
					t.Fatalf("with roles %v the list is wrong for good; the stream says %q", roles, line)
				}
			}
		}
	}

	m.setRoles(t, ann)
	l.close()
	eventually(t, "the list is whole again", func() bool { return slices.Equal(all, ann.at(two.origin).tools(t)) })
}

func TestASetupConnectionHearsThatItsAgentIsThere(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	one, two := m.start(t), m.start(t)
	var minted mintedToken
	m.with(t, func(ctx context.Context, store *eventstore.Store, vault secret.Vault) (err error) {
		minted, err = mintToken(ctx, store, vault, m.development, tokenRequest{Scopes: []string{domain.ScopeSetup}, Board: mainBoard})
		return err
	})
	setup := &agent{tokens: []string{minted.Token}, version: mcp.V20260728}
	if !slices.Contains(setup.at(two.origin).tools(t), "pick_quote") {
		t.Error("who does not listen does not see what it will be able to do")
	}
	l := setup.at(one.origin).hear(t)
	if tools := setup.at(two.origin).tools(t); slices.Contains(tools, "pick_quote") || !slices.Contains(tools, "create_agent") {
		t.Errorf("before there is an agent the tools are %q", tools)
	}
	proposed := read[struct{ ApprovalID domain.ApprovalID }](t, setup.at(one.origin).must(t, "create_agent", map[string]any{"name": "Eve", "operationKey": "eve"}))
	m.with(t, func(ctx context.Context, store *eventstore.Store, _ secret.Vault) error {
		op := eventstore.Operation{Owner: developer, Key: "decide", Tool: "decide", Board: mainBoard, At: time.Now()}
		_, err := eventstore.Execute(ctx, store, op, domain.DecideApproval{
			ApprovalID: proposed.ApprovalID, Outcome: domain.Approved, Roles: []domain.Role{domain.RoleHire}, Grants: []string{minted.GrantID},
		})
		return err
	})
	for _, r := range []*replica{one, two} {
		for !slices.Contains(setup.at(r.origin).tools(t), "pick_quote") {
			if line := l.next(t); !strings.Contains(line, "notifications/tools/list_changed") {
				t.Fatalf("the agent is there and the list does not say so; the stream says %q", line)
			}
		}
	}
}

// shows says whether the tools are those that the roles can call.
func shows(tools []string, roles []domain.Role) bool {
	has := func(tool string, role domain.Role) bool {
		return slices.Contains(tools, tool) == slices.Contains(roles, role)
	}
	return slices.Contains(tools, "whoami") && has("pick_quote", domain.RoleHire) && has("submit_quote", domain.RoleWork)
}

func TestRevokedAccessEndsAListenInOrder(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	one := m.start(t)
	ann := m.join(t, 1, "ann")[0]
	l := ann.at(one.origin).hear(t)
	m.with(t, func(ctx context.Context, store *eventstore.Store, _ secret.Vault) error {
		_, err := revokeTokens(ctx, store, "ann")
		return err
	})
	if line := l.next(t); !strings.Contains(line, `"exchange.sidequest/ended":"revoked"`) {
		t.Errorf("the stream ends with %s", line)
	}
	if line := l.next(t); line != "" {
		t.Errorf("after its end it says %s", line)
	}
}
