package oauth

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
)

func TestAGrantActsInEveryProcessAsSoonAsItIsOpened(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	here, there := d.process(t), d.process(t)
	// The other process knows only what it loaded at its start: nothing tells it
	// of the grant but the token.
	v := NewVerifier(d.keys, issuer, there.grants(t))
	for range 3 {
		id := here.grant(t, domain.ScopeRead)
		p, err := v.Verify(t.Context(), mint(t, d.keys, token(id, domain.ScopeRead)), resource)
		if err != nil || p.GrantID != id {
			t.Errorf("principal = %+v, %v", p, err)
		}
	}
}

func TestARevocationActsInEveryProcessWithinASecond(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	here, there := d.process(t), d.process(t)
	id, other := here.grant(t, domain.ScopeRead), here.grant(t, domain.ScopeRead)
	g := there.followed(t)
	v := NewVerifier(d.keys, issuer, g)
	bearer := mint(t, d.keys, token(id, domain.ScopeRead))
	if _, err := v.Verify(t.Context(), bearer, resource); err != nil {
		t.Fatal(err)
	}
	streams := []<-chan struct{}{g.Revoked(id), g.Revoked(id)}
	spared := g.Revoked(other)

	here.revoke(t, id)
	deadline := time.After(time.Second)
	for _, revoked := range streams {
		select {
		case <-revoked:
		case <-deadline:
			t.Fatal("a stream under the grant did not hear of the revocation within a second")
		}
	}
	_, err := v.Verify(t.Context(), bearer, resource)
	wantRefusal(t, err, domain.Unauthenticated)
	select {
	case <-spared:
		t.Error("the revocation ended streams of another grant")
	default:
	}
	if _, err := g.Live(t.Context(), other); err != nil {
		t.Errorf("another grant ended too: %v", err)
	}
}

func TestAProcessThatDoesNotFollowStillHearsOfARevocationWithinASecond(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	here, there := d.process(t), d.process(t)
	id := here.grant(t, domain.ScopeRead)
	g := there.grants(t)
	here.revoke(t, id)
	g.stale()
	_, err := g.Live(t.Context(), id)
	wantRefusal(t, err, domain.Unauthenticated)
}

// stale makes what g knows older than it may be.
func (g *Grants) stale() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fresh = g.fresh.Add(-2 * maxStale)
}

func TestNothingIsAllowedWhenTheLogCannotBeRead(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	p := d.process(t)
	id := p.grant(t, domain.ScopeRead)
	g := p.grants(t)
	p.store.Pool.Close()
	if _, err := g.Live(t.Context(), id); err != nil {
		t.Errorf("what was known a moment ago is refused: %v", err)
	}
	_, err := g.Live(t.Context(), "gr_unknown")
	wantRefusal(t, err, domain.Unavailable)
	g.stale()
	_, err = g.Live(t.Context(), id)
	wantRefusal(t, err, domain.Unavailable)
}

func TestAGrantThatRanOutAllowsNothing(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	p := d.process(t)
	g := p.grants(t)
	past := time.Now().Add(-time.Second)
	g.entries["gr_over"] = &entry{grant: domain.Grant{AgentKey: alice, Opened: true, ExpiresAt: &past}}
	_, err := g.Live(t.Context(), "gr_over")
	wantRefusal(t, err, domain.Unauthenticated)
}

func TestRevokedIsClosedForWhatWasNeverLive(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	p := d.process(t)
	id := p.grant(t, domain.ScopeRead)
	p.revoke(t, id)
	p.revoke(t, id) // twice is no error
	g := p.grants(t)
	for _, id := range []string{id, "gr_unknown"} {
		select {
		case <-g.Revoked(id):
		default:
			t.Errorf("a stream could be held open under %s", id)
		}
	}
}

func TestLiveGrantsOfAnAgentAreThoseOfThisMoment(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	here, there := d.process(t), d.process(t)
	g := there.grants(t)
	kept, revoked := here.grant(t, domain.ScopeRead), here.grant(t, domain.ScopeRead)
	here.revoke(t, revoked)
	ofAlice, err := g.OfAgent(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{kept}, ids(ofAlice)); diff != "" {
		t.Error(diff)
	}
	setup := here.setupGrant(t)
	ofOperator, err := g.OfOperator(t.Context(), string(operator))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{kept, setup}
	slices.Sort(want)
	if diff := cmp.Diff(want, ids(ofOperator)); diff != "" {
		t.Error(diff)
	}
}

func ids(grants []LiveGrant) []string {
	var all []string
	for _, g := range grants {
		all = append(all, g.ID)
	}
	return all
}

