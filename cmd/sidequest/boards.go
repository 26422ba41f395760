package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/mcp"
	"sidequest/projections"
)

// boardEndpoint is the path of an endpoint that belongs to a board.
var boardEndpoint = regexp.MustCompile(`^(/b/[a-z0-9-]+)?/(mcp|mcp/server-card|api/[a-z0-9_]+)$`)

// tolerant serves paths of boards however they are spelled: people write them into
// configurations by hand. Everything behind it knows one spelling, so a resource
// has one name.
func tolerant(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.ToLower(strings.TrimSuffix(r.URL.Path, "/"))
		if path != r.URL.Path && boardEndpoint.MatchString(path) {
			r2, u := *r, *r.URL
			u.Path, u.RawPath, r2.URL = path, "", &u
			r = &r2
		}
		next.ServeHTTP(w, r)
	})
}

// boardOf returns the slug of the board that an endpoint belongs to.
func boardOf(path string) string {
	slug, _, tenant := strings.Cut(strings.TrimPrefix(path, "/b/"), "/")
	if !tenant || !strings.HasPrefix(path, "/b/") {
		return mcp.MainBoard
	}
	return slug
}

// ofBoard serves endpoints of boards that exist, before it is known who calls.
// The board main has one place, which is not here. fail answers in the form of the
// endpoint while it cannot be found out whether there is the board.
func (p *process) ofBoard(next http.Handler, fail func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		there, err := p.boardExists(r.Context(), r.PathValue("slug"))
		switch {
		case err != nil:
			fail(w, r, err)
		case !there:
			notFound(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// boardExists says whether there is a tenant board with a slug.
func (p *process) boardExists(ctx context.Context, slug string) (bool, error) {
	if slug == mcp.MainBoard {
		return false, nil
	}
	_, there, err := projections.BoardBySlug(ctx, p.pool, slug)
	return there, err
}

// board makes a tenant board while the server runs, and says who its members are if
// it is private:
//
//	sidequest board create SLUG [--name NAME] [--tokens ADDRESS:SYMBOL:DECIMALS,…] [--arbitrator ADDRESS] [--approver ADDRESS] [--private [--member OPERATOR]…]
//	sidequest board admit SLUG OPERATOR
//	sidequest board dismiss SLUG OPERATOR
//
// What is left out of a new board is as on the board main.
func board(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && (args[0] == "admit" || args[0] == "dismiss") {
		return member(ctx, args, stdout, stderr)
	}
	wish, err := parseBoard(args, stderr)
	if err != nil {
		return err
	}
	return writing(ctx, stderr, func(ctx context.Context, store *eventstore.Store) error {
		made, err := createBoard(ctx, store, wish)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(stdout, "board %s is there; its MCP endpoint is %s\n", made.Slug, mcp.BoardPath(made.Slug)+"/mcp")
		if err == nil && made.Private && len(made.Members) == 0 {
			_, err = fmt.Fprintf(stdout, "nobody can use it yet: sidequest board admit %s OPERATOR lets someone in\n", made.Slug)
		}
		return err
	})
}

// writing is [administer] for what writes to the log.
func writing(ctx context.Context, stderr io.Writer, do func(context.Context, *eventstore.Store) error) error {
	return administer(ctx, stderr, func(ctx context.Context, store *eventstore.Store) error {
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- store.Run(running) }()
		err := do(ctx, store)
		stop()
		return errors.Join(err, <-ended)
	})
}

func parseBoard(args []string, stderr io.Writer) (domain.Board, error) {
	usage := errors.New("usage: board create SLUG [--name NAME] [--private [--member OPERATOR]…] …, or board admit SLUG OPERATOR, or board dismiss SLUG OPERATOR")
	var b domain.Board
	var tokens, arbitrator, approver string
	flags := flag.NewFlagSet("board create", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&b.Name, "name", "", "what people call it; its slug if left out")
	flags.StringVar(&tokens, "tokens", "", "`list` of ADDRESS:SYMBOL:DECIMALS it deals in; those of the board main if left out")
	flags.StringVar(&arbitrator, "arbitrator", "", "`address` that rules on disputes; that of the board main if left out")
	flags.StringVar(&approver, "approver", "", "`address` that approves work; the creator of each request if left out")
	flags.BoolVar(&b.Private, "private", false, "only agents of its members see what happens on it")
	flags.Func("member", "the id of an `operator` who is a member of the private board; may be repeated", func(id string) error {
		b.Members = append(b.Members, id)
		return nil
	})
	switch {
	case len(args) == 1 && asksForHelp(args):
		return b, flags.Parse(args)
	case len(args) < 2 || args[0] != "create":
		return b, usage
	}
	b.Slug = args[1]
	if err := flags.Parse(args[2:]); err != nil {
		return b, err
	}
	if flags.NArg() > 0 {
		return b, usage
	}
	b.Arbitrator, b.DefaultApprover = domain.Address(arbitrator), domain.Address(approver)
	if tokens == "" {
		return b, nil
	}
	var c config
	if err := readTokens(&c, tokens); err != nil {
		return b, fmt.Errorf("--tokens: %w", err)
	}
	b.RewardTokens = c.Tokens
	return b, nil
}

// createBoard records a board that is not there yet.
func createBoard(ctx context.Context, store *eventstore.Store, b domain.Board) (domain.Board, error) {
	main, err := eventstore.State(ctx, store, domain.Boards, mcp.MainBoard)
	if err != nil {
		return b, err
	}
	if main.Slug == "" {
		return b, errors.New("this deployment has never run: start it once")
	}
	if b.Slug == mcp.MainBoard {
		return b, errors.New("the board main is there already; its configuration is that of the deployment")
	}
	b.Name, b.Arbitrator = cmp.Or(b.Name, b.Slug), cmp.Or(b.Arbitrator, main.Arbitrator)
	b.Network, b.ChainID, b.Stacks, b.Windows = main.Network, main.ChainID, main.Stacks, main.Windows
	if len(b.RewardTokens) == 0 {
		b.RewardTokens = main.RewardTokens
	}
	// The key depends on the slug alone, so a board is created once.
	op := eventstore.Operation{Owner: domain.System, Key: "create-board-" + b.Slug, Tool: "create_board", Board: b.Slug, At: time.Now()}
	receipt, err := eventstore.Execute(ctx, store, op, domain.ConfigureBoard{Board: b})
	if err == nil && receipt.Replayed {
		err = fmt.Errorf("there is a board %s already", b.Slug)
	}
	return b, err
}
