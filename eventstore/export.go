package eventstore

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
)

// An exportLine is one line of an export, of which one member is set. An export
// is JSON Lines in canonical form: the head, the seals, the events in order, the
// receipts.
type exportLine struct {
	Log       *exportHead      `json:"log,omitempty"`
	Seal      *Seal            `json:"seal,omitempty"`
	Event     *exportEvent     `json:"event,omitempty"`
	Operation *exportOperation `json:"operation,omitempty"`
}

// exportFormat is the version of the form.
const exportFormat = 1

// An exportHead says what follows.
type exportHead struct {
	Format int               `json:"format"`
	Epoch  int               `json:"epoch"`
	Events int64             `json:"events"`
	Keys   map[string]string `json:"keys"` // public keys of the seals, base64, by key id
}

// An exportEvent is an event as a reader of an export sees it.
type exportEvent struct {
	Position    int64           `json:"position"`
	ID          string          `json:"id"`
	Stream      domain.Stream   `json:"stream"`
	Version     int             `json:"version"`
	Type        string          `json:"type"`
	Schema      int             `json:"schema"`
	Actor       domain.AgentKey `json:"actor"`
	Board       string          `json:"board"`
	Causation   string          `json:"causation"`
	Correlation string          `json:"correlation"`
	At          time.Time       `json:"at"`
	Data        json.RawMessage `json:"data"`
	PrevHash    hexBytes        `json:"prevHash"`
	Hash        hexBytes        `json:"hash"`
}

// An exportOperation is a receipt.
type exportOperation struct {
	Owner       domain.AgentKey `json:"owner"`
	Key         string          `json:"key"`
	OperationID string          `json:"operationId"`
	Tool        string          `json:"tool"`
	ArgsHash    hexBytes        `json:"argsHash"`
	Status      string          `json:"status"`
	Result      json.RawMessage `json:"result"`
	LastPos     int64           `json:"lastPosition"`
	At          time.Time       `json:"at"`
}

func exportOf(e Recorded) *exportEvent {
	return &exportEvent{
		e.Position, e.ID, e.Stream, e.Version, e.Type, e.Schema, e.Actor, e.Board, e.Causation, e.Correlation,
		e.At, e.Data, e.PrevHash, e.Hash,
	}
}

func (x *exportEvent) recorded() Recorded {
	return Recorded{
		Position: x.Position, ID: x.ID, Stream: x.Stream, Version: x.Version, Type: x.Type, Schema: x.Schema,
		Actor: x.Actor, Board: x.Board, Causation: x.Causation, Correlation: x.Correlation, At: x.At,
		Data: x.Data, PrevHash: x.PrevHash, Hash: x.Hash,
	}
}

// Export writes the log as it stands at one moment. Keys that personal fields are
// sealed with are not in it: what was erased stays erased.
func (s *Store) Export(ctx context.Context, w io.Writer, keys map[string]ed25519.PublicKey) error {
	out := bufio.NewWriterSize(w, 1<<20)
	put := func(line exportLine) error {
		raw, err := canonical(line)
		if err != nil {
			return err
		}
		_, err = out.Write(append(raw, '\n'))
		return err
	}
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		head := exportHead{Format: exportFormat, Keys: map[string]string{}}
		for id, key := range keys {
			head.Keys[id] = base64.StdEncoding.EncodeToString(key)
		}
		err := tx.QueryRow(ctx, `SELECT epoch, pos FROM log.head WHERE shard = 0`).Scan(&head.Epoch, &head.Events)
		if err != nil {
			return err
		}
		if err := put(exportLine{Log: &head}); err != nil {
			return err
		}
		if err := eachSeal(ctx, tx, func(x Seal) error { return put(exportLine{Seal: &x}) }); err != nil {
			return err
		}
		if err := eachEvent(ctx, tx, func(e Recorded) error { return put(exportLine{Event: exportOf(e)}) }); err != nil {
			return err
		}
		return eachOperation(ctx, tx, func(o exportOperation) error { return put(exportLine{Operation: &o}) })
	})
	if err != nil {
		return fmt.Errorf("export the log: %w", err)
	}
	return out.Flush()
}

