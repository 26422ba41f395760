package oauth

import (
	"testing"
	"time"

	"sidequest/domain"
	"sidequest/eventstore"
)

// privateBoard is the slug of a private board.
const (
	privateBoard    = "priv"
	privateResource = issuer + "/b/" + privateBoard + "/mcp"
)

// private makes a private board with some members.
func (p process) private(t *testing.T, members ...string) {
	t.Helper()
	execute(t, p.store, domain.ConfigureBoard{Board: domain.Board{
		Slug: privateBoard, Name: "Private", Private: true, Members: members, Network: domain.NetworkTest, ChainID: 1337,
		Arbitrator:   "0x52908400098527886E0F7030069857D2E4169EE7",
		RewardTokens: []domain.Token{{Address: "0x8617E340B3D01FA5F11F306F4090FD50E238070D", Symbol: "USD", Decimals: 6}},
	}})
}

// connect lets the developer's agent act at the private board, of which the
// developer is a member, and returns the grant and a token for it.
func (d deployment) connect(t *testing.T, p process) (grantID, bearer string) {
	t.Helper()
	p.private(t, string(domain.Developer))
	op := func(key string) eventstore.Operation {
		return eventstore.Operation{Owner: domain.Developer, Key: key, Tool: "test", At: time.Now()}
	}
	_, err := eventstore.Execute(t.Context(), p.store, op("agent"), domain.RegisterAgent{Name: "dora", Wallet: "0x8617E340B3D01FA5F11F306F4090FD50E238070D"})
	if err != nil {
		t.Fatal(err)
	}
	grant := domain.OpenGrant{
		AgentKey: domain.DevelopmentAgent("dora"), ClientID: client, Operator: string(domain.Developer),
		Scopes: []string{domain.ScopeRead}, Resource: privateResource,
	}
	if _, err := eventstore.Execute(t.Context(), p.store, op("grant"), grant); err != nil {
		t.Fatal(err)
	}
	grantID = domain.DeriveID("gr", string(domain.Developer), "grant")
	return grantID, mint(t, d.keys, AccessToken{Issuer: issuer, GrantID: grantID, At: time.Now(), Grant: domain.GrantOpened(grant).Apply(domain.Grant{})})
}

func TestAMemberWhoIsDismissedIsRefusedInEveryProcessWithinASecond(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	here, there := d.process(t), d.process(t)
	id, bearer := d.connect(t, here)
	onMain := here.grant(t, domain.ScopeRead)
	g := there.followed(t)
	v := NewVerifier(d.keys, issuer, g)
	if _, err := v.Verify(t.Context(), bearer, privateResource); err != nil {
		t.Fatal(err)
	}
	stream, spared := g.Revoked(id), g.Revoked(onMain)

	execute(t, here.store, domain.DismissMember{Slug: privateBoard, Operator: string(domain.Developer)})
	select {
	case <-stream:
	case <-time.After(time.Second):
		t.Fatal("a stream did not hear of the dismissal within a second")
	}
	_, err := v.Verify(t.Context(), bearer, privateResource)
	wantRefusal(t, err, domain.Forbidden)
	awaitClosed(t, g.Revoked(id))
	select {
	case <-spared:
		t.Error("the dismissal ended streams of another board")
	default:
	}
	if _, err := v.Verify(t.Context(), mint(t, d.keys, token(onMain, domain.ScopeRead)), resource); err != nil {
		t.Errorf("the dismissal ended access to another board: %v", err)
	}

	// A process that begins now has it from the log, and one that does not follow looks.
	for _, late := range []*Grants{here.grants(t), g} {
		wantRefusal(t, late.Admitted(t.Context(), privateResource, string(domain.Developer)), domain.Forbidden)
	}
	execute(t, here.store, domain.AdmitMember{Slug: privateBoard, Operator: string(domain.Developer)})
	if err := g.Admitted(t.Context(), privateResource, string(domain.Developer)); err != nil {
		t.Errorf("who was admitted again is refused: %v", err)
	}
	if _, err := v.Verify(t.Context(), bearer, privateResource); err != nil {
		t.Errorf("the connection does not work again: %v", err)
	}
	select {
	case <-g.Revoked(id):
		t.Error("streams cannot be opened again")
	default:
	}
}

func TestAProcessThatDoesNotFollowStillHearsOfADismissalWithinASecond(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	here, there := d.process(t), d.process(t)
	id, _ := d.connect(t, here)
	g := there.grants(t)
	execute(t, here.store, domain.DismissMember{Slug: privateBoard, Operator: string(domain.Developer)})
	g.stale()
	grant, err := g.Live(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, g.Admits(grant), domain.Forbidden)
}