func TestAChangeOfWhatAGrantAllowsIsHeardInEveryProcessWithinASecond(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	here, there := d.process(t), d.process(t)
	id, other := here.grant(t, domain.ScopeRead), here.setupGrant(t)
	g := there.followed(t)
	if _, err := g.Live(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct {
		name string
		make func()
	}{
		{"new roles", func() {
			execute(t, here.store, domain.SetRoles{AgentKey: alice, Roles: []domain.Role{domain.RoleHire}})
		}},
		{"more scopes", func() {
			execute(t, here.store, domain.WidenGrant{GrantID: id, Scopes: []string{domain.ScopeHire}, Asked: []string{domain.ScopeHire}})
		}},
		{"fewer scopes", func() {
			execute(t, here.store, domain.NarrowGrant{GrantID: id, Scopes: []string{domain.ScopeRead}})
		}},
		{"the end", func() { here.revoke(t, id) }},
	} {
		changed, spared := g.Changed(id), g.Changed(other)
		change.make()
		select {
		case <-changed:
		case <-time.After(time.Second):
			t.Fatalf("%s: not heard of within a second", change.name)
		}
		select {
		case <-spared:
			t.Errorf("%s: another grant's streams were woken", change.name)
		default:
		}
	}
	bound := g.Changed(other)
	execute(t, here.store, domain.BindGrant{GrantID: other, AgentKey: alice, Scopes: []string{domain.ScopeRead}})
	select {
	case <-bound:
	case <-time.After(time.Second):
		t.Fatal("a binding was not heard of within a second")
	}
	select {
	case <-g.Changed(id):
	default:
		t.Error("a stream of a revoked grant would wait for ever")
	}
}

func TestATokenFromBeforeThereWasAnAgentActsAsTheAgent(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	here, there := d.process(t), d.process(t)
	id := here.setupGrant(t)
	g := there.followed(t)
	v := NewVerifier(d.keys, issuer, g)
	grant, err := g.Live(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	bearer := mint(t, d.keys, AccessToken{Issuer: issuer, GrantID: id, Grant: grant, At: time.Now()})
	want := Principal{GrantID: id, ClientID: client, Operator: string(operator), Scopes: []string{domain.ScopeSetup}, Resource: resource}
	want.Asked = []string{domain.ScopeSetup, domain.ScopeRead}
	before, err := v.Verify(t.Context(), bearer, resource)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, before); diff != "" {
		t.Errorf("before the binding (-want +got):\n%s", diff)
	}

	bound := g.Changed(id)
	execute(t, here.store, domain.BindGrant{GrantID: id, AgentKey: alice, Scopes: []string{domain.ScopeRead, domain.ScopeHire}})
	<-bound
	want.AgentKey, want.Scopes = alice, []string{domain.ScopeRead}
	after, err := v.Verify(t.Context(), bearer, resource)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("after the binding (-want +got):\n%s", diff)
	}
}

func TestTokensOfUnknownGrantsAreNoLoadOnTheDatabase(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	p := d.process(t)
	g := p.grants(t)
	before, start := p.looks.Load(), time.Now()
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			for range 5 {
				_, err := g.Live(t.Context(), "gr_unknown")
				wantRefusal(t, err, domain.Unauthenticated)
			}
		})
	}
	calls.Wait()
	looks := p.looks.Load() - before
	if most := int64(time.Since(start)/lookPace) + 1; looks > most {
		t.Errorf("100 calls looked %d times at the log, want at most %d", looks, most)
	}
}

func TestGrantsLearnWhileOthersAreOpenedAndRevoked(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	here, there := d.process(t), d.process(t)
	g := there.followed(t)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 10 {
				id := here.grant(t, domain.ScopeRead)
				if _, err := g.Live(t.Context(), id); err != nil {
					t.Errorf("an opened grant is refused: %v", err)
				}
				revoked := g.Revoked(id)
				here.revoke(t, id)
				select {
				case <-revoked:
				case <-time.After(time.Second):
					t.Error("a revocation was not heard of within a second")
				}
			}
		})
	}
	workers.Wait()
}

func TestAllProcessesHaveTheSameKeys(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	again, err := LoadKeys(t.Context(), d.vault)
	if err != nil {
		t.Fatal(err)
	}
	if again.ring.Load().active.kid != d.keys.ring.Load().active.kid {
		t.Error("a second process made a key of its own")
	}
	var sealed []byte
	err = d.vault.Pool.QueryRow(t.Context(), `
		SELECT sealed
		FROM auth.secrets
		WHERE name = $1`, keysName).Scan(&sealed)
	if err != nil || len(sealed) == 0 {
		t.Errorf("the keys are not in the vault: %v", err)
	}
}
