package oauth

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sidequest/domain"
	"sidequest/eventstore"
)

const (
	maxStale = time.Second           // how old an answer about a grant may be
	lookFor  = time.Second           // how long a call waits to know better
	lookPace = 20 * time.Millisecond // at most one look of ours in this time
	lookPage = 500                   // events
)

// Grants is the memory of all grants, one in every process. [Grants.Run] keeps it
// level with the log. It never answers from knowledge older than a second: it
// then looks at the log itself, and refuses with unavailable if it cannot.
type Grants struct {
	store *eventstore.Store
	turn  chan struct{} // has room for the one call that looks at the log

	mu      sync.Mutex
	entries map[string]*entry
	boards  map[string]domain.Board // by slug
	pos     int64                   // of the last event seen
	fresh   time.Time               // all that was recorded by then has been seen

	paced time.Time // when the last look of ours began; belongs to the turn
}

type entry struct {
	grant   domain.Grant
	revoked chan struct{} // made when asked for, closed and forgotten by what ends streams
	changed chan struct{} // made when asked for, closed and forgotten by the next change
}

// LoadGrants reads all grants there are, and who may come to which board.
func LoadGrants(ctx context.Context, store *eventstore.Store) (*Grants, error) {
	g := &Grants{store: store, turn: make(chan struct{}, 1), entries: map[string]*entry{}, boards: map[string]domain.Board{}}
	asked := time.Now()
	boards, pos, err := store.Category(ctx, domain.Boards.Name)
	if err != nil {
		return nil, fmt.Errorf("load who may come to which board: %w", err)
	}
	grants, _, err := store.Category(ctx, domain.Grants.Name)
	if err != nil {
		return nil, fmt.Errorf("load the grants: %w", err)
	}
	for _, e := range slices.Concat(boards, grants) {
		if e.Position <= pos { // what is later is seen in its order
			g.apply(e)
		}
	}
	g.pos, g.fresh = pos, asked
	return g, nil
}

// Run follows the log until ctx is done. It returns an error if what it remembers
// is of another log: see [eventstore.Store.Follow].
func (g *Grants) Run(ctx context.Context) error {
	_, pos := g.seen()
	err := g.store.Follow(ctx, pos, func(events []eventstore.Recorded, asked time.Time) {
		g.learn(events, asked, len(events) == 0)
	})
	if err != nil {
		return fmt.Errorf("follow the grants: %w", err)
	}
	return nil
}

// Live returns a grant that allows something now; its scopes are not to be
// changed. It refuses with unauthenticated what is unknown, revoked or over, and
// with unavailable when it cannot know.
func (g *Grants) Live(ctx context.Context, id string) (domain.Grant, error) {
	now := time.Now()
	grant, known, fresh := g.find(id)
	since := now.Add(-maxStale)
	if !known {
		since = now // it may have been opened a moment ago, in another process
	}
	if fresh.Before(since) {
		if err := g.look(ctx, since); err != nil {
			return domain.Grant{}, unavailable() // Run meets the same fault and logs it
		}
		grant, known, _ = g.find(id)
	}
	if !known || !grant.LiveAt(now) {
		return domain.Grant{}, domain.Refuse(domain.Unauthenticated, "the access this token stood for has ended; connect again")
	}
	return grant, nil
}

// LiveNow is [Grants.Live] by all that was recorded before the call, in whatever
// process. It asks the database, which a call of a tool need not.
func (g *Grants) LiveNow(ctx context.Context, id string) (domain.Grant, error) {
	if err := g.look(ctx, time.Now()); err != nil {
		return domain.Grant{}, unavailable() // Run meets the same fault and logs it
	}
	return g.Live(ctx, id)
}

// A LiveGrant is a grant that allows something, with its id.
type LiveGrant struct {
	ID string
	domain.Grant
}

// OfAgent returns an agent's live grants, as of now and by id.
func (g *Grants) OfAgent(ctx context.Context, agent domain.AgentKey) ([]LiveGrant, error) {
	return g.list(ctx, func(grant domain.Grant) bool { return grant.AgentKey == agent })
}

// OfOperator returns the live grants an operator gave, also those without an agent
// yet, as of now and by id.
func (g *Grants) OfOperator(ctx context.Context, operator string) ([]LiveGrant, error) {
	return g.list(ctx, func(grant domain.Grant) bool { return grant.Operator == operator })
}

func (g *Grants) list(ctx context.Context, wanted func(domain.Grant) bool) ([]LiveGrant, error) {
	now := time.Now()
	if err := g.look(ctx, now); err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var live []LiveGrant
	for id, e := range g.entries {
		if e.grant.LiveAt(now) && wanted(e.grant) {
			live = append(live, LiveGrant{id, e.grant})
		}
	}
	slices.SortFunc(live, func(a, b LiveGrant) int { return strings.Compare(a.ID, b.ID) })
	return live, nil
}

