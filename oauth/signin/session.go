package signin

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
)

// Current returns the session of a request, or false if nobody is signed in.
func (s *Service) Current(r *http.Request) (Session, bool, error) {
	secret := cookie(r, sessionCookie)
	if secret == "" {
		return Session{}, false, nil
	}
	now := s.cfg.Now()
	var (
		current Session
		seen    time.Time
	)
	err := s.cfg.DB.QueryRow(r.Context(), `
		SELECT s.id, s.seen_at, o.id, o.name, o.email
		FROM signin.sessions AS s
		JOIN signin.operators AS o ON o.id = s.operator_id
		WHERE s.secret_hash = $1
		  AND s.seen_at > $2
		  AND s.began_at > $3`,
		hash(secret), now.Add(-idleLife), now.Add(-sessionLife),
	).Scan(&current.ID, &seen, &current.Operator.ID, &current.Operator.Name, &current.Operator.Email)
	if errors.Is(err, pgx.ErrNoRows) {
		return Session{}, false, nil
	}
	if err != nil {
		return Session{}, false, fmt.Errorf("find the session: %w", err)
	}
	current.CSRF = derive(secret, "csrf")
	if now.Sub(seen) > seenPace {
		err = s.touch(r.Context(), current.ID, now)
	}
	return current, err == nil, err
}

func (s *Service) touch(ctx context.Context, id string, now time.Time) error {
	_, err := s.cfg.DB.Exec(ctx, `
		UPDATE signin.sessions
		SET seen_at = $2
		WHERE id = $1`, id, now)
	if err != nil {
		return fmt.Errorf("note the use of a session: %w", err)
	}
	return nil
}

// Sent refuses a form that was not made for this session.
func (s Session) Sent(token string) error {
	if subtle.ConstantTimeCompare([]byte(s.CSRF), []byte(token)) != 1 {
		return domain.Refuse(domain.Forbidden, "This form belongs to another session. Open the page again and repeat what you meant to do.")
	}
	return nil
}

// start begins a session in this browser and ends the one it had. Its secret is
// new: whoever knew a cookie from before the sign-in knows nothing.
func (s *Service) start(w http.ResponseWriter, r *http.Request, operatorID string) error {
	secret, now := newSecret(), s.cfg.Now()
	err := pgx.BeginFunc(r.Context(), s.cfg.DB, func(tx pgx.Tx) error {
		if err := endSession(r.Context(), tx, cookie(r, sessionCookie)); err != nil {
			return err
		}
		_, err := tx.Exec(r.Context(), `
			INSERT INTO signin.sessions (secret_hash, id, operator_id, began_at, seen_at)
			VALUES ($1, $2, $3, $4, $4)`, hash(secret), "se_"+derive(secret, "id")[:20], operatorID, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("begin a session: %w", err)
	}
	setCookie(w, sessionCookie, secret)
	return nil
}

// SignOut ends the session of a request.
func (s *Service) SignOut(w http.ResponseWriter, r *http.Request) error {
	err := pgx.BeginFunc(r.Context(), s.cfg.DB, func(tx pgx.Tx) error {
		return endSession(r.Context(), tx, cookie(r, sessionCookie))
	})
	if err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	dropCookie(w, sessionCookie)
	return nil
}

func endSession(ctx context.Context, tx pgx.Tx, secret string) error {
	_, err := tx.Exec(ctx, `
		DELETE FROM signin.sessions
		WHERE secret_hash = $1`, hash(secret))
	return err
}

// SignOutEverywhere ends every session of an operator, in whatever browser.
func (s *Service) SignOutEverywhere(ctx context.Context, operatorID string) error {
	_, err := s.cfg.DB.Exec(ctx, `
		DELETE FROM signin.sessions
		WHERE operator_id = $1`, operatorID)
	if err != nil {
		return fmt.Errorf("end all sessions: %w", err)
	}
	return nil
}
