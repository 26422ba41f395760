package oauth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	sweepPace  = time.Minute
	sweepBatch = 1000 // rows of a kind at a time
)

// Run looks after keys and records until ctx is done: in one process of all, known
// among them as owner.
func (s *Server) Run(ctx context.Context, owner string) {
	s.Store.Singly(ctx, "look after access", owner, sweepPace, func(ctx context.Context) error {
		return errors.Join(s.Keys.Advance(ctx), s.sweep(ctx))
	})
}

// sweep removes what is over, some of it at a time.
func (s *Server) sweep(ctx context.Context) error {
	var failures []error
	for _, sql := range []string{`
		DELETE FROM oauth.requests
		WHERE request_id IN (
		  SELECT request_id
		  FROM oauth.requests
		  WHERE expires_at < now()
		  LIMIT $1)`, `
		DELETE FROM oauth.assertions
		WHERE (client_id, jti) IN (
		  SELECT client_id, jti
		  FROM oauth.assertions
		  WHERE expires_at < now()
		  LIMIT $1)`, `
		DELETE FROM oauth.clients
		WHERE client_id IN (
		  SELECT client_id
		  FROM oauth.clients
		  WHERE kind = 'registered'
		    AND coalesce(used_at, created_at) < now() - interval '1 day'
		    AND (used_at IS NULL OR used_at < now() - interval '90 days')
		  LIMIT $1)`, `
		DELETE FROM oauth.documents
		WHERE url IN (
		  SELECT url
		  FROM oauth.documents
		  WHERE coalesce(used_at, fetched_at) < now() - interval '1 day'
		    AND (used_at IS NULL OR used_at < now() - interval '90 days')
		  LIMIT $1)`, `
		DELETE FROM limits.writes
		WHERE (subject, op) IN (
		  SELECT subject, op
		  FROM limits.writes
		  WHERE at < now() - interval '1 hour'
		  LIMIT $1)`,
	} {
		if _, err := s.DB.Exec(ctx, sql, sweepBatch); err != nil {
			failures = append(failures, fmt.Errorf("remove what is over: %w", err))
		}
	}
	return errors.Join(append(failures, s.sweepGrants(ctx))...)
}

// An outlived is a code or a line of refresh tokens that is over.
type outlived struct {
	ID       []byte
	GrantID  string
	Unusable bool // nothing is left that could use the grant
}

// sweepGrants removes codes and lines of refresh tokens that are over, and before
// that ends the grants that nobody can use any more: whose code was never
// redeemed, or whose last line ran out. A connection that is gone is then not
// shown as one that is.
func (s *Server) sweepGrants(ctx context.Context) error {
	rows, err := s.DB.Query(ctx, `
		WITH over AS (
		  (SELECT code_hash AS id, grant_id, redeemed AS silent
		   FROM oauth.codes
		   WHERE expires_at < now() - interval '1 day'
		   LIMIT $1)
		  UNION ALL
		  (SELECT line_id, grant_id, false
		   FROM oauth.lines
		   WHERE idle_until < now() - interval '1 day'
		   LIMIT $1))
		SELECT id, grant_id,
		       NOT silent
		         AND NOT EXISTS (
		           SELECT
		           FROM oauth.lines AS l
		           WHERE l.grant_id = over.grant_id AND l.idle_until >= now() - interval '1 day')
		         AND NOT EXISTS (
		           SELECT
		           FROM oauth.codes AS c
		           WHERE c.grant_id = over.grant_id AND c.expires_at >= now() - interval '1 day')
		FROM over`, sweepBatch)
	if err != nil {
		return fmt.Errorf("find codes and refresh tokens that are over: %w", err)
	}
	over, err := pgx.CollectRows(rows, pgx.RowToStructByPos[outlived])
	if err != nil {
		return fmt.Errorf("find codes and refresh tokens that are over: %w", err)
	}
	var gone [][]byte
	var failures []error
	for _, o := range over {
		if o.Unusable {
			if err := s.end(ctx, o.GrantID, "its application has not used it for a month"); err != nil {
				failures = append(failures, err)
				continue
			}
		}
		gone = append(gone, o.ID)
	}
	_, err = s.DB.Exec(ctx, `
		WITH codes AS (
		  DELETE FROM oauth.codes
		  WHERE code_hash = ANY ($1))
		DELETE FROM oauth.lines
		WHERE line_id = ANY ($1)`, gone)
	return errors.Join(append(failures, err)...)
}
