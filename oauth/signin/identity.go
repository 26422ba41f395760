package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"sidequest/domain"
	"sidequest/eventstore"
)

// An identity is what somebody has shown to be.
type identity struct {
	issuer, subject string // who it is, for ever
	name, email     string // what it calls itself now; the e-mail address is verified
	provider        string // that people know it by
}

const longestName = 80 // characters, of a name or an e-mail address

// firstName returns the first of some names that is more than space, fit to be
// recorded.
func firstName(names ...string) string {
	for _, name := range names {
		if name = tidy(name); name != "" {
			return name
		}
	}
	return ""
}

// tidy leaves the visible characters of a name, in one line and within its bound.
func tidy(name string) string {
	visible := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar {
			return -1
		}
		if !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, name)
	runes := []rune(strings.Join(strings.Fields(visible), " "))
	return strings.TrimSpace(string(runes[:min(len(runes), longestName)]))
}

// admit begins a session for whom an identity stands, or adds the identity to the
// operator of the session that asked for it.
func (s *Service) admit(w http.ResponseWriter, r *http.Request, who identity, linkSession string) error {
	if linkSession != "" {
		return s.link(r, who, linkSession)
	}
	id, err := s.operator(r.Context(), who)
	if err != nil {
		return err
	}
	s.cfg.Log.InfoContext(r.Context(), "signed in", "operator", id, "provider", who.provider)
	return s.start(w, r, id)
}

// operator returns whom an identity stands for, which its first sign-in records.
func (s *Service) operator(ctx context.Context, who identity) (string, error) {
	known, named, current, err := s.find(ctx, who)
	if err != nil {
		return "", err
	}
	if known != "" && (!named || current) {
		return known, nil
	}
	if known != "" {
		err = s.record(ctx, known, who)
	} else {
		known, err = s.recordNew(ctx, who)
	}
	if err != nil {
		return "", err
	}
	return known, s.keep(ctx, known, who)
}

// find returns the operator of an identity, whether its name comes from that
// identity, and if so whether name and e-mail address are as they were.
func (s *Service) find(ctx context.Context, who identity) (id string, named, current bool, err error) {
	err = s.cfg.DB.QueryRow(ctx, `
		SELECT o.id, (o.issuer, o.subject) = (i.issuer, i.subject), (o.name, o.email) = ($3, $4)
		FROM signin.identities AS i
		JOIN signin.operators AS o ON o.id = i.operator_id
		WHERE i.issuer = $1
		  AND i.subject = $2`, who.issuer, who.subject, who.name, who.email).Scan(&id, &named, &current)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", false, false, fmt.Errorf("find the operator of an identity: %w", err)
	}
	return id, named, current, nil
}

// recordNew records an operator whose id follows from the identity. One that was
// erased does not come back: the same person then begins anew, under another id.
func (s *Service) recordNew(ctx context.Context, who identity) (string, error) {
	const lives = 100
	for life := range lives {
		id := domain.DeriveID("op", who.issuer, who.subject, strconv.Itoa(life))
		err := s.record(ctx, id, who)
		if domain.CodeOf(err) == "operator-erased" {
			continue
		}
		return id, err
	}
	return "", domain.Refuse(domain.Forbidden, "This identity has been erased too often.")
}

// record writes to the log who an operator says to be.
func (s *Service) record(ctx context.Context, id string, who identity) error {
	cmd := domain.RegisterOperator{OperatorID: id, Name: who.name, Email: who.email}
	args, err := json.Marshal(map[string]string{"operatorId": id}) // the hash is kept, so no personal data goes into it
	if err != nil {
		return err
	}
	argsHash, err := eventstore.HashArgs("register_operator", args)
	if err != nil {
		return err
	}
	op := eventstore.Operation{
		Owner: domain.AgentKey(id), Key: ulid.Make().String(), Tool: "register_operator", ArgsHash: argsHash, At: s.cfg.Now(),
	}
	if _, err := eventstore.Execute(ctx, s.cfg.Store, op, cmd); err != nil {
		return fmt.Errorf("record the operator %s: %w", id, err)
	}
	return nil
}

// keep remembers an operator with the identity that made it.
func (s *Service) keep(ctx context.Context, id string, who identity) error {
	err := pgx.BeginFunc(ctx, s.cfg.DB, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO signin.operators (id, issuer, subject, name, email)
			VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (id) DO UPDATE
			SET name = excluded.name, email = excluded.email`, id, who.issuer, who.subject, who.name, who.email)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO signin.identities (issuer, subject, operator_id, label, linked_at)
			VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (issuer, subject) DO NOTHING`, who.issuer, who.subject, id, who.label(), s.cfg.Now())
		return err
	})
	if err != nil {
		return fmt.Errorf("remember the operator %s: %w", id, err)
	}
	return nil
}

// label tells an operator which identity this is.
func (who identity) label() string { return who.provider + ": " + firstName(who.email, who.name) }

// link adds an identity to the operator of the session that began it, which must be
// the one of this request still. What stands for somebody else stays there.
func (s *Service) link(r *http.Request, who identity, session string) error {
	current, signedIn, err := s.Current(r)
	if err != nil {
		return err
	}
	if !signedIn || current.ID != session {
		return notThisSignIn()
	}
	var owner string
	err = s.cfg.DB.QueryRow(r.Context(), `
		WITH added AS (
			INSERT INTO signin.identities (issuer, subject, operator_id, label, linked_at)
			VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (issuer, subject) DO NOTHING
			RETURNING operator_id)
		SELECT operator_id FROM added
		UNION ALL
		SELECT operator_id FROM signin.identities WHERE issuer = $1 AND subject = $2
		LIMIT 1`, who.issuer, who.subject, current.Operator.ID, who.label(), s.cfg.Now()).Scan(&owner)
	if err != nil {
		return fmt.Errorf("link an identity: %w", err)
	}
	if owner != current.Operator.ID {
		return domain.Refuse(domain.Conflict, "This identity already belongs to another account here. Sign in with it to use that account.")
	}
	return nil
}

// An Identity is one way in which an operator can sign in.
type Identity struct {
	Label    string // provider and name, as the provider gave it: data of a stranger
	LinkedAt time.Time
}

// Identities lists the ways in which an operator can sign in, the oldest first.
func (s *Service) Identities(ctx context.Context, operatorID string) ([]Identity, error) {
	rows, err := s.cfg.DB.Query(ctx, `
		SELECT label, linked_at
		FROM signin.identities
		WHERE operator_id = $1
		ORDER BY linked_at, issuer, subject`, operatorID)
	if err != nil {
		return nil, fmt.Errorf("list identities: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Identity])
	if err != nil {
		return nil, fmt.Errorf("list identities: %w", err)
	}
	return all, nil
}
