package oauth

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"context"

	"sidequest/domain"
)

// An installation is one copy of an application, which has a client id in common
// with the others and tokens of its own.
type installation struct {
	t     *testing.T
	s     *site
	id    string
	grant string
	reply reply
}

// installation connects one more copy of an application, which asks for scopes.
func (s *site) installation(t *testing.T, clientID, redirect, asked string, d Decision) *installation {
	t.Helper()
	b := newBrowser()
	id := b.pending(t, s, asks(clientID, map[string]string{"redirect_uri": redirect, "scope": asked}))
	answer, grantID := b.allow(t, s, id, d)
	i := &installation{t, s, clientID, grantID, s.post(t, pathToken, codeForm(clientID, answer.Get("code"), map[string]string{"redirect_uri": redirect}))}
	if i.reply.status != http.StatusOK {
		t.Fatalf("token: %d %s", i.reply.status, i.reply.body)
	}
	return i
}

func (i *installation) refreshes() {
	i.t.Helper()
	if i.reply = i.s.refreshed(i.t, i.id, i.reply.text("refresh_token"), nil); i.reply.status != http.StatusOK {
		i.t.Fatalf("refresh: %d %s", i.reply.status, i.reply.body)
	}
}

// may checks what the tokens say and what the resource makes of them.
func (i *installation) may(want ...string) {
	i.t.Helper()
	if got := i.reply.text("scope"); got != strings.Join(want, " ") {
		i.t.Errorf("the tokens are for %q, want %q", got, want)
	}
	i.acts(want...)
}

func (i *installation) acts(want ...string) {
	i.t.Helper()
	who, err := i.s.verify(i.t, i.reply.text("access_token"))
	if err != nil || strings.Join(who.Scopes, " ") != strings.Join(want, " ") {
		i.t.Errorf("it may %q, want %q (%v)", who.Scopes, want, err)
	}
}

const (
	askedAll = "sidequest:read sidequest:hire sidequest:work"
	oneCopy  = "http://localhost:1001/cb"
	another  = "http://localhost:1002/cb"
)

func change(t *testing.T, s *site, grantID string, cmd domain.Command[domain.GrantAnswer]) {
	t.Helper()
	changed := s.Grants.Changed(grantID)
	execute(t, s.process.store, cmd)
	awaitClosed(t, changed)
}

func TestAnInstallationGetsNothingThatOnlyAnotherAskedFor(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, "http://localhost/cb")
	laptop := s.installation(t, clientID, oneCopy, askedAll, bound(strings.Fields(askedAll)...))
	stranger := s.installation(t, clientID, another, domain.ScopeRead, bound(domain.ScopeRead))
	if stranger.grant != laptop.grant {
		t.Fatal("the installations have grants of their own")
	}
	for range 2 {
		stranger.may(domain.ScopeRead)
		laptop.may(strings.Fields(askedAll)...)
		stranger.refreshes()
		laptop.refreshes()
	}
	wantError(t, s.refreshed(t, clientID, stranger.reply.text("refresh_token"), map[string]string{"scope": domain.ScopeHire}), http.StatusBadRequest, invalidScope)

	change(t, s, laptop.grant, domain.NarrowGrant{GrantID: laptop.grant, Scopes: []string{domain.ScopeRead, domain.ScopeHire}})
	laptop.acts(domain.ScopeRead, domain.ScopeHire) // with the token it has
	more := s.installation(t, clientID, another, "sidequest:read sidequest:hire", bound(domain.ScopeRead, domain.ScopeHire))
	more.may(domain.ScopeRead, domain.ScopeHire)
	stranger.refreshes()
	stranger.may(domain.ScopeRead)
}

func TestWhatAnOperatorLeavesOutIsNotGivenThoughTheConnectionHasIt(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, "http://localhost/cb")
	s.installation(t, clientID, oneCopy, askedAll, bound(domain.ScopeRead, domain.ScopeHire))
	second := s.installation(t, clientID, another, askedAll, bound(domain.ScopeRead))
	second.may(domain.ScopeRead)
	change(t, s, second.grant, domain.WidenGrant{GrantID: second.grant, Scopes: []string{domain.ScopeWork}})
	second.refreshes()
	second.may(domain.ScopeRead, domain.ScopeWork)
	third := s.installation(t, clientID, another, domain.ScopeHire, bound())
	third.may(domain.ScopeRead)
}