// Changed returns a channel that is closed once what a grant allows may have
// changed: it was bound, widened, narrowed or revoked, or its agent has other
// roles. Run learns of that within a second. Ask for the channel before you read
// what the grant allows, and for a new one after it was closed. For a grant that
// is revoked or unknown it is closed from the start.
func (g *Grants) Changed(id string) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.entries[id]
	if e == nil || e.grant.Revoked {
		return closed()
	}
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.changed
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Revoked returns a channel that is closed once the grant is revoked, or its board
// is closed to its operator, which Run learns within a second. It is closed from the
// start for a grant of which that is so already or which is unknown, so call [Grants.Live] before. It is one channel for all
// that hold streams open under the grant, and nothing has to be given back. That
// a grant runs out closes no channel; the next call under it is refused.
func (g *Grants) Revoked(id string) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.entries[id]
	if e == nil || e.grant.Revoked || !g.admits(e.grant.Resource, e.grant.Operator) {
		return closed()
	}
	if e.revoked == nil {
		e.revoked = make(chan struct{})
	}
	return e.revoked
}

// look reads the log until all that was recorded by a moment has been seen. Calls
// take turns, and most find on theirs that the call before has looked for them.
// The pace keeps tokens of unknown grants from becoming a load on the database.
func (g *Grants) look(ctx context.Context, since time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	fresh, pos := g.seen()
	if fresh.Before(since) {
		if err := g.pace(ctx); err != nil {
			return err
		}
	}
	for fresh.Before(since) {
		asked := time.Now()
		events, err := g.store.Read(ctx, pos, lookPage)
		if err != nil {
			return err
		}
		g.learn(events, asked, len(events) < lookPage)
		fresh, pos = g.seen()
	}
	return nil
}

// pace waits until another look may begin. Only the call whose turn it is may
// call it.
func (g *Grants) pace(ctx context.Context) error {
	t := time.NewTimer(time.Until(g.paced.Add(lookPace)))
	defer t.Stop()
	select {
	case <-t.C:
		g.paced = time.Now()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// learn takes in events that follow each other from a position not beyond the
// one reached, and skips what it has seen. A look is complete if nothing that was
// recorded when it began is missing.
func (g *Grants) learn(events []eventstore.Recorded, asked time.Time, complete bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range events {
		if e.Position > g.pos {
			g.apply(e)
			g.pos = e.Position
		}
	}
	if complete && asked.After(g.fresh) {
		g.fresh = asked
	}
}

// apply takes in one event. Of a revoked grant it keeps no more than that it is.
func (g *Grants) apply(recorded eventstore.Recorded) {
	switch event := recorded.Event.(type) {
	case domain.Event[domain.Grant]:
		g.applyGrant(recorded.Stream.ID(), event)
	case domain.Event[domain.Board]:
		g.applyBoard(recorded.Stream.ID(), event)
	case domain.AgentRolesSet:
		g.rolesSet(domain.AgentKey(recorded.Stream.ID()))
	}
}

func (g *Grants) applyGrant(id string, event domain.Event[domain.Grant]) {
	e := g.entries[id]
	if e == nil {
		e = &entry{}
		g.entries[id] = e
	}
	wasRevoked := e.grant.Revoked
	e.grant = event.Apply(e.grant)
	e.tellChange()
	if wasRevoked || !e.grant.Revoked {
		return
	}
	e.grant = domain.Grant{Opened: true, Revoked: true}
	e.endStreams()
}

func (e *entry) endStreams() {
	if e.revoked != nil {
		close(e.revoked)
		e.revoked = nil
	}
}

// rolesSet tells all that hold streams open for the agent. Roles change so rarely
// that looking at every grant costs nothing.
func (g *Grants) rolesSet(agent domain.AgentKey) {
	for _, e := range g.entries {
		if e.grant.AgentKey == agent {
			e.tellChange()
		}
	}
}

func (e *entry) tellChange() {
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

func (g *Grants) find(id string) (grant domain.Grant, known bool, fresh time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.entries[id]; e != nil {
		return e.grant, true, g.fresh
	}
	return domain.Grant{}, false, g.fresh
}

func (g *Grants) seen() (fresh time.Time, pos int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fresh, g.pos
}

func unavailable() *domain.Error {
	e := domain.Refuse(domain.Unavailable, "access cannot be checked at the moment; repeat the call")
	e.After = 1
	return e
}
