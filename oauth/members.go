package oauth

import (
	"context"
	"strings"
	"time"

	"sidequest/domain"
)

// Admitted refuses with forbidden an operator to whom a resource is closed, and
// says who could change that. It knows all that was recorded before the call, in
// whatever process, and refuses with unavailable when it cannot.
func (g *Grants) Admitted(ctx context.Context, resource, operator string) error {
	if err := g.look(ctx, time.Now()); err != nil {
		return unavailable() // Run meets the same fault and logs it
	}
	return g.admitted(resource, operator)
}

// Admits is [Grants.Admitted] by what is remembered, which after [Grants.Live] is at
// most a second old. It asks no database.
func (g *Grants) Admits(grant domain.Grant) error { return g.admitted(grant.Resource, grant.Operator) }

func (g *Grants) admitted(resource, operator string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.admits(resource, operator) {
		return nil
	}
	// The id is what those who run the board need in order to admit someone.
	return domain.Refuse(domain.Forbidden, "this board is private, for its members alone; ask those who run it to admit the operator %s", operator)
}

// admits is for those who hold the lock.
func (g *Grants) admits(resource, operator string) bool {
	return g.boards[boardOf(resource)].Admits(operator)
}

// boardOf returns the slug of the board whose resource this is, "" for main, which
// is never private.
func boardOf(resource string) string {
	_, rest, _ := strings.Cut(resource, "/b/")
	return strings.TrimSuffix(rest, "/mcp")
}

// applyBoard takes in an event of a board, and ends the streams of those to whom it
// is closed by it. Such events are so rare that looking at every grant costs nothing.
func (g *Grants) applyBoard(slug string, event domain.Event[domain.Board]) {
	g.boards[slug] = event.Apply(g.boards[slug])
	for _, e := range g.entries {
		if boardOf(e.grant.Resource) == slug && !g.admits(e.grant.Resource, e.grant.Operator) {
			e.endStreams()
		}
	}
}
