package domain_test

import (
	"fmt"
	"slices"
	"testing"

	"sidequest/domain"
)

func TestMembersOfAPrivateBoard(t *testing.T) {
	t.Parallel()

	private := func(members ...string) domain.Board {
		b := square
		b.Private, b.Members = true, members
		return b
	}
	signedIn := func(id string) domain.Fact {
		return domain.Operators.Record(id, domain.OperatorRegistered{Name: domain.Personal{Subject: id, Text: "Ann"}})
	}
	configured := func(b domain.Board) domain.Fact {
		return domain.Boards.Record("main", domain.BoardConfigured{Board: b})
	}
	admitted := domain.Boards.Record("main", domain.BoardMemberAdmitted{Operator: "op-ann"})
	dismissed := domain.Boards.Record("main", domain.BoardMemberDismissed{Operator: "op-ann"})
	admit, dismiss := domain.AdmitMember{Slug: "main", Operator: "op-ann"}, domain.DismissMember{Slug: "main", Operator: "op-ann"}
	answer := domain.MemberAnswer{BoardID: "main", Operator: "op-ann"}
	given := []domain.Fact{configured(private()), signedIn("op-ann")}
	erased := with(given, domain.Operators.Record("op-ann", domain.OperatorErased{OperatorID: "op-ann"}))
	full := make([]string, 1000)
	for i := range full {
		full[i] = fmt.Sprint("op-", i)
	}

	run(t, []row{
		{name: "an operator is admitted", given: given, by: domain.System, when: do(admit), then: []domain.Fact{admitted}, answer: answer},
		{name: "a member is admitted without an event", given: with(given, admitted), by: domain.System, when: do(admit), answer: answer},
		{name: "a member is dismissed", given: with(given, admitted), by: domain.System, when: do(dismiss), then: []domain.Fact{dismissed}, answer: answer},
		{name: "who was dismissed is admitted again", given: with(given, admitted, dismissed), by: domain.System, when: do(admit), then: []domain.Fact{admitted}, answer: answer},
		{name: "who is no member is not dismissed", given: given, by: domain.System, when: do(dismiss), err: "not-found", class: domain.NotFound, field: "/operator"},
		{name: "an operator nobody knows is not admitted", given: given[:1], by: domain.System, when: do(admit), err: "not-found", class: domain.NotFound, field: "/operator"},
		{name: "an erased operator is not admitted", given: erased, by: domain.System, when: do(admit), err: "not-found", class: domain.NotFound, field: "/operator"},
		{name: "the developer need not have signed in", given: given, by: domain.System, when: do(domain.AdmitMember{Slug: "main", Operator: string(domain.Developer)}),
			then: []domain.Fact{domain.Boards.Record("main", domain.BoardMemberAdmitted{Operator: string(domain.Developer)})}},
		{name: "nobody is admitted to a public board", given: with(market(), signedIn("op-ann")), by: domain.System, when: do(admit), err: "board-public", class: domain.Conflict},
		{name: "nobody is dismissed from a public board", given: market(), by: domain.System, when: do(dismiss), err: "board-public", class: domain.Conflict},
		{name: "nobody is admitted to a board that is not there", by: domain.System, when: do(admit), err: "not-found", class: domain.NotFound},
		{name: "a full board admits nobody", given: []domain.Fact{configured(private(full...)), signedIn("op-ann")}, by: domain.System, when: do(admit), err: "conflict", class: domain.Conflict},

		{name: "a private board begins with members", given: given[1:], by: domain.System, when: do(domain.ConfigureBoard{Board: private("op-ann")}),
			then: []domain.Fact{configured(private("op-ann"))}},
		{name: "a member nobody knows is refused", by: domain.System, when: do(domain.ConfigureBoard{Board: private("op-ann")}), err: "not-found", class: domain.NotFound, field: "/members"},
		{name: "a member named twice is refused", given: given[1:], by: domain.System, when: do(domain.ConfigureBoard{Board: private("op-ann", "op-ann")}), err: "invalid", class: domain.Invalid, field: "/members/1"},
		{name: "too many members are refused", by: domain.System, when: do(domain.ConfigureBoard{Board: private(slices.Concat(full, []string{"op-ann"})...)}), err: "invalid", class: domain.Invalid, field: "/members"},
		{name: "members of a public board are refused", given: given[1:], by: domain.System, when: func() deed {
			b := private("op-ann")
			b.Private = false
			return do(domain.ConfigureBoard{Board: b})
		}(), err: "invalid", class: domain.Invalid, field: "/members"},
	})
}

func TestAPrivateBoardAdmitsItsMembersAlone(t *testing.T) {
	t.Parallel()

	b := domain.BoardMemberAdmitted{Operator: "op-ann"}.Apply(domain.Board{Private: true})
	b = domain.BoardMemberAdmitted{Operator: "op-bob"}.Apply(b)
	gone := domain.BoardMemberDismissed{Operator: "op-ann"}.Apply(b)
	for _, c := range []struct {
		board    domain.Board
		operator string
		want     bool
	}{{b, "op-ann", true}, {b, "op-bob", true}, {b, "op-cat", false}, {b, "", false}, {gone, "op-ann", false}, {gone, "op-bob", true}, {domain.Board{}, "op-cat", true}} {
		if got := c.board.Admits(c.operator); got != c.want {
			t.Errorf("with the members %q, %q is admitted: %t", c.board.Members, c.operator, got)
		}
	}
}
