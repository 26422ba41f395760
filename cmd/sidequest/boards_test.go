package main

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/mcp"
	"sidequest/projections"
	"sidequest/secret"
)

// board makes a board beside main and waits until a replica serves it.
func (m *market) board(t *testing.T, r *replica, b domain.Board) {
	t.Helper()
	m.with(t, func(ctx context.Context, store *eventstore.Store, _ secret.Vault) error {
		_, err := createBoard(ctx, store, b)
		return err
	})
	eventually(t, "the board is served", func() bool {
		status, _ := fetch(t, http.MethodPost, r.origin+mcp.BoardPath(b.Slug)+"/api/whoami", "{}", "")
		return status == http.StatusUnauthorized
	})
}

// on brings ann with a token for one board.
func (m *market) on(t *testing.T, r *replica, board string) connection {
	t.Helper()
	var minted mintedToken
	m.with(t, func(ctx context.Context, store *eventstore.Store, vault secret.Vault) (err error) {
		minted, err = mintToken(ctx, store, vault, m.development, tokenRequest{
			Agent: "ann", Board: board, Scopes: []string{domain.ScopeRead, domain.ScopeHire, domain.ScopeWork},
		})
		return err
	})
	return connection{http: http.DefaultClient, origin: r.origin + mcp.BoardPath(board), token: minted.Token, version: mcp.V20260728}
}

func TestABoardIsAResourceOfItsOwn(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	m.board(t, r, domain.Board{Slug: "acme", Name: "Acme"})
	here, there := m.on(t, r, "acme"), m.on(t, r, mainBoard)

	var self struct{ BoardID string }
	for _, spelling := range []string{"/b/acme", "/B/ACME", "/b/Acme"} {
		c := here
		c.origin = r.origin + spelling
		if self = read[struct{ BoardID string }](t, c.must(t, "whoami", nil)); self.BoardID != "acme" {
			t.Errorf("at %s the board is %q", spelling, self.BoardID)
		}
	}
	if status, body := fetch(t, http.MethodPost, r.origin+"/b/acme/api/whoami/", "{}", "Bearer "+here.token); status != http.StatusOK {
		t.Errorf("with a slash at the end: %d %s", status, body)
	}
	for name, c := range map[string]connection{"a token of acme at main": {origin: r.origin, token: here.token}, "a token of main at acme": {origin: here.origin, token: there.token}} {
		if status, a := c.rest(t, "whoami", nil); status != http.StatusUnauthorized || a.Code != "unauthenticated" {
			t.Errorf("%s: %d %s", name, status, a.raw)
		}
	}

	id := read[requested](t, here.must(t, "request_quotes", requestArgs("r"))).RequestID
	if list := read[projections.RequestList](t, there.must(t, "list_quote_requests", nil)); len(list.Requests) != 0 {
		t.Errorf("main shows what is asked on acme: %+v", list)
	}
	if status, a := there.rest(t, "list_quotes", map[string]any{"requestId": id}); status != http.StatusNotFound {
		t.Errorf("a request of acme at main: %d %s", status, a.raw)
	}
	if status, a := there.rest(t, "close_request", map[string]any{"requestId": id, "operationKey": "close"}); status != http.StatusNotFound {
		t.Errorf("the end of a request of acme at main: %d %s", status, a.raw)
	}
}

func TestABoardThatIsNotThereIsNowhere(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	m.board(t, r, domain.Board{Slug: "acme", Name: "Acme", Private: true})
	ann := m.on(t, r, mainBoard)
	for _, path := range []string{"/b/nowhere/mcp", "/b/nowhere/api/whoami", "/b/main/mcp", "/b/main/api/whoami", "/b/acme/nothing", "/b/"} {
		for _, authorization := range []string{"", "Bearer " + ann.token} {
			if status, body := fetch(t, http.MethodPost, r.origin+path, "{}", authorization); status != http.StatusNotFound {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
	}
	for path, want := range map[string]int{"acme": http.StatusOK, "nowhere": http.StatusNotFound, "main": http.StatusNotFound} {
		status, body := fetch(t, http.MethodGet, r.origin+"/.well-known/oauth-protected-resource/b/"+path+"/mcp", "", "")
		if status != want {
			t.Errorf("metadata of %s: %d %s", path, status, body)
		}
		if want == http.StatusOK && !strings.Contains(body, `"`+m.config().PublicURL+`/b/acme/mcp"`) {
			t.Errorf("the metadata name another resource: %s", body)
		}
	}
	list := read[struct{ Boards []struct{ BoardID string } }](t, ann.must(t, "list_boards", nil))
	if len(list.Boards) != 1 || list.Boards[0].BoardID != mainBoard {
		t.Errorf("a private board is listed: %+v", list)
	}
}

func TestABoardIsMadeOnceAndNeverMain(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	m.board(t, r, domain.Board{Slug: "acme"})
	m.with(t, func(ctx context.Context, store *eventstore.Store, _ secret.Vault) error {
		for slug, want := range map[string]string{"acme": "there is a board acme already", "main": "is there already", "No": "3 to 32 characters"} {
			if _, err := createBoard(ctx, store, domain.Board{Slug: slug}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a board %s: %v, want %q", slug, err, want)
			}
		}
		acme, err := eventstore.State(ctx, store, domain.Boards, "acme")
		if err == nil && (acme.Name != "acme" || acme.Network != domain.NetworkTest || len(acme.RewardTokens) != 1 || acme.Private) {
			t.Errorf("what is left out is not as on main: %+v", acme)
		}
		return err
	})
}

func TestBoardFlags(t *testing.T) {
	t.Parallel()
	got, err := parseBoard([]string{"create", "acme", "--name", "Acme", "--private", "--tokens", "0x36692a59A3cB08C976f92E468a581E6e0a1AF89E:USD:6"}, t.Output())
	if err != nil || got.Slug != "acme" || got.Name != "Acme" || !got.Private || len(got.RewardTokens) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, args := range [][]string{nil, {"create"}, {"drop", "acme"}, {"create", "acme", "more"}, {"create", "acme", "--tokens", "USD"}} {
		if _, err := parseBoard(args, t.Output()); err == nil {
			t.Errorf("board %q is understood", args)
		}
	}
}
