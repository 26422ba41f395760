package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/mcp"
	"sidequest/projections"
	"sidequest/secret"
)

// member admits an operator to the board acme, or dismisses one.
func (m *market) member(t *testing.T, change, operator string) {
	t.Helper()
	m.with(t, func(ctx context.Context, store *eventstore.Store, _ secret.Vault) error {
		return changeMember(ctx, store, change, "acme", operator)
	})
}

func TestWhoIsDismissedFromAPrivateBoardIsRefusedOnEveryReplicaWithinASecond(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	one, two := m.start(t), m.start(t)
	m.board(t, one, domain.Board{Slug: "acme", Private: true, Members: []string{string(developer)}})
	here, onMain := m.on(t, one, "acme"), m.on(t, one, mainBoard)
	there := here
	there.origin = two.origin + mcp.BoardPath("acme")
	there.must(t, "whoami", nil)
	streams := []*held{here.hold(t, projections.FeedInbox), there.hold(t, projections.FeedRequests)}
	listens := []*toolsListener{here.hear(t), there.hear(t)}

	m.member(t, "dismiss", string(developer))
	dismissed, late := time.Now(), lateness()
	for _, h := range streams {
		if f, open := h.next(t); !open || f.Method != frameTerminated || f.Params.Error.Code != -32003 {
			t.Errorf("the stream says %+v, %v", f, h.end)
		}
		h.endsAfterTermination(t)
	}
	for _, l := range listens {
		if line := l.next(t); !strings.Contains(line, `"exchange.sidequest/ended":"revoked"`) {
			t.Errorf("subscriptions/listen ends with %s", line)
		}
	}
	for _, c := range []connection{here, there} {
		eventually(t, "the next call is refused", func() bool {
			status, a := c.rest(t, "whoami", nil)
			return status == http.StatusForbidden && a.Code == "forbidden"
		})
	}
	if took := time.Since(dismissed); took > time.Second+late() {
		t.Errorf("all access ended %s after the dismissal", took)
	}
	refused, err := here.post(t.Context(), "tools/list", map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	_ = refused.Body.Close()
	if refused.StatusCode != http.StatusForbidden || refused.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("MCP answers %s with the challenge %q", refused.Status, refused.Header.Get("WWW-Authenticate"))
	}
	onMain.must(t, "whoami", nil)

	m.member(t, "admit", string(developer))
	for _, c := range []connection{here, there} {
		eventually(t, "the connection works again", func() bool {
			status, _ := c.rest(t, "whoami", nil)
			return status == http.StatusOK
		})
	}
}

func TestADevelopmentTokenForAPrivateBoardIsForItsMembers(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	m.board(t, r, domain.Board{Slug: "acme", Private: true})
	m.with(t, func(ctx context.Context, store *eventstore.Store, vault secret.Vault) error {
		for _, wish := range []tokenRequest{
			{Agent: "ann", Board: "acme", Scopes: []string{domain.ScopeRead}},
			{Board: "acme", Scopes: []string{domain.ScopeSetup}},
		} {
			_, err := mintToken(ctx, store, vault, m.development, wish)
			if err == nil || !strings.Contains(err.Error(), "sidequest board admit acme operator:dev") {
				t.Errorf("a token with %v: %v", wish.Scopes, err)
			}
		}
		return nil
	})
	m.member(t, "admit", string(developer))
	m.on(t, r, "acme").must(t, "whoami", nil)
}

func TestMembersAreAdmittedAndDismissedByCommands(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	m.start(t)
	says := m.command(t, "board", "create", "acme", "--private")
	says += m.command(t, "board", "admit", "acme", string(developer))
	says += m.command(t, "board", "dismiss", "acme", string(developer))
	says += m.command(t, "board", "create", "club", "--private", "--member", string(developer))
	for _, want := range []string{"sidequest board admit acme OPERATOR", "operator:dev is a member of board acme", "operator:dev is no member of board acme any more", "board club is there"} {
		if !strings.Contains(says, want) {
			t.Errorf("the commands do not say %q:\n%s", want, says)
		}
	}
	for _, args := range [][]string{{"admit"}, {"dismiss", "acme"}, {"admit", "acme", "--all"}, {"admit", "acme", "a", "b"}} {
		if err := board(t.Context(), args, t.Output(), t.Output()); err == nil {
			t.Errorf("board %q is understood", args)
		}
	}
}

func TestAKeyThatIsRepeatedOnAnotherBoardIsRefused(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	for _, slug := range []string{"acme", "club"} {
		m.board(t, r, domain.Board{Slug: slug})
	}
	boards := map[string]connection{}
	for _, slug := range []string{mainBoard, "acme", "club"} {
		boards[slug] = m.on(t, r, slug)
	}
	for first, c := range boards {
		args := requestArgs("on-" + first)
		done := c.must(t, "request_quotes", args)
		for slug, other := range boards {
			status, byREST := other.rest(t, "request_quotes", args)
			byMCP, err := other.call(t.Context(), "request_quotes", args)
			switch {
			case err != nil:
				t.Fatal(err)
			case slug != first && (status != http.StatusConflict || byREST.Code != "key-conflict" || byMCP.Code != "key-conflict"):
				t.Errorf("a key of %s on %s: %d %s and %s", first, slug, status, byREST.raw, byMCP.raw)
			case slug == first && (byREST.raw != done.raw || byMCP.raw != done.raw):
				t.Errorf("a repeat on %s is answered %s and %s, not %s", slug, byREST.raw, byMCP.raw, done.raw)
			}
		}
	}
}
