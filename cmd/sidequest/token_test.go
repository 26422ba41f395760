package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/eventstore/eventstoretest"
	"sidequest/oauth"
	"sidequest/secret"
)

var quiet = slog.New(slog.DiscardHandler)

// newDevelopment returns a deployment whose processes are not running.
func newDevelopment(t *testing.T) development {
	t.Helper()
	nats, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	nats.Start()
	t.Cleanup(func() {
		nats.Shutdown()
		nats.WaitForShutdown()
	})
	d := development{
		DatabaseURL: eventstoretest.NewDB(t).URL,
		NATSURL:     nats.ClientURL(),
		WakePrefix:  "test",
		KEKFile:     filepath.Join(t.TempDir(), "kek.json"),
		Issuer:      "http://127.0.0.1:8080",
	}
	if _, err := secret.LoadOrCreate(d.KEKFile); err != nil {
		t.Fatal(err)
	}
	return d
}

// printed runs "sidequest token" and returns what it printed on stdout.
func (d development) printed(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if err := token(t.Context(), d, quiet, args, &stdout, &stderr); err != nil {
		t.Fatalf("token %v: %v", args, err)
	}
	if strings.Count(stderr.String(), "\n") != 1 || strings.Contains(stderr.String(), strings.TrimSpace(stdout.String())) {
		t.Errorf("on stderr stands %q, want one line without the token", stderr.String())
	}
	return stdout.String()
}

// verify checks a token as the server does.
func (d development) verify(t *testing.T, bearer, board string) (p oauth.Principal, refusal error) {
	t.Helper()
	d.do(t, func(ctx context.Context, store *eventstore.Store, vault secret.Vault) error {
		keys, err := oauth.LoadKeys(ctx, vault)
		if err != nil {
			return err
		}
		grants, err := oauth.LoadGrants(ctx, store)
		if err != nil {
			return err
		}
		p, refusal = oauth.NewVerifier(keys, d.Issuer, grants).Verify(ctx, bearer, d.resource(board))
		return nil
	})
	return p, refusal
}

func (d development) do(t *testing.T, do func(context.Context, *eventstore.Store, secret.Vault) error) {
	t.Helper()
	if err := d.use(t.Context(), quiet, do); err != nil {
		t.Fatal(err)
	}
}

// mint mints a token and returns it with the roles its agent has then.
func (d development) mint(t *testing.T, r tokenRequest) (m mintedToken) {
	t.Helper()
	d.do(t, func(ctx context.Context, store *eventstore.Store, vault secret.Vault) (err error) {
		m, err = mintToken(ctx, store, vault, d, r)
		return err
	})
	return m
}

