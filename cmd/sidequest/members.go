package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sidequest/domain"
	"sidequest/eventstore"
)

// member admits an operator to a private board, or dismisses one.
func member(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) != 3 || slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") }) {
		return fmt.Errorf("usage: board %s SLUG OPERATOR", args[0])
	}
	change, slug, operator := args[0], args[1], args[2]
	return writing(ctx, stderr, func(ctx context.Context, store *eventstore.Store) error {
		if err := changeMember(ctx, store, change, slug, operator); err != nil {
			return err
		}
		says := "is a member of board %s: connections of theirs work there"
		if change == "dismiss" {
			says = "is no member of board %s any more: connections of theirs are refused there within a second"
		}
		_, err := fmt.Fprintf(stdout, "operator %s "+says+"\n", operator, slug)
		return err
	})
}

// changeMember records that an operator is admitted to a board, or dismissed.
func changeMember(ctx context.Context, store *eventstore.Store, change, slug, operator string) error {
	op := eventstore.Operation{Owner: domain.System, Key: rand.Text(), Tool: change + "_member", Board: slug, At: time.Now()}
	var err error
	if change == "admit" {
		_, err = eventstore.Execute(ctx, store, op, domain.AdmitMember{Slug: slug, Operator: operator})
	} else {
		_, err = eventstore.Execute(ctx, store, op, domain.DismissMember{Slug: slug, Operator: operator})
	}
	return err
}

// checkMember refuses a token that would allow nothing. Who is a member of a private
// board is for those to say who run it, also where they develop.
func checkMember(ctx context.Context, store *eventstore.Store, r tokenRequest) error {
	b, err := eventstore.State(ctx, store, domain.Boards, r.Board)
	if err != nil {
		return fmt.Errorf("look for board %s: %w", r.Board, err)
	}
	if operator := string(cmp.Or(r.Operator, developer)); !b.Admits(operator) {
		return fmt.Errorf("board %s is private and %s is not a member of it: sidequest board admit %s %s", r.Board, operator, r.Board, operator)
	}
	return nil
}