func eachSeal(ctx context.Context, tx pgx.Tx, each func(Seal) error) error {
	rows, err := tx.Query(ctx, selectSeals+`
		ORDER BY seq`)
	if err != nil {
		return err
	}
	seals, err := pgx.CollectRows(rows, scanSeal)
	if err != nil {
		return err
	}
	for _, s := range seals {
		if err := each(s); err != nil {
			return err
		}
	}
	return nil
}

func eachOperation(ctx context.Context, tx pgx.Tx, each func(exportOperation) error) error {
	rows, err := tx.Query(ctx, `
		SELECT owner, op_key, operation_id, tool, args_hash, status, result, last_pos, at
		FROM log.operations
		ORDER BY last_pos, owner, op_key`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var o exportOperation
		err := rows.Scan(&o.Owner, &o.Key, &o.OperationID, &o.Tool, (*[]byte)(&o.ArgsHash), &o.Status, (*[]byte)(&o.Result), &o.LastPos, &o.At)
		if err != nil {
			return err
		}
		o.At = o.At.UTC()
		if err := each(o); err != nil {
			return err
		}
	}
	return rows.Err()
}

// An Export reads an export line by line.
type Export struct {
	Epoch  int
	Events int64 // how many the head promises
	Keys   map[string]ed25519.PublicKey

	lines *bufio.Reader
	next  *exportLine
}

// OpenExport reads the head of an export.
func OpenExport(r io.Reader) (*Export, error) {
	x := &Export{lines: bufio.NewReaderSize(r, 1<<20), Keys: map[string]ed25519.PublicKey{}}
	line, err := x.line()
	if err != nil || line == nil || line.Log == nil || line.Log.Format != exportFormat {
		return nil, fmt.Errorf("this is not an export of a log: %w", errors.Join(err, errors.New("it does not begin with a head of format 1")))
	}
	x.Epoch, x.Events = line.Log.Epoch, line.Log.Events
	for id, encoded := range line.Log.Keys {
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("the head of the export has a malformed key %q", id)
		}
		x.Keys[id] = key
	}
	return x, nil
}

// line returns the next line, nil at the end.
func (x *Export) line() (*exportLine, error) {
	if line := x.next; line != nil {
		x.next = nil
		return line, nil
	}
	raw, err := x.lines.ReadBytes('\n')
	if errors.Is(err, io.EOF) && len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil //nolint:nilnil // the end is neither a line nor a failure
	}
	if err != nil {
		return nil, fmt.Errorf("read the export: %w", err)
	}
	line := new(exportLine)
	if err := json.Unmarshal(raw, line); err != nil {
		return nil, fmt.Errorf("read the export: %w", err)
	}
	return line, nil
}

// seals reads the seals that follow the head.
func (x *Export) seals() ([]Seal, error) {
	var all []Seal
	for {
		line, err := x.line()
		if err != nil || line == nil || line.Seal == nil {
			x.next = line
			return all, err
		}
		all = append(all, *line.Seal)
	}
}

// Verify checks an export without any database, by the keys given or else those
// it names itself, which say no more than that it is whole.
func (x *Export) Verify(keys map[string]ed25519.PublicKey) (*Verifier, error) {
	if keys == nil {
		keys = x.Keys
	}
	v := &Verifier{Keys: keys}
	err := x.walk(v, func(Recorded) error { return nil }, func(exportOperation) error { return nil })
	return v, err
}

// walk reads the export to its end and checks it on the way.
func (x *Export) walk(v *Verifier, event func(Recorded) error, operation func(exportOperation) error) error {
	var err error
	if v.Seals, err = x.seals(); err != nil {
		return err
	}
	for {
		line, err := x.line()
		switch {
		case err != nil:
			return err
		case line == nil:
			if v.pos != x.Events {
				return &Misfit{v.pos, "end", fmt.Sprintf("the export promises %d events and has %d", x.Events, v.pos)}
			}
			return v.End()
		case line.Event != nil:
			e := line.Event.recorded()
			if err := v.Event(e); err != nil {
				return err
			}
			err = event(e)
		case line.Operation != nil:
			err = operation(*line.Operation)
		default:
			err = errors.New("the export has a line out of place")
		}
		if err != nil {
			return err
		}
	}
}
