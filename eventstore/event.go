package eventstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"

	"sidequest/domain"
)

// Recorded is an event with its place in the log.
type Recorded struct {
	Position    int64 // 1, 2, 3 … without gaps; 0 until it is appended
	ID          string
	Stream      domain.Stream
	Version     int // 1, 2, 3 … within the stream
	Type        string
	Schema      int
	Actor       domain.AgentKey
	Board       string // slug, or "" for none
	Causation   string // the operation that caused it
	Correlation string // the operation that began the chain
	At          time.Time
	Data        []byte // canonical JSON, RFC 8785
	PrevHash    []byte // of the predecessor in the stream, empty for the first
	Hash        []byte // SHA-256 over everything above but the position
	Event       domain.Typed
}

// A head is where a stream stands.
type head struct {
	version int
	hash    []byte
}

// compose makes the i-th event of an operation from a fact.
func compose(op Operation, i int, f domain.Fact, after head) (Recorded, error) {
	data, err := canonical(f.Event)
	if err != nil {
		return Recorded{}, fmt.Errorf("encode %s: %w", f.Event.EventType(), err)
	}
	e := Recorded{
		ID:          eventID(op, i),
		Stream:      f.Stream,
		Version:     after.version + 1,
		Type:        f.Event.EventType(),
		Schema:      1,
		Actor:       op.Owner,
		Board:       op.Board,
		Causation:   op.ID(),
		Correlation: op.Correlation,
		At:          op.At,
		Data:        data,
		PrevHash:    after.hash,
		Event:       f.Event,
	}
	if e.Correlation == "" {
		e.Correlation = e.Causation
	}
	e.Hash, err = e.hash()
	return e, err
}

// eventID is a ULID whose random part is derived from the operation, so that a
// batch sent twice names its events the same.
func eventID(op Operation, i int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s#%d", len(op.Owner), op.Owner, op.Key, i))
	id, err := ulid.New(ulid.Timestamp(op.At), bytes.NewReader(h[:]))
	if err != nil { // only for a time after the year 10889
		panic(err)
	}
	return id.String()
}

// hash covers what a reader of an export sees, less the position.
func (e Recorded) hash() ([]byte, error) {
	doc, err := canonical(map[string]any{
		"id":          e.ID,
		"stream":      e.Stream,
		"version":     e.Version,
		"type":        e.Type,
		"schema":      e.Schema,
		"actor":       e.Actor,
		"board":       e.Board,
		"causation":   e.Causation,
		"correlation": e.Correlation,
		"at":          e.At.UTC().Format("2006-01-02T15:04:05.000000Z"),
		"data":        json.RawMessage(e.Data),
		"prevHash":    hex.EncodeToString(e.PrevHash),
	})
	if err != nil {
		return nil, fmt.Errorf("hash event %s: %w", e.ID, err)
	}
	sum := sha256.Sum256(doc)
	return sum[:], nil
}

// canonical returns the canonical JSON (RFC 8785) of v.
func canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	doc := jsontext.Value(raw)
	if err := doc.Canonicalize(); err != nil {
		return nil, err
	}
	return doc, nil
}

// HashArgs identifies a tool call: two calls are the same operation if tool and
// arguments are, whatever the order and spelling of the JSON. args must be an
// object without duplicate names.
func HashArgs(tool string, args []byte) ([32]byte, error) {
	doc := jsontext.Value(bytes.Clone(args))
	if err := doc.Canonicalize(); err != nil {
		return [32]byte{}, fmt.Errorf("canonicalize the arguments of %s: %w", tool, err)
	}
	return sha256.Sum256(fmt.Appendf(nil, "%s\n%s", tool, doc)), nil
}

// Keccak returns the Keccak-256 of the canonical JSON of v as 0x and hex digits:
// the hash the chain knows a document by. v must be encodable as JSON.
func Keccak(v any) string {
	doc, err := canonical(v)
	if err != nil { // only a value that is no JSON, a fault of ours
		panic(fmt.Sprintf("hash a %T: %v", v, err))
	}
	return crypto.Keccak256Hash(doc).Hex()
}
