package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/oklog/ulid/v2"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/mcp"
	"sidequest/oauth"
	"sidequest/secret"
)

// developer is who acts by the commands below, unless another operator is named:
// the operator of development agents, and the owner of their operation keys.
const developer = domain.Developer

// developerClient is the client of the grants of development tokens.
const developerClient = "sidequest-cli"

// A development is what the commands for developers need of a deployment on
// their own machine.
type development struct {
	DatabaseURL string // as the program's own role
	NATSURL     string
	WakePrefix  string // that of the running processes
	KEKFile     string
	Issuer      string // the origin, without a trailing slash
}

// use opens the deployment for one command and closes it.
func (d development) use(ctx context.Context, log *slog.Logger, do func(context.Context, *eventstore.Store, secret.Vault) error) error {
	keys, err := secret.Load(d.KEKFile)
	if err != nil {
		return err
	}
	store, closeStore, err := openStore(ctx, deployment{
		DatabaseURL: d.DatabaseURL, NATSURL: d.NATSURL, KEKFile: d.KEKFile, WakePrefix: d.WakePrefix,
	}, log)
	if err != nil {
		return fmt.Errorf("the deployment does not answer, start it with `make run`: %w", err)
	}
	defer closeStore()
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- store.Run(running) }()
	err = do(ctx, store, secret.Vault{Pool: store.Pool, Keys: keys})
	stop()
	return errors.Join(err, <-ended)
}

// resource returns the URL of a board's endpoint, the audience of its tokens.
func (d development) resource(board string) string {
	return mcp.BoardResource(d.Issuer, board)
}

// token mints a development token and prints it, and nothing else, on stdout:
//
//	sidequest token --agent NAME --scope read,hire,work [--roles hire,work] [--ttl 1h] [--board main]
//	sidequest token --scope setup
//
// The second form is for a connection that has no agent yet.
func token(ctx context.Context, d development, log *slog.Logger, args []string, stdout, stderr io.Writer) error {
	r, err := parseTokenFlags(args, stderr)
	if err != nil {
		return err
	}
	return d.use(ctx, log, func(ctx context.Context, store *eventstore.Store, vault secret.Vault) error {
		t, err := mintToken(ctx, store, vault, d, r)
		if err != nil {
			return err
		}
		if r.setup() {
			fmt.Fprintf(stderr, "the token may set up one agent at %s until %s\n", d.resource(r.Board), t.ExpiresAt.Local().Format(time.DateTime))
			_, err = fmt.Fprintln(stdout, t.Token)
			return err
		}
		fmt.Fprintf(stderr, "agent %s is number %s with the roles %v; the token is for %s until %s\n",
			r.Agent, t.AgentID, t.Roles, d.resource(r.Board), t.ExpiresAt.Local().Format(time.DateTime))
		_, err = fmt.Fprintln(stdout, t.Token)
		return err
	})
}

// revoke ends every live grant of an agent, and so all its tokens:
//
//	sidequest revoke --agent NAME
func revoke(ctx context.Context, d development, log *slog.Logger, args []string, _, stderr io.Writer) error {
	flags := flag.NewFlagSet("revoke", flag.ContinueOnError)
	flags.SetOutput(stderr)
	agent := flags.String("agent", "", "the agent's `name`")
	if err := parseAll(flags, args); err != nil {
		return err
	}
	if *agent == "" {
		return errors.New("revoke needs --agent NAME")
	}
	return d.use(ctx, log, func(ctx context.Context, store *eventstore.Store, _ secret.Vault) error {
		n, err := revokeTokens(ctx, store, *agent)
		fmt.Fprintf(stderr, "revoked %d live grants of agent %s\n", n, *agent)
		return err
	})
}

// A tokenRequest says which development token to mint.
type tokenRequest struct {
	Agent  string   // its name; the first token of a name makes the agent
	Scopes []string // full names
	Board  string   // slug

	// Operator is who answers for a new agent, and allows the connection: the
	// developer, if left out, or someone who can sign in and decide for it.
	Operator domain.AgentKey

	Life time.Duration // 0 for [oauth.TokenLife]

	// Roles are the roles that the agent has from now on. With nil it keeps its
	// own, and those that the scopes are good for are added.
	Roles []domain.Role
}

// setup says whether the token is for a connection without an agent.
func (r tokenRequest) setup() bool { return slices.Equal(r.Scopes, []string{domain.ScopeSetup}) }

// A mintedToken is a token with what a developer wants to know about it.
type mintedToken struct {
	Token     string
	GrantID   string
	AgentKey  domain.AgentKey
	AgentID   domain.AgentID
	Wallet    domain.Address
	Roles     []domain.Role
	ExpiresAt time.Time
}

