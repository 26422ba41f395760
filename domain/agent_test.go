package domain_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
)

const operator domain.AgentKey = "operator"

func TestRegisterAgent(t *testing.T) {
	t.Parallel()

	eve := party("eve", "5", "0x1000000000000000000000000000000000000006")
	register := func(name string, wallet domain.Address) deed {
		return do(domain.RegisterAgent{Name: name, Wallet: wallet})
	}
	begun := func(p domain.Party) []domain.Fact {
		return []domain.Fact{
			domain.Registries.Record("agents", domain.AgentNumbered{AgentKey: p.AgentKey, AgentID: p.AgentID, Wallet: p.Wallet, Name: "eve"}),
			domain.Agents.Record(string(p.AgentKey), domain.AgentRegistered{AgentKey: p.AgentKey, AgentID: p.AgentID, Name: "eve", Wallet: p.Wallet, Operator: string(operator)}),
		}
	}
	firstEver := eve
	firstEver.AgentID = "1"
	run(t, []row{{
		name: "the first agent gets number 1", by: operator, when: register("eve", eve.Wallet), then: begun(firstEver),
	}, {
		name: "the next agent gets the next number", given: market(), by: operator, when: register("eve", eve.Wallet), then: begun(eve),
		answer: domain.RegisterAgentAnswer{AgentKey: eve.AgentKey, AgentID: "5", Wallet: eve.Wallet},
	},
		{name: "a name is taken once", given: market(), by: operator, when: register("ann", eve.Wallet), err: "agent-exists", class: domain.Conflict, field: "/name"},
		{name: "a name says something", by: operator, when: register(" ", eve.Wallet), err: "invalid", field: "/name"},
		{name: "a name has no space around it", by: operator, when: register("eve ", eve.Wallet), err: "invalid", field: "/name"},
		{name: "a name has at most 80 characters", by: operator, when: register(strings.Repeat("é", 81), eve.Wallet), err: "invalid", field: "/name"},
		{name: "a wallet is an address", by: operator, when: register("eve", "0x1"), err: "invalid", field: "/wallet"},
		{name: "a wallet is not the zero address", by: operator, when: register("eve", noWallet), err: "invalid", field: "/wallet"},
	})
}

func TestSetRoles(t *testing.T) {
	t.Parallel()

	set := func(key domain.AgentKey, roles ...domain.Role) deed {
		return do(domain.SetRoles{AgentKey: key, Roles: roles})
	}
	fact := func(roles ...domain.Role) []domain.Fact {
		return []domain.Fact{domain.Agents.Record(string(ann.AgentKey), domain.AgentRolesSet{Roles: roles})}
	}
	run(t, []row{{
		name: "roles are kept once and in order", given: market(), by: operator,
		when: set(ann.AgentKey, "work", "hire", "work"), then: fact("hire", "work"),
		answer: domain.SetRolesAnswer{Roles: []domain.Role{"hire", "work"}},
	}, {
		name: "all roles can be taken away", given: market(), by: operator, when: set(ann.AgentKey), then: fact([]domain.Role{}...),
		answer: domain.SetRolesAnswer{Roles: []domain.Role{}},
	}, {
		name: "roles that are already so record nothing", given: market(), by: operator, when: set(ann.AgentKey, "hire"),
		answer: domain.SetRolesAnswer{Roles: []domain.Role{"hire"}},
	},
		{name: "an unknown role is refused", given: market(), by: operator, when: set(ann.AgentKey, "king"), err: "invalid", field: "/roles"},
		{name: "an unknown agent is refused", given: market(), by: operator, when: set("ag_stranger", "hire"), err: "not-found", field: "/agentKey"},
		{name: "the agent of another operator is unknown", given: market(), by: "stranger", when: set(ann.AgentKey, "hire"), err: "not-found", field: "/agentKey"},
		{name: "an agent cannot give itself roles", given: market(), by: ann.AgentKey, when: set(ann.AgentKey, "work"), err: "forbidden"},
	})
}

func TestAnAgentForgetsRequestsThatAreOver(t *testing.T) {
	t.Parallel()

	states := domain.Fold(domain.Categories, with(asked(), domain.Agents.Record(string(ann.AgentKey), domain.AgentRequestOpened{
		RequestID: "rq_next", OpenedAt: wished().DeliveryDeadline, DeliveryDeadline: wished().DeliveryDeadline.Add(hour),
	}))...)

	got := domain.Agents.In(states, string(ann.AgentKey)).Open
	want := []domain.OpenRequest{{RequestID: "rq_next", Until: wished().DeliveryDeadline.Add(hour)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("open requests (-want +got):\n%s", diff)
	}
}

func TestScopesAllow(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		granted, need string
		want          bool
	}{
		{domain.ScopeRead, domain.ScopeRead, true},
		{domain.ScopeHire, domain.ScopeHire, true},
		{domain.ScopeHire, domain.ScopeRead, true},
		{domain.ScopeWork, domain.ScopeRead, true},
		{domain.ScopeHire, domain.ScopeWork, false},
		{domain.ScopeRead, domain.ScopeHire, false},
		{domain.ScopeSetup, domain.ScopeSetup, true},
		{domain.ScopeSetup, domain.ScopeRead, false},
		{domain.ScopeHire, domain.ScopeSetup, false},
	} {
		if got := domain.ScopesAllow([]string{tt.granted}, tt.need); got != tt.want {
			t.Errorf("%s allows %s: %v, want %v", tt.granted, tt.need, got, tt.want)
		}
	}
}
