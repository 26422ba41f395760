package domain_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/sha3"

	"sidequest/domain"
)

// The cast. Ann hires, Bob and Cat work, Dan has no roles; Art arbitrates.
var (
	noon = time.Date(2026, 7, 28, 12, 0, 0, 250_000_000, time.UTC)

	ann = party("ann", "1", "0xA000000000000000000000000000000000000001")
	bob = party("bob", "2", "0xB000000000000000000000000000000000000002")
	cat = party("cat", "3", "0xC000000000000000000000000000000000000003")
	dan = party("dan", "4", "0xD000000000000000000000000000000000000004")

	art domain.Address = "0xE000000000000000000000000000000000000005"
	usd                = domain.Token{Address: "0xF0000000000000000000000000000000000000AA", Symbol: "USD", Decimals: 6}
	eth                = domain.Token{Address: "0xF0000000000000000000000000000000000000BB", Symbol: "ETH", Decimals: 18}

	square = domain.Board{
		Slug:         "main",
		Name:         "Main",
		RewardTokens: []domain.Token{usd, eth},
		Arbitrator:   art,
		Network:      domain.NetworkTest,
		ChainID:      1337,
		Stacks:       []string{"standard", "swift"},
	}
)

const noWallet domain.Address = "0x0000000000000000000000000000000000000000"

func party(name string, id domain.AgentID, wallet domain.Address) domain.Party {
	return domain.Party{AgentKey: domain.DevelopmentAgent(name), AgentID: id, Wallet: wallet}
}

// market is what every story begins with: a board and the agents.
func market() []domain.Fact {
	facts := []domain.Fact{domain.Boards.Record("main", domain.BoardConfigured{Board: square})}
	for _, a := range []struct {
		name  string
		party domain.Party
		roles []domain.Role
	}{
		{"ann", ann, []domain.Role{domain.RoleHire}},
		{"bob", bob, []domain.Role{domain.RoleWork}},
		{"cat", cat, []domain.Role{domain.RoleHire, domain.RoleWork}},
		{"dan", dan, []domain.Role{}},
	} {
		key := string(a.party.AgentKey)
		facts = append(facts,
			domain.Registries.Record("agents", domain.AgentNumbered{
				AgentKey: a.party.AgentKey, AgentID: a.party.AgentID, Wallet: a.party.Wallet, Name: a.name,
			}),
			domain.Agents.Record(key, domain.AgentRegistered{
				AgentKey: a.party.AgentKey, AgentID: a.party.AgentID, Name: a.name, Wallet: a.party.Wallet,
				Operator: string(operator),
			}),
			domain.Agents.Record(key, domain.AgentRolesSet{Roles: a.roles}),
		)
	}
	return facts
}

// A deed is a command whose answer type has been forgotten.
type deed struct {
	reads  func(domain.Meta) []domain.Stream
	decide func(domain.States, domain.Meta) ([]domain.Fact, any, error)
}

func do[R any](c domain.Command[R]) deed {
	return deed{c.Reads, func(s domain.States, m domain.Meta) ([]domain.Fact, any, error) {
		facts, answer, err := c.Decide(s, m)
		return facts, answer, err
	}}
}

// A row is one story: given facts, when an agent commands, then facts and an
// answer, or a refusal at a field.
type row struct {
	name   string
	given  []domain.Fact
	by     domain.AgentKey
	at     time.Time // noon if not given
	when   deed
	then   []domain.Fact
	answer any
	err    string // code
	class  domain.Class
	field  string
}

// meta is the meta of every story's command: the operation key never changes.
func meta(by domain.AgentKey, at time.Time) domain.Meta {
	if at.IsZero() {
		at = noon
	}
	return domain.Meta{Actor: by, Board: "main", OperationKey: "op", At: at, Hash: keccak}
}

// decide gives the command only the states it reads, and checks that it records
// only where it reads: the event store refuses anything else.
func (d deed) play(t *testing.T, given []domain.Fact, m domain.Meta) ([]domain.Fact, any, error) {
	t.Helper()
	all, seen, reads := domain.Fold(domain.Categories, given...), domain.States{}, d.reads(m)
	for _, s := range reads {
		seen[s] = all[s]
	}
	facts, answer, err := d.decide(seen, m)
	for _, f := range facts {
		if !slices.Contains(reads, f.Stream) {
			t.Errorf("records %s in %s, which it does not read", f.Event.EventType(), f.Stream)
		}
	}
	return facts, answer, err
}

func run(t *testing.T, rows []row) {
	t.Helper()
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			facts, answer, err := tt.when.play(t, tt.given, meta(tt.by, tt.at))

			if tt.err != "" {
				refused(t, tt, facts, err)
				return
			}
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			if diff := cmp.Diff(tt.then, facts); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.answer, answer); diff != "" && tt.answer != nil {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func refused(t *testing.T, tt row, facts []domain.Fact, err error) {
	t.Helper()
	e, ok := errors.AsType[*domain.Error](err)
	if !ok {
		t.Fatalf("error %v, want a refusal with code %q", err, tt.err)
	}
	if e.Code != tt.err || e.Field != tt.field || e.Message == "" {
		t.Errorf("refused with %q at %q (%s), want %q at %q", e.Code, e.Field, e.Message, tt.err, tt.field)
	}
	want := tt.class
	if want == "" {
		want = domain.Class(tt.err)
	}
	if e.Class != want {
		t.Errorf("class %q, want %q", e.Class, want)
	}
	if len(facts) > 0 {
		t.Errorf("a refusal recorded %v", facts)
	}
}

// keccak hashes as the event store does: canonical JSON, Keccak-256.
func keccak(v any) string {
	doc, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	canonical := jsontext.Value(doc)
	if err := canonical.Canonicalize(); err != nil {
		panic(err)
	}
	h := sha3.NewLegacyKeccak256()
	h.Write(canonical)
	return "0x" + hex.EncodeToString(h.Sum(nil))
}

// with returns a copy of facts with more of them.
func with(facts []domain.Fact, more ...domain.Fact) []domain.Fact {
	return append(slices.Clone(facts), more...)
}