// mintToken opens a grant and mints a token for it. All but the minting itself
// is what every client goes through.
func mintToken(ctx context.Context, store *eventstore.Store, vault secret.Vault, d development, r tokenRequest) (mintedToken, error) {
	keys, err := oauth.LoadKeys(ctx, vault)
	if err != nil {
		return mintedToken{}, err
	}
	if err := checkMember(ctx, store, r); err != nil {
		return mintedToken{}, err
	}
	var agent domain.RegisterAgentAnswer
	var roles []domain.Role
	if !r.setup() {
		if agent, err = developmentAgent(ctx, store, vault, r); err != nil {
			return mintedToken{}, err
		}
		if roles, err = giveRoles(ctx, store, agent.AgentKey, r); err != nil {
			return mintedToken{}, err
		}
	}
	t := oauth.AccessToken{
		Issuer: d.Issuer, At: time.Now().UTC().Truncate(time.Second), Life: cmp.Or(r.Life, oauth.TokenLife),
		AgentID: agent.AgentID, Roles: roles,
	}
	// Nothing renews a development token, so its grant ends with it.
	end := t.At.Add(t.Life)
	grant := domain.OpenGrant{
		AgentKey: agent.AgentKey, ClientID: developerClient, ClientName: "sidequest token", Operator: string(cmp.Or(r.Operator, developer)),
		Asked: r.Scopes, Scopes: r.Scopes, Resource: d.resource(r.Board), ExpiresAt: &end,
	}
	if r.setup() {
		grant.Asked = domain.Scopes()
	}
	opened, err := carryOut(ctx, store, r.Operator, ulid.Make().String(), "open_grant", grant)
	if err != nil {
		return mintedToken{}, fmt.Errorf("open a grant: %w", err)
	}
	t.GrantID, t.Grant = opened.GrantID, domain.GrantOpened(grant).Apply(domain.Grant{})
	signed, err := keys.Mint(t)
	return mintedToken{signed, opened.GrantID, agent.AgentKey, agent.AgentID, agent.Wallet, roles, end}, err
}

// developmentAgent returns the agent with a name, which its first call makes.
func developmentAgent(ctx context.Context, store *eventstore.Store, vault secret.Vault, r tokenRequest) (domain.RegisterAgentAnswer, error) {
	wallet, err := managedWallet(ctx, vault, domain.DevelopmentAgent(r.Agent))
	if err != nil {
		return domain.RegisterAgentAnswer{}, err
	}
	// The key depends on the name alone: every call after the first is a repeat.
	key := domain.DeriveID("reg", r.Agent)
	agent, err := carryOut(ctx, store, r.Operator, key, "register_agent", domain.RegisterAgent{Name: r.Agent, Wallet: wallet})
	if err != nil {
		return domain.RegisterAgentAnswer{}, fmt.Errorf("register agent %s: %w", r.Agent, err)
	}
	return agent, nil
}

// managedWallet returns the address of an agent's wallet. Its private key is
// made here once and stays in the vault.
func managedWallet(ctx context.Context, vault secret.Vault, agent domain.AgentKey) (domain.Address, error) {
	raw, err := vault.GetOrCreate(ctx, "wallet:"+string(agent), func() ([]byte, error) {
		key, err := crypto.GenerateKey()
		if err != nil {
			return nil, err
		}
		return crypto.FromECDSA(key), nil
	})
	if err != nil {
		return "", err
	}
	key, err := crypto.ToECDSA(raw)
	if err != nil {
		return "", fmt.Errorf("read the wallet of %s: %w", agent, err)
	}
	return domain.Address(crypto.PubkeyToAddress(key.PublicKey).Hex()), nil
}

// giveRoles gives the agent the roles of the request and returns what it has then.
func giveRoles(ctx context.Context, store *eventstore.Store, agent domain.AgentKey, r tokenRequest) ([]domain.Role, error) {
	roles := r.Roles
	if roles == nil {
		held, err := heldRoles(ctx, store, agent)
		if err != nil {
			return nil, err
		}
		roles = slices.Concat(held, rolesFor(r.Scopes))
	}
	set, err := carryOut(ctx, store, r.Operator, ulid.Make().String(), "set_roles", domain.SetRoles{AgentKey: agent, Roles: roles})
	if err != nil {
		return nil, fmt.Errorf("set the roles: %w", err)
	}
	return set.Roles, nil
}

// rolesFor returns the roles without which the scopes allow little.
func rolesFor(scopes []string) []domain.Role {
	var roles []domain.Role
	if slices.Contains(scopes, domain.ScopeHire) {
		roles = append(roles, domain.RoleHire)
	}
	if slices.Contains(scopes, domain.ScopeWork) {
		roles = append(roles, domain.RoleWork)
	}
	return roles
}

// heldRoles folds the agent from the log, since a command need not wait for views.
func heldRoles(ctx context.Context, store *eventstore.Store, key domain.AgentKey) ([]domain.Role, error) {
	events, _, err := store.Category(ctx, domain.Agents.Name)
	if err != nil {
		return nil, fmt.Errorf("read the roles of %s: %w", key, err)
	}
	var agent domain.Agent
	for _, e := range events {
		if e.Stream == domain.Agents.Stream(string(key)) {
			agent = e.Event.(domain.Event[domain.Agent]).Apply(agent)
		}
	}
	return agent.Roles, nil
}

