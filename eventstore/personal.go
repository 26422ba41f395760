package eventstore

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
)

// A Wrapping seals the keys of subjects at rest. Bound names the subject, so that
// no key can be put in another's place.
type Wrapping struct {
	Wrap   func(bound string, key []byte) []byte
	Unwrap func(bound string, wrapped []byte) ([]byte, error)
}

// ShredConsumer is the name of the consumer that destroys the keys of subjects
// whose erasure is on record.
const ShredConsumer = "shred/1"

// Shredding returns the consumer that makes erasure true: whatever happens to the
// process that recorded it, the key goes.
func Shredding() Consumer {
	return Consumer{Name: ShredConsumer, Schema: "log", Apply: func(b *pgx.Batch, e Recorded) {
		erased, ok := e.Event.(domain.ErasingEvent)
		if !ok {
			return
		}
		b.Queue(`
			INSERT INTO log.subject_keys (subject, key, shredded_at)
			VALUES ($1, NULL, $2)
			ON CONFLICT (subject) DO UPDATE
			SET key = NULL, shredded_at = coalesce(subject_keys.shredded_at, excluded.shredded_at)`, erased.ErasesSubject(), e.At)
	}}
}

// subjects returns whom an event is about.
func subjects(e domain.Typed) []string {
	p, ok := e.(domain.PersonalEvent)
	if !ok {
		return nil
	}
	var all []string
	_, _ = p.MapPersonal(func(f domain.Personal) (domain.Personal, error) { // it only looks
		all = append(all, f.Subject)
		return f, nil
	})
	return all
}

// sealPersonal returns the event as it goes on record.
func (s *Store) sealPersonal(ctx context.Context, e domain.Typed) (domain.Typed, error) {
	about := subjects(e)
	if len(about) == 0 {
		return e, nil
	}
	if err := s.makeKeys(ctx, about); err != nil {
		return nil, err
	}
	keys, err := s.keys(ctx, s.Pool, about)
	if err != nil {
		return nil, err
	}
	return e.(domain.PersonalEvent).MapPersonal(func(f domain.Personal) (domain.Personal, error) {
		key, ok := keys[f.Subject]
		if !ok {
			return f, fmt.Errorf("the personal data of %s was erased; nothing new can be recorded of them", f.Subject)
		}
		sealed, err := encrypt(key, f.Subject, f.Text)
		return domain.Personal{Subject: f.Subject, Sealed: sealed}, err
	})
}

// openPersonal makes personal fields of recorded events readable, but for those
// of subjects that were erased: they are empty.
func (s *Store) openPersonal(ctx context.Context, q querier, events []Recorded) error {
	var about []string
	for _, e := range events {
		about = append(about, subjects(e.Event)...)
	}
	if len(about) == 0 {
		return nil
	}
	keys, err := s.keys(ctx, q, about)
	if err != nil {
		return err
	}
	for i, e := range events {
		p, ok := e.Event.(domain.PersonalEvent)
		if !ok {
			continue
		}
		events[i].Event, err = p.MapPersonal(func(f domain.Personal) (domain.Personal, error) {
			key, ok := keys[f.Subject]
			if !ok {
				return domain.Personal{Subject: f.Subject}, nil
			}
			text, err := decrypt(key, f.Subject, f.Sealed)
			return domain.Personal{Subject: f.Subject, Text: text}, err
		})
		if err != nil {
			return fmt.Errorf("open position %d: %w", e.Position, err)
		}
	}
	return nil
}

// makeKeys sees that each subject has a key, or had one.
func (s *Store) makeKeys(ctx context.Context, about []string) error {
	if s.wrapping.Wrap == nil {
		return errors.New("this store has no key to keep personal data with")
	}
	for _, subject := range about {
		key := make([]byte, 32)
		if _, err := rand.Read(key); err != nil {
			return err
		}
		_, err := s.Pool.Exec(ctx, `
			INSERT INTO log.subject_keys (subject, key)
			VALUES ($1, $2)
			ON CONFLICT DO NOTHING`, subject, s.wrapping.Wrap(subject, key))
		if err != nil {
			return fmt.Errorf("make the key of a subject: %w", err)
		}
	}
	return nil
}

// keys returns the keys of those subjects that have one.
func (s *Store) keys(ctx context.Context, q querier, about []string) (map[string][]byte, error) {
	rows, err := q.Query(ctx, `
		SELECT subject, key
		FROM log.subject_keys
		WHERE subject = ANY ($1) AND key IS NOT NULL`, about)
	if err != nil {
		return nil, fmt.Errorf("read the keys of subjects: %w", err)
	}
	keys := map[string][]byte{}
	var subject string
	var wrapped []byte
	_, err = pgx.ForEachRow(rows, []any{&subject, &wrapped}, func() error {
		if s.wrapping.Unwrap == nil {
			return errors.New("this store has no key to read personal data with")
		}
		key, err := s.wrapping.Unwrap(subject, wrapped)
		keys[subject] = key
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the keys of subjects: %w", err)
	}
	return keys, nil
}

// Rewrap wraps every subject's key anew, after the key-encryption key changed,
// and returns how many there were.
func (s *Store) Rewrap(ctx context.Context) (int, error) {
	rows, err := s.Pool.Query(ctx, `
		SELECT subject, key
		FROM log.subject_keys
		WHERE key IS NOT NULL
		ORDER BY subject`)
	if err != nil {
		return 0, fmt.Errorf("wrap subjects' keys anew: %w", err)
	}
	type row struct {
		Subject string
		Key     []byte
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return 0, fmt.Errorf("wrap subjects' keys anew: %w", err)
	}
	for n, r := range all {
		key, err := s.wrapping.Unwrap(r.Subject, r.Key)
		if err != nil {
			return n, fmt.Errorf("wrap the key of %s anew: %w", r.Subject, err)
		}
		// A key that was shredded meanwhile stays so.
		_, err = s.Pool.Exec(ctx, `
			UPDATE log.subject_keys
			SET key = $3
			WHERE subject = $1 AND key = $2`, r.Subject, r.Key, s.wrapping.Wrap(r.Subject, key))
		if err != nil {
			return n, fmt.Errorf("wrap the key of %s anew: %w", r.Subject, err)
		}
	}
	return len(all), nil
}

// encrypt seals a text with AES-256-GCM, bound to its subject.
func encrypt(key []byte, subject, text string) ([]byte, error) {
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, []byte(text), []byte(subject)), nil //nolint:gosec // it takes no nonce, since it draws its own
}

func decrypt(key []byte, subject string, sealed []byte) (string, error) {
	aead, err := newAEAD(key)
	if err != nil {
		return "", err
	}
	text, err := aead.Open(nil, nil, sealed, []byte(subject))
	return string(text), err
}

// newAEAD makes and reads its own random nonces.
func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
