package eventstore

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
)

// A Misfit is the first thing in a log that is not as it was recorded.
type Misfit struct { //nolint:errname // it is what was found, not a failure to look
	Position int64 // of the event, or the last one of the seal
	ID       string
	Why      string
}

// Error implements error.
func (m *Misfit) Error() string {
	return fmt.Sprintf("the log does not verify: position %d (%s): %s", m.Position, m.ID, m.Why)
}

// A Verifier checks a log event by event: that positions and versions have no
// gaps, that each event has the hash of its content and of its predecessor, and
// that every seal has the right root, signature and place.
type Verifier struct {
	Seals []Seal                       // in order
	Keys  map[string]ed25519.PublicKey // by key id; seals of other keys do not verify

	pos   int64
	heads map[domain.Stream]head
	tree  merkle
	next  int // the seal whose stretch is being read
	prev  []byte
}

// Event checks the next event. The error is a [*Misfit].
func (v *Verifier) Event(e Recorded) error {
	if v.heads == nil {
		v.heads = map[domain.Stream]head{}
	}
	before := v.heads[e.Stream]
	hash, err := e.hash()
	switch {
	case e.Position != v.pos+1:
		return &Misfit{e.Position, e.ID, fmt.Sprintf("position %d was expected here", v.pos+1)}
	case e.Version != before.version+1:
		return &Misfit{e.Position, e.ID, fmt.Sprintf("it is version %d of %s, but %d was expected", e.Version, e.Stream, before.version+1)}
	case !bytes.Equal(e.PrevHash, before.hash):
		return &Misfit{e.Position, e.ID, "it does not carry the hash of the event before it in " + string(e.Stream)}
	case err != nil:
		return &Misfit{e.Position, e.ID, "its data is not canonical JSON"}
	case !bytes.Equal(hash, e.Hash):
		return &Misfit{e.Position, e.ID, "its hash is not that of its content"}
	}
	v.pos, v.heads[e.Stream] = e.Position, head{e.Version, e.Hash}
	v.tree.add(e.Hash)
	if v.next < len(v.Seals) && v.Seals[v.next].To == e.Position {
		return v.seal(v.Seals[v.next])
	}
	return nil
}

// End checks that nothing is missing at the end.
func (v *Verifier) End() error {
	if v.next < len(v.Seals) {
		s := v.Seals[v.next]
		return &Misfit{s.To, fmt.Sprintf("seal %d", s.Seq), fmt.Sprintf("the seal reaches further than the log, which ends at position %d", v.pos)}
	}
	return nil
}

// Verified returns how many events and seals have been found good.
func (v *Verifier) Verified() (events int64, seals int) { return v.pos, v.next }

// seal checks the seal whose last event has just been read.
func (v *Verifier) seal(s Seal) error {
	misfit := func(why string) error { return &Misfit{s.To, fmt.Sprintf("seal %d", s.Seq), why} }
	doc, err := s.signed()
	root := v.tree.root()
	first := int64(1)
	if v.next > 0 {
		first = v.Seals[v.next-1].To + 1
	}
	key, known := v.Keys[s.KeyID]
	switch {
	case err != nil:
		return misfit("it cannot be encoded")
	case s.Seq != int64(v.next)+1 || s.From != first:
		return misfit("it does not follow the seal before it")
	case !bytes.Equal(s.Prev, v.prev):
		return misfit("it does not carry the hash of the seal before it")
	case !bytes.Equal(s.Root, root[:]):
		return misfit("its Merkle root is not that of the events")
	case !known:
		return misfit("it is signed with a key that is not trusted: " + s.KeyID)
	case !ed25519.Verify(key, doc, s.Signature):
		return misfit("its signature is wrong")
	}
	sum := sha256.Sum256(doc)
	v.prev, v.tree, v.next = sum[:], merkle{}, v.next+1
	return nil
}

// Verify checks the whole log of the database, in one snapshot. progress hears
// the position it has reached.
func (s *Store) Verify(ctx context.Context, keys map[string]ed25519.PublicKey, progress func(pos int64)) (*Verifier, error) {
	v := &Verifier{Keys: keys}
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, selectSeals+`
			ORDER BY seq`)
		if err != nil {
			return err
		}
		if v.Seals, err = pgx.CollectRows(rows, scanSeal); err != nil {
			return err
		}
		if err := eachEvent(ctx, tx, func(e Recorded) error {
			if e.Position%(10*pageEvents) == 0 {
				progress(e.Position)
			}
			return v.Event(e)
		}); err != nil {
			return err
		}
		return v.End()
	})
	return v, err
}

// snapshot runs read-only work on the log as it stands at one moment.
func (s *Store) snapshot(ctx context.Context, work func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, work)
}

// eachEvent reads the whole log in order, without decoding what the events mean:
// a log can be checked and copied by a program that does not know their types.
func eachEvent(ctx context.Context, tx pgx.Tx, each func(Recorded) error) error {
	rows, err := tx.Query(ctx, selectEvents+`
		ORDER BY pos`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var e Recorded
		if err := scanEvent(rows, &e); err != nil {
			return err
		}
		if err := each(e); err != nil {
			return err
		}
	}
	return rows.Err()
}
