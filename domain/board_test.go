package domain_test

import (
	"slices"
	"strings"
	"testing"

	"sidequest/domain"
)

func TestConfigureBoard(t *testing.T) {
	t.Parallel()

	configure := func(change ...func(*domain.Board)) domain.ConfigureBoard {
		b := square
		b.RewardTokens = slices.Clone(b.RewardTokens)
		for _, f := range change {
			f(&b)
		}
		return domain.ConfigureBoard{Board: b}
	}
	renamed := configure(func(b *domain.Board) { b.Name = "Square" })
	run(t, []row{
		{name: "a board begins", by: operator, when: do(configure()), then: market()[:1], answer: domain.ConfigureBoardAnswer{BoardID: "main"}},
		{name: "a board is configured anew", given: market(), by: operator, when: do(renamed),
			then: []domain.Fact{domain.Boards.Record("main", domain.BoardConfigured(renamed))}},
		{name: "the same configuration records nothing", given: market(), by: operator, when: do(configure())},
	})

	short := func(r domain.WindowRange) func(*domain.Board) {
		return func(b *domain.Board) {
			fine := domain.WindowRange{MinSeconds: 1, MaxSeconds: 2}
			b.Windows = &domain.WindowBounds{Review: fine, Dispute: fine, Arbitration: r}
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*domain.Board)
		code   string
		field  string
	}{
		{"a slug of capitals is refused", func(b *domain.Board) { b.Slug = "Main" }, "invalid", "/slug"},
		{"a slug of two characters is refused", func(b *domain.Board) { b.Slug = "ab" }, "invalid", "/slug"},
		{"a blank name is refused", func(b *domain.Board) { b.Name = "" }, "invalid", "/name"},
		{"a long name is refused", func(b *domain.Board) { b.Name = strings.Repeat("n", 81) }, "invalid", "/name"},
		{"an unknown network is refused", func(b *domain.Board) { b.Network = "moon" }, "invalid", "/network"},
		{"chain 0 is refused", func(b *domain.Board) { b.ChainID = 0 }, "invalid", "/chainId"},
		{"a stack without a name is refused", func(b *domain.Board) { b.Stacks = []string{""} }, "invalid", "/stacks"},
		{"no token is refused", func(b *domain.Board) { b.RewardTokens = nil }, "invalid", "/rewardTokens"},
		{"a token listed twice is refused", func(b *domain.Board) { b.RewardTokens[1].Address = usd.Address }, "invalid", "/rewardTokens"},
		{"a token without an address is refused", func(b *domain.Board) { b.RewardTokens[1].Address = "" }, "invalid", "/rewardTokens"},
		{"a token without a symbol is refused", func(b *domain.Board) { b.RewardTokens[1].Symbol = "" }, "invalid", "/rewardTokens"},
		{"a token of 19 decimals is refused", func(b *domain.Board) { b.RewardTokens[1].Decimals = 19 }, "invalid", "/rewardTokens"},
		{"no arbitrator is refused", func(b *domain.Board) { b.Arbitrator = "" }, "invalid", "/arbitrator"},
		{"an approver that is no address is refused", func(b *domain.Board) { b.DefaultApprover = "ann" }, "invalid", "/defaultApprover"},
		{"an approver that arbitrates is refused", func(b *domain.Board) { b.DefaultApprover = art }, "conflict-of-interest", "/defaultApprover"},
		{"a window of no time is refused", short(domain.WindowRange{}), "invalid", "/windows"},
		{"a window that ends before it begins is refused", short(domain.WindowRange{MinSeconds: 2, MaxSeconds: 1}), "invalid", "/windows"},
		{"windows of one's own on the main network are refused", func(b *domain.Board) {
			short(domain.WindowRange{MinSeconds: 1, MaxSeconds: 1})(b)
			b.Network = domain.NetworkMain
		}, "invalid", "/windows"},
	} {
		run(t, []row{{name: tt.name, by: operator, when: do(configure(tt.change)), err: tt.code, class: domain.Invalid, field: tt.field}})
	}
	run(t, []row{{
		name: "a board may have windows of its own on a test network", by: operator,
		when: do(configure(short(domain.WindowRange{MinSeconds: 1, MaxSeconds: 1}))),
		then: []domain.Fact{domain.Boards.Record("main", domain.BoardConfigured(configure(short(domain.WindowRange{MinSeconds: 1, MaxSeconds: 1}))))},
	}})
}