func TestWhatAnOperatorAllowsLaterReachesWhoAskedForIt(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, "http://localhost/cb")
	asker := s.installation(t, clientID, oneCopy, "sidequest:read sidequest:hire", bound(domain.ScopeRead))
	reader := s.installation(t, clientID, another, domain.ScopeRead, bound(domain.ScopeRead))
	asker.may(domain.ScopeRead)
	change(t, s, asker.grant, domain.WidenGrant{GrantID: asker.grant, Scopes: []string{domain.ScopeHire}})
	asker.acts(domain.ScopeRead) // until it refreshes
	for _, i := range []*installation{asker, reader} {
		i.refreshes()
	}
	asker.may(domain.ScopeRead, domain.ScopeHire)
	reader.may(domain.ScopeRead)
}

func TestInstallationsThatSetUpOneAgentGetWhatEachAskedFor(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, "http://localhost/cb")
	setUp := Decision{Operator: string(operator)}
	laptop := s.installation(t, clientID, oneCopy, askedAll, setUp)
	reader := s.installation(t, clientID, another, domain.ScopeRead, setUp)
	bare := s.installation(t, clientID, another, domain.ScopeSetup, setUp)
	all := []*installation{laptop, reader, bare}
	for _, i := range all {
		i.may(domain.ScopeSetup)
		if i.grant != laptop.grant {
			t.Fatal("they set up with grants of their own")
		}
	}
	who, err := s.verify(t, reader.reply.text("access_token"))
	if err != nil || strings.Join(who.Asked, " ") != domain.ScopeRead {
		t.Errorf("the reader is promised %q, %v", who.Asked, err)
	}
	change(t, s, laptop.grant, domain.BindGrant{GrantID: laptop.grant, AgentKey: alice, Scopes: []string{domain.ScopeRead, domain.ScopeHire}})
	check := func(may func(*installation, ...string)) {
		t.Helper()
		may(laptop, domain.ScopeRead, domain.ScopeHire)
		may(reader, domain.ScopeRead)
		may(bare, domain.ScopeSetup)
	}
	check((*installation).acts) // with the tokens they have
	for _, i := range all {
		i.refreshes()
	}
	check((*installation).may)
}

func TestALineFromBeforeThisRuleIsForAllThatItsGrantAllows(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, "http://localhost/cb")
	old := s.installation(t, clientID, oneCopy, domain.ScopeRead, bound(domain.ScopeRead))
	s.d.asOwner(t, `UPDATE oauth.lines SET asked = NULL`)
	s.installation(t, clientID, another, "sidequest:hire", bound(domain.ScopeHire))
	old.refreshes()
	old.may(domain.ScopeRead, domain.ScopeHire)
}

func TestWhoeverSetsUpAfterAProposalBeginsAnew(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, "http://localhost/cb")
	setUp := Decision{Operator: string(operator)}
	first := s.installation(t, clientID, oneCopy, askedAll, setUp)
	if again := s.installation(t, clientID, another, askedAll, setUp); again.grant != first.grant {
		t.Error("before there is a proposal a second installation has a grant of its own")
	}
	executeAs(t, s.process.store, domain.AgentKey(first.grant), domain.ProposeAgent{Name: "One", Wallet: "0x52908400098527886E0F7030069857D2E4169EE7"})
	second := s.installation(t, clientID, another, askedAll, setUp)
	if second.grant == first.grant {
		t.Fatal("the connection that has made its one proposal is used again")
	}
	if third := s.installation(t, clientID, oneCopy, askedAll, setUp); third.grant != second.grant {
		t.Error("another connection was made though one waits")
	}
	executeAs(t, s.process.store, domain.AgentKey(second.grant), domain.ProposeAgent{Name: "Two", Wallet: "0x8617E340B3D01FA5F11F306F4090FD50E238070D"})
}

func TestADecisionThatWasHalfCarriedOutCanBeRepeated(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	b := newBrowser()
	id := b.pending(t, s, asks(s.registerClient(t, callback), nil))
	if _, err := s.Pending(t.Context(), b.on(t), id); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the database went away")
	var settled []string
	d := bound(domain.ScopeRead)
	d.Settle = func(_ context.Context, grantID string) error {
		settled = append(settled, grantID)
		if len(settled) == 1 {
			return broken
		}
		return nil
	}
	if _, _, err := s.Allow(t.Context(), b.on(t), id, d); !errors.Is(err, broken) {
		t.Fatalf("error = %v", err)
	}
	answer, grantID := b.allow(t, s, id, d)
	if answer.Get("code") == "" || len(settled) != 2 || settled[0] != grantID || settled[1] != grantID {
		t.Errorf("answer %v for %s, settled %q", answer, grantID, settled)
	}
	live, err := s.Grants.OfAgent(t.Context(), alice)
	if err != nil || len(live) != 1 {
		t.Errorf("grants = %v, %v", live, err)
	}
	_, _, err = s.Allow(t.Context(), b.on(t), id, d)
	wantCode(t, err, "request-answered")
	if len(settled) != 2 {
		t.Error("what was answered is settled again")
	}
}