// revokeTokens ends the live grants of the agent with a name and returns how many.
func revokeTokens(ctx context.Context, store *eventstore.Store, name string) (int, error) {
	grants, err := oauth.LoadGrants(ctx, store)
	if err != nil {
		return 0, err
	}
	live, err := grants.OfAgent(ctx, domain.DevelopmentAgent(name))
	if err != nil {
		return 0, err
	}
	return len(live), endGrants(ctx, store, live, "revoked by the developer")
}

// endGrants revokes grants in the name of who gave them.
func endGrants(ctx context.Context, store *eventstore.Store, live []oauth.LiveGrant, reason string) error {
	for _, grant := range live {
		_, err := carryOut(ctx, store, domain.AgentKey(grant.Operator), ulid.Make().String(), "revoke_grant", domain.RevokeGrant{GrantID: grant.ID, Reason: reason})
		if err != nil {
			return fmt.Errorf("revoke grant %s: %w", grant.ID, err)
		}
	}
	return nil
}

// carryOut executes a command as an operator, the developer if none is named, and
// returns its answer.
func carryOut[R any](ctx context.Context, store *eventstore.Store, operator domain.AgentKey, key, tool string, cmd domain.Command[R]) (answer R, err error) {
	args, err := json.Marshal(cmd)
	if err != nil {
		return answer, err
	}
	hash, err := eventstore.HashArgs(tool, args)
	if err != nil {
		return answer, err
	}
	op := eventstore.Operation{Owner: cmp.Or(operator, developer), Key: key, Tool: tool, ArgsHash: hash, At: time.Now()}
	receipt, err := eventstore.Execute(ctx, store, op, cmd)
	if err != nil {
		return answer, err
	}
	err = json.Unmarshal(receipt.Result, &answer)
	return answer, err
}

func parseTokenFlags(args []string, stderr io.Writer) (tokenRequest, error) {
	var r tokenRequest
	flags := flag.NewFlagSet("token", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&r.Agent, "agent", "", "the agent's `name`; the first token of a name makes the agent")
	flags.StringVar((*string)(&r.Operator), "operator", "", "the `id` of the operator whose agent it is; nobody who can sign in, if left out")
	flags.StringVar(&r.Board, "board", "main", "the `slug` of the board the token is for")
	flags.DurationVar(&r.Life, "ttl", oauth.TokenLife, "how long the token lasts")
	scopes := flags.String("scope", "read,hire,work", "what the token allows: `list` of "+strings.Join(shortScopes(), ", "))
	roles := flags.String("roles", "", "what the agent may start: `list` of hire, work, or none (by default what it had, and what the scopes are good for)")
	if err := parseAll(flags, args); err != nil {
		return tokenRequest{}, err
	}
	var err error
	if r.Scopes, err = parseScopes(*scopes); err != nil {
		return tokenRequest{}, err
	}
	if r.Roles, err = parseRoles(*roles); err != nil {
		return tokenRequest{}, err
	}
	if (r.Agent == "") != r.setup() {
		return tokenRequest{}, errors.New("token needs --agent NAME, or --scope setup alone for a connection without an agent")
	}
	if r.Life < time.Second || r.Life > oauth.MaxTokenLife {
		return tokenRequest{}, fmt.Errorf("--ttl is from 1s to %s, not %s", oauth.MaxTokenLife, r.Life)
	}
	return r, nil
}

// parseAll parses flags, and nothing but flags.
func parseAll(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s takes no argument %q; lists are separated by commas alone", flags.Name(), flags.Arg(0))
	}
	return nil
}

// scopePrefix begins every scope on the wire and is left out on the command line.
const scopePrefix = "sidequest:"

func shortScopes() []string {
	short := domain.Scopes()
	for i, s := range short {
		short[i] = strings.TrimPrefix(s, scopePrefix)
	}
	return short
}

func parseScopes(list string) ([]string, error) {
	var scopes []string
	for short := range strings.SplitSeq(list, ",") {
		scope := scopePrefix + strings.TrimSpace(short)
		if !slices.Contains(domain.Scopes(), scope) {
			return nil, fmt.Errorf("there is no scope %q; --scope takes %s", short, strings.Join(shortScopes(), ", "))
		}
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

// parseRoles returns nil for an empty list, which leaves the choice to the scopes.
func parseRoles(list string) ([]domain.Role, error) {
	switch list {
	case "":
		return nil, nil
	case "none":
		return []domain.Role{}, nil
	}
	var roles []domain.Role
	for name := range strings.SplitSeq(list, ",") {
		role := domain.Role(strings.TrimSpace(name))
		if !slices.Contains(domain.Roles(), role) {
			return nil, fmt.Errorf("there is no role %q; --roles takes hire, work or none", name)
		}
		roles = append(roles, role)
	}
	return roles, nil
}