func TestTheTokenCommandPrintsATokenThatWorks(t *testing.T) {
	t.Parallel()
	d := newDevelopment(t)
	out := d.printed(t, "--agent", "alice", "--scope", "read,hire", "--ttl", "5m")
	bearer := strings.TrimSuffix(out, "\n")
	if strings.ContainsAny(bearer, " \n") {
		t.Errorf("on stdout stands %q, want the token alone", out)
	}
	got, err := d.verify(t, bearer, "main")
	if err != nil {
		t.Fatal(err)
	}
	want := oauth.Principal{
		AgentKey: domain.DevelopmentAgent("alice"),
		GrantID:  got.GrantID,
		ClientID: developerClient,
		Operator: string(developer),
		Scopes:   []string{domain.ScopeRead, domain.ScopeHire},
		Asked:    []string{domain.ScopeRead, domain.ScopeHire},
		Resource: "http://127.0.0.1:8080/mcp",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestATokenToSetUpAnAgentHasNone(t *testing.T) {
	t.Parallel()
	d := newDevelopment(t)
	got, err := d.verify(t, strings.TrimSpace(d.printed(t, "--scope", "setup")), "main")
	if err != nil {
		t.Fatal(err)
	}
	want := oauth.Principal{
		GrantID: got.GrantID, ClientID: developerClient, Operator: string(developer),
		Scopes: []string{domain.ScopeSetup}, Asked: domain.Scopes(), Resource: "http://127.0.0.1:8080/mcp",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestATokenIsForOneBoard(t *testing.T) {
	t.Parallel()
	d := newDevelopment(t)
	bearer := strings.TrimSpace(d.printed(t, "--agent", "alice", "--board", "logos"))
	if p, err := d.verify(t, bearer, "logos"); err != nil || p.Resource != "http://127.0.0.1:8080/b/logos/mcp" {
		t.Errorf("at its board: %+v, %v", p, err)
	}
	if _, err := d.verify(t, bearer, "main"); domain.CodeOf(err) != string(domain.Unauthenticated) {
		t.Errorf("at another board: %v", err)
	}
}

func TestAnAgentIsMadeOnceAndKeepsItsNumberAndWallet(t *testing.T) {
	t.Parallel()
	d := newDevelopment(t)
	r := tokenRequest{Agent: "alice", Scopes: []string{domain.ScopeRead}, Board: "main"}
	var first mintedToken
	var all sync.Map
	d.do(t, func(ctx context.Context, store *eventstore.Store, vault secret.Vault) error {
		var minting sync.WaitGroup
		for range 8 {
			minting.Go(func() {
				m, err := mintToken(ctx, store, vault, d, r)
				if err != nil {
					t.Error(err)
				}
				all.Store(m.GrantID, m)
			})
		}
		minting.Wait()
		return nil
	})
	grants := 0
	all.Range(func(_, value any) bool {
		m := value.(mintedToken)
		if grants++; first.AgentID == "" {
			first = m
		}
		if m.AgentID != "1" || m.Wallet != first.Wallet {
			t.Errorf("agent %s with wallet %s, want 1 with %s", m.AgentID, m.Wallet, first.Wallet)
		}
		return true
	})
	if grants != 8 {
		t.Errorf("8 tokens have %d grants, want one each", grants)
	}
	r.Agent = "bob"
	if bob := d.mint(t, r); bob.AgentID != "2" || bob.Wallet == first.Wallet {
		t.Errorf("the next agent is %s with wallet %s", bob.AgentID, bob.Wallet)
	}
}

func TestRolesFollowTheScopesUnlessTheyAreNamed(t *testing.T) {
	t.Parallel()
	d := newDevelopment(t)
	const read, hire, work = domain.ScopeRead, domain.ScopeHire, domain.ScopeWork
	for _, step := range []struct {
		tells  string
		scopes []string
		roles  []domain.Role
		want   []domain.Role
	}{
		{"read needs no role", []string{read}, nil, []domain.Role{}},
		{"hire brings its role", []string{read, hire}, nil, []domain.Role{domain.RoleHire}},
		{"a token for less takes nothing away", []string{read}, nil, []domain.Role{domain.RoleHire}},
		{"work comes on top", []string{work}, nil, []domain.Role{domain.RoleHire, domain.RoleWork}},
		{"named roles replace them", []string{read, hire, work}, []domain.Role{domain.RoleWork}, []domain.Role{domain.RoleWork}},
		{"none takes them away", []string{read, hire}, []domain.Role{}, []domain.Role{}},
	} {
		m := d.mint(t, tokenRequest{Agent: "alice", Scopes: step.scopes, Roles: step.roles, Board: "main"})
		if diff := cmp.Diff(step.want, m.Roles); diff != "" {
			t.Errorf("%s: %s", step.tells, diff)
		}
	}
}

func TestTheRevokeCommandEndsEveryTokenOfOneAgent(t *testing.T) {
	t.Parallel()
	d := newDevelopment(t)
	one := strings.TrimSpace(d.printed(t, "--agent", "alice"))
	two := strings.TrimSpace(d.printed(t, "--agent", "alice", "--scope", "read"))
	bobs := strings.TrimSpace(d.printed(t, "--agent", "bob"))
	for _, want := range []string{"revoked 2 live grants of agent alice\n", "revoked 0 live grants of agent alice\n"} {
		var stderr bytes.Buffer
		if err := revoke(t.Context(), d, quiet, []string{"--agent", "alice"}, io.Discard, &stderr); err != nil || stderr.String() != want {
			t.Errorf("it said %q, %v; want %q", stderr.String(), err, want)
		}
	}
	for _, bearer := range []string{one, two} {
		if _, err := d.verify(t, bearer, "main"); domain.CodeOf(err) != string(domain.Unauthenticated) {
			t.Errorf("a revoked token: error = %v", err)
		}
	}
	if _, err := d.verify(t, bobs, "main"); err != nil {
		t.Errorf("the token of another agent: %v", err)
	}
}

func TestTokensAreMintedWhileNATSIsDown(t *testing.T) {
	t.Parallel()
	d := newDevelopment(t)
	d.NATSURL = "nats://127.0.0.1:1"
	bearer := strings.TrimSpace(d.printed(t, "--agent", "alice"))
	if _, err := d.verify(t, bearer, "main"); err != nil {
		t.Error(err)
	}
}

func TestAWrongTokenCommandSaysWhatIsRight(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "token needs --agent NAME"},
		{[]string{"--agent", "a", "--scope", "read,write"}, `no scope "write"; --scope takes setup, read, hire, work`},
		{[]string{"--agent", "a", "--scope", "sidequest:read"}, `no scope "sidequest:read"`},
		{[]string{"--agent", "a", "--scope", ""}, `no scope ""`},
		{[]string{"--agent", "a", "--roles", "boss"}, `no role "boss"; --roles takes hire, work or none`},
		{[]string{"--agent", "a", "--ttl", "25h"}, "--ttl is from 1s to 24h"},
		{[]string{"--agent", "a", "--ttl", "0s"}, "--ttl is from 1s to 24h"},
		{[]string{"--agent", "a", "--scope", "read", "hire"}, `takes no argument "hire"`},
		{[]string{"--agent", "a", "--colour", "red"}, "-colour"},
	} {
		var stdout, stderr bytes.Buffer
		err := token(t.Context(), development{}, quiet, tt.args, &stdout, &stderr)
		if err == nil || !strings.Contains(err.Error(), tt.want) || stdout.Len() > 0 {
			t.Errorf("token %q: error = %v, want %q; on stdout %q", tt.args, err, tt.want, stdout.String())
		}
	}
}

func TestAnUnreachableDeploymentIsSaidToBeSo(t *testing.T) {
	t.Parallel()
	d := development{DatabaseURL: "postgres://sidequest@127.0.0.1:1/none", KEKFile: filepath.Join(t.TempDir(), "kek.json")}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := token(ctx, d, quiet, []string{"--agent", "a"}, nil, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), d.KEKFile) {
		t.Errorf("without a key file: %v", err)
	}
	if _, err := secret.LoadOrCreate(d.KEKFile); err != nil {
		t.Fatal(err)
	}
	if err := token(ctx, d, quiet, []string{"--agent", "a"}, nil, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "make run") {
		t.Errorf("without a database: %v", err)
	}
}

func TestATokenCanBeAnothersThanTheDevelopers(t *testing.T) {
	t.Parallel()
	d := newDevelopment(t)
	got, err := d.verify(t, strings.TrimSpace(d.printed(t, "--agent", "alice", "--operator", "op_olga")), "main")
	if err != nil || got.Operator != "op_olga" {
		t.Errorf("got %+v, %v", got, err)
	}
}
