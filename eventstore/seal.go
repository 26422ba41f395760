package eventstore

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/failpoint"
)

// A Seal is a signed Merkle root over the events of positions From to To. Seals
// follow each other without a gap, each with the hash of the one before.
type Seal struct {
	Seq       int64     `json:"seq"`
	From      int64     `json:"from"`
	To        int64     `json:"to"`
	Epoch     int       `json:"epoch"`
	Root      hexBytes  `json:"root"` // RFC 6962 tree hash; the leaves are the events' hashes
	Prev      hexBytes  `json:"prev"` // SHA-256 of the seal before, empty for the first
	At        time.Time `json:"at"`
	KeyID     string    `json:"keyId"`
	Signature hexBytes  `json:"signature,omitempty"`
}

// hexBytes are bytes that JSON shows in hex.
type hexBytes []byte

// MarshalText implements [encoding.TextMarshaler].
func (b hexBytes) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, b), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (b *hexBytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.DecodeString(string(text))
	return err
}

// signed returns the bytes that the signature covers: the canonical JSON of the
// seal without it.
func (s Seal) signed() ([]byte, error) {
	s.Signature = nil
	return canonical(s)
}

// KeyID names a public key of seals.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// Seal signs the log up to a position, or up to its head for 0, and returns the
// new seal. It returns the last one, if there is nothing new to seal.
func (s *Store) Seal(ctx context.Context, key ed25519.PrivateKey, upTo int64) (Seal, error) {
	var seal Seal
	err := pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('log.seals'))`); err != nil {
			return err
		}
		last, err := lastSeal(ctx, tx)
		if err != nil {
			return err
		}
		next, err := s.prepareSeal(ctx, tx, last, upTo)
		if err != nil || next.To < next.From {
			seal = last
			return err
		}
		if seal, err = sign(next, key); err != nil {
			return err
		}
		failpoint.Reach(failpoint.SealSigned)
		_, err = tx.Exec(ctx, `
			INSERT INTO log.seals (seq, from_pos, to_pos, epoch, root, prev, at, key_id, signature)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			seal.Seq, seal.From, seal.To, seal.Epoch, seal.Root, notNull(seal.Prev), seal.At, seal.KeyID, seal.Signature)
		return err
	})
	if err != nil {
		return Seal{}, fmt.Errorf("seal the log: %w", err)
	}
	failpoint.Reach(failpoint.SealStored)
	return seal, nil
}

// prepareSeal returns the unsigned seal that follows the last one.
func (s *Store) prepareSeal(ctx context.Context, tx pgx.Tx, last Seal, upTo int64) (Seal, error) {
	next := Seal{Seq: last.Seq + 1, From: last.To + 1, At: time.Now().UTC().Truncate(time.Microsecond)}
	err := tx.QueryRow(ctx, `SELECT epoch, pos FROM log.head WHERE shard = 0`).Scan(&next.Epoch, &next.To)
	if err != nil {
		return Seal{}, err
	}
	if upTo > 0 {
		next.To = min(next.To, upTo)
	}
	if last.Seq > 0 {
		before, err := last.signed()
		if err != nil {
			return Seal{}, err
		}
		sum := sha256.Sum256(before)
		next.Prev = sum[:]
	}
	var tree merkle
	for after := last.To; after < next.To; {
		rows, err := tx.Query(ctx, `
			SELECT hash
			FROM log.events
			WHERE pos > $1 AND pos <= $2
			ORDER BY pos`, after, min(after+10*pageEvents, next.To))
		if err != nil {
			return Seal{}, err
		}
		hashes, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
		if err != nil {
			return Seal{}, err
		}
		if len(hashes) == 0 {
			return Seal{}, fmt.Errorf("the log has a hole after position %d", after)
		}
		for _, h := range hashes {
			tree.add(h)
		}
		after += int64(len(hashes))
	}
	root := tree.root()
	next.Root = root[:]
	return next, nil
}

func sign(s Seal, key ed25519.PrivateKey) (Seal, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return Seal{}, errors.New("the key is not an Ed25519 key")
	}
	s.KeyID = KeyID(public)
	doc, err := s.signed()
	s.Signature = ed25519.Sign(key, doc)
	return s, err
}

const selectSeals = `
	SELECT seq, from_pos, to_pos, epoch, root, prev, at, key_id, signature
	FROM log.seals`

func scanSeal(row pgx.CollectableRow) (Seal, error) {
	var s Seal
	err := row.Scan(&s.Seq, &s.From, &s.To, &s.Epoch, (*[]byte)(&s.Root), (*[]byte)(&s.Prev), &s.At, &s.KeyID, (*[]byte)(&s.Signature))
	s.At = s.At.UTC()
	return s, err
}

// lastSeal returns the newest seal, the zero seal if there is none.
func lastSeal(ctx context.Context, q querier) (Seal, error) {
	rows, err := q.Query(ctx, selectSeals+`
		ORDER BY seq DESC
		LIMIT 1`)
	if err != nil {
		return Seal{}, err
	}
	last, err := pgx.CollectRows(rows, scanSeal)
	if err != nil || len(last) == 0 {
		return Seal{}, err
	}
	return last[0], nil
}

// SealDays seals each day that is over and has unsealed events, in UTC.
func (s *Store) SealDays(ctx context.Context, key ed25519.PrivateKey, now time.Time) error {
	for {
		last, err := lastSeal(ctx, s.Pool)
		if err != nil {
			return fmt.Errorf("read the last seal: %w", err)
		}
		var began time.Time
		err = s.Pool.QueryRow(ctx, `
			SELECT recorded_at
			FROM log.events
			WHERE pos = $1`, last.To+1).Scan(&began)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the first unsealed event: %w", err)
		}
		end := began.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		if end.After(now) {
			return nil
		}
		to, err := s.lastBefore(ctx, last.To+1, end)
		if err != nil {
			return err
		}
		if _, err := s.Seal(ctx, key, to); err != nil {
			return err
		}
	}
}

// lastBefore returns the last position recorded before a time, at or after first,
// which was. Positions are in the order of recording, so halving finds it.
func (s *Store) lastBefore(ctx context.Context, first int64, t time.Time) (int64, error) {
	head, err := s.Head(ctx)
	if err != nil {
		return 0, err
	}
	low, high := first, head+1 // low was recorded before t, high was not
	for high-low > 1 {
		middle := low + (high-low)/2
		var before bool
		err := s.Pool.QueryRow(ctx, `
			SELECT recorded_at < $2
			FROM log.events
			WHERE pos = $1`, middle, t).Scan(&before)
		if err != nil {
			return 0, fmt.Errorf("find the end of the day: %w", err)
		}
		if before {
			low = middle
		} else {
			high = middle
		}
	}
	return low, nil
}

// notNull keeps an empty value from becoming NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
