// Package domain holds the rules of the marketplace: commands decide, events apply.
//
// It owns every fact the market can record and every rule that leads to one. It
// guarantees that the same states, command and [Meta] always give the same
// answer. It must not know a clock, a random source, a database, a transport or
// any other package of this program; it imports the standard library only.
package domain

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// An AgentKey names an agent for ever. It owns operation keys and private feed
// rows; wallets and agent ids are resolved from it by views.
type AgentKey string

// System is the actor of facts that no agent caused, such as an expiry.
const System AgentKey = "system"

// A Stream names the events of one aggregate: "<category>-<id>".
type Stream string

// Category returns the part before the first dash.
func (s Stream) Category() string {
	name, _, _ := strings.Cut(string(s), "-")
	return name
}

// ID returns the part after the first dash.
func (s Stream) ID() string {
	_, id, _ := strings.Cut(string(s), "-")
	return id
}

// Meta says who gave a command, where and when. It is the only clock a rule may
// read, and the source of every id a rule makes.
type Meta struct {
	Actor        AgentKey
	Board        string // slug
	OperationKey string
	At           time.Time // microseconds, UTC

	// Hash returns the Keccak-256 of the canonical JSON (RFC 8785) of a value,
	// as 0x and 64 hex digits. The caller lends it: it needs more than the
	// standard library, and evidence on chain is hashed this way.
	Hash func(any) string
}

// idLetters has no vowels that spell and no letters that look alike.
var idLetters = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID derives the id of a new aggregate from the owner and the key of the
// operation, so that a retry names the same thing. It has 20 characters of
// [0-9a-z] after the prefix and an underscore.
func (m Meta) NewID(prefix string) string {
	return DeriveID(prefix, string(m.Actor), m.OperationKey)
}

// OperationID names the operation to its owner.
func (m Meta) OperationID() string { return m.NewID("op") }

// DeriveID returns prefix, an underscore and 20 characters that depend on all parts.
func DeriveID(prefix string, parts ...string) string {
	h := sha256.New()
	for _, p := range append([]string{prefix}, parts...) {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return prefix + "_" + idLetters.EncodeToString(h.Sum(nil))[:20]
}

// A Command is a wish whose answer, once granted, is an R.
type Command[R any] interface {
	// Reads names every stream whose state Decide looks at. The facts are
	// recorded only if none of these streams has moved since.
	Reads(Meta) []Stream

	// Decide grants the wish with facts to record and an answer, or refuses it
	// with an [*Error]. It is pure.
	Decide(States, Meta) ([]Fact, R, error)
}

// An Event is a fact about one stream whose state is S. A fact cannot be
// refused, so Apply has no error.
type Event[S any] interface {
	EventType() string
	Apply(S) S
}

// A Fact is an event on its way to a stream. Make one with [Category.Record].
type Fact struct {
	Stream Stream
	Event  Typed
}

// Typed is what all events have in common. EventType is a constant that never
// changes, "<noun>.<past participle>".
type Typed interface{ EventType() string }

// States are the folded states of the streams a command reads. A stream without
// events has the zero state.
type States map[Stream]any

// A Category is the set of streams whose state is S.
type Category[S any] struct {
	Name   string
	Events []Event[S] // one zero value of every event type

	// SnapshotForm is above zero if states may be kept as JSON, to spare the
	// reading of long streams. Raise it with every change of S or of an Apply.
	// States with personal data must not be kept: they could not be erased.
	SnapshotForm int
}

// Stream names the stream of one aggregate.
func (c Category[S]) Stream(id string) Stream { return Stream(c.Name + "-" + id) }

// Record makes the fact that e happened to the aggregate id.
func (c Category[S]) Record(id string, e Event[S]) Fact {
	return Fact{Stream: c.Stream(id), Event: e}
}

// In returns the state of the aggregate id among those a command read.
func (c Category[S]) In(states States, id string) S {
	s, _ := states[c.Stream(id)].(S)
	return s
}

// CategoryName implements [AnyCategory].
func (c Category[S]) CategoryName() string { return c.Name }

// Zero implements [AnyCategory].
func (c Category[S]) Zero() any {
	var s S
	return s
}

// Fold implements [AnyCategory].
func (c Category[S]) Fold(state any, e Typed) any {
	s, _ := state.(S)
	return e.(Event[S]).Apply(s)
}

// Decode implements [AnyCategory].
func (c Category[S]) Decode(eventType string, data []byte) (Typed, error) {
	for _, zero := range c.Events {
		if zero.EventType() != eventType {
			continue
		}
		p := reflect.New(reflect.TypeOf(zero))
		if err := json.Unmarshal(data, p.Interface()); err != nil {
			return nil, fmt.Errorf("decode %s: %w", eventType, err)
		}
		return p.Elem().Interface().(Typed), nil
	}
	return nil, fmt.Errorf("category %s has no event type %q", c.Name, eventType)
}

// Form implements [AnyCategory].
func (c Category[S]) Form() int { return c.SnapshotForm }

// EncodeState implements [AnyCategory].
func (c Category[S]) EncodeState(state any) ([]byte, error) { return json.Marshal(state.(S)) }

// DecodeState implements [AnyCategory].
func (c Category[S]) DecodeState(data []byte) (any, error) {
	var s S
	err := json.Unmarshal(data, &s)
	return s, err
}

// EventTypes implements [AnyCategory].
func (c Category[S]) EventTypes() []Typed {
	all := make([]Typed, len(c.Events))
	for i, e := range c.Events {
		all[i] = e
	}
	return all
}

// AnyCategory is a [Category] whose state type is not known: what the event
// store needs to decode and fold.
type AnyCategory interface {
	CategoryName() string
	Zero() any
	Fold(state any, e Typed) any
	Decode(eventType string, data []byte) (Typed, error)
	EventTypes() []Typed

	// Form says in which form states are kept, 0 for not at all.
	Form() int
	EncodeState(state any) ([]byte, error)
	DecodeState(data []byte) (any, error)
}

// Fold returns the states after the facts, for tests and replays.
func Fold(categories []AnyCategory, facts ...Fact) States {
	states := States{}
	for _, f := range facts {
		for _, c := range categories {
			if c.CategoryName() == f.Stream.Category() {
				states[f.Stream] = c.Fold(states[f.Stream], f.Event)
			}
		}
	}
	return states
}
