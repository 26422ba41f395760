package main

import (
	"context"
	"testing"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/mcp"
	"sidequest/secret"
)

func TestNothingOfAnErasedOperatorIsConnectedAnyMore(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	hers := &agent{name: "ann's agent", version: mcp.V20260728}
	m.with(t, func(ctx context.Context, store *eventstore.Store, vault secret.Vault) error {
		_, err := carryOut(ctx, store, "op_ann", "1", "register_operator", domain.RegisterOperator{OperatorID: "op_ann", Name: "Ann", Email: "ann@people.example"})
		if err != nil {
			return err
		}
		minted, err := mintToken(ctx, store, vault, m.development, tokenRequest{
			Agent: hers.name, Board: mainBoard, Operator: "op_ann", Scopes: []string{domain.ScopeRead},
		})
		hers.tokens = []string{minted.Token}
		return err
	})
	others := m.join(t, 1, "bob's agent")[0]
	hers.at(r.origin).must(t, "whoami", nil)

	m.with(t, func(ctx context.Context, store *eventstore.Store, _ secret.Vault) error {
		return forget(ctx, store, "op_ann")
	})
	eventually(t, "the connection of the erased operator ends", func() bool {
		status, _ := hers.at(r.origin).rest(t, "whoami", nil)
		return status == 401
	})
	others.at(r.origin).must(t, "whoami", nil)
}
