package oauth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
	"sidequest/secret"
)

// How long a client stays logged in: the lives of its refresh tokens.
const (
	RefreshIdle  = 30 * 24 * time.Hour  // from one use to the next
	RefreshLife  = 180 * 24 * time.Hour // of a line, from its code
	refreshGrace = time.Minute          // in which a token may come again
	maxLines     = 20                   // of one grant; the one that was quiet for longest goes
)

// A RefreshKey is what refresh tokens are derived from. All processes of a
// deployment have the same.
type RefreshKey []byte

// LoadRefreshKey returns the key of the deployment, which the first process makes.
func LoadRefreshKey(ctx context.Context, vault secret.Vault) (RefreshKey, error) {
	key, err := vault.GetOrCreate(ctx, "oauth:refresh-key", func() ([]byte, error) {
		b := make([]byte, 32)
		_, err := rand.Read(b)
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("load the key of refresh tokens: %w", err)
	}
	return key, nil
}

// A refreshToken names a place in a line. It is derived and not kept: every token
// a line ever had is recognised, and a token that comes again in time gets the
// very same successor.
type refreshToken struct {
	line [16]byte
	seq  uint64
	mac  [32]byte
}

const refreshPrefix = "rt_"

func parseRefresh(s string) (t refreshToken, ok bool) {
	body, found := strings.CutPrefix(s, refreshPrefix)
	raw, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if !found || err != nil || len(raw) != len(t.line)+8+len(t.mac) {
		return t, false
	}
	copy(t.line[:], raw)
	t.seq = binary.BigEndian.Uint64(raw[16:])
	copy(t.mac[:], raw[24:])
	return t, t.String() == s // the decoder skips line breaks
}

// derive returns the token of a line with a number.
func (k RefreshKey) derive(line [16]byte, salt []byte, seq uint64) refreshToken {
	h := hmac.New(sha256.New, k)
	h.Write(salt)
	h.Write(line[:])
	h.Write(binary.BigEndian.AppendUint64(nil, seq))
	t := refreshToken{line: line, seq: seq}
	h.Sum(t.mac[:0])
	return t
}

// String returns the token as clients see it.
func (t refreshToken) String() string {
	raw := append(binary.BigEndian.AppendUint64(t.line[:], t.seq), t.mac[:]...)
	return refreshPrefix + base64.RawURLEncoding.EncodeToString(raw)
}

// startLine begins a line of refresh tokens under a grant and returns the first.
// Each login has a line of its own, since installations of one application that
// their operator let act for one agent share a grant, but no storage.
// The line is for what its own request asked for, and stays so.
func (s *Server) startLine(ctx context.Context, code spentCode, codeHash []byte) (string, error) {
	var line [16]byte
	salt := make([]byte, 16)
	_, _ = rand.Read(line[:]) // it never fails
	_, _ = rand.Read(salt)
	_, err := s.DB.Exec(ctx, `
		WITH redeemed AS (
		  UPDATE oauth.codes
		  SET redeemed = true
		  WHERE code_hash = $1),
		surplus AS (
		  DELETE FROM oauth.lines
		  WHERE line_id IN (
		    SELECT line_id
		    FROM oauth.lines
		    WHERE grant_id = $3
		    ORDER BY rotated_at DESC
		    OFFSET $5))
		INSERT INTO oauth.lines (line_id, grant_id, salt, asked, seq, rotated_at, idle_until, ends_at)
		VALUES ($2, $3, $4, $8, 1, clock_timestamp(), now() + $6, now() + $7)`,
		codeHash, line[:], code.grantID, salt, maxLines-1, RefreshIdle, RefreshLife, code.asked)
	if err != nil {
		return "", fmt.Errorf("begin a line of refresh tokens: %w", err)
	}
	return s.Refresh.derive(line, salt, 1).String(), nil
}

// refresh gives tokens for a refresh token (RFC 6749 §6). A token is good once;
// its successor follows from it.
func (s *Server) refresh(ctx context.Context, client registration, form url.Values) (issue, error) {
	token, line, err := s.genuine(ctx, form.Get("refresh_token"))
	if err != nil {
		return issue{}, err
	}
	grant, err := s.liveFor(ctx, client, line.grantID, form)
	if err != nil {
		return issue{}, err
	}
	if grant.Scopes, err = narrowed(capped(line.asked, grant.Scopes), form); err != nil {
		return issue{}, err
	}
	switch good, err := s.rotate(ctx, token); {
	case err != nil:
		return issue{}, err
	case !good:
		s.Log.WarnContext(ctx, "a refresh token was used twice", "grant", line.grantID, "client", client.ID)
		_, err := carryOut(ctx, s.Store, domain.System, "reuse-"+line.grantID, "record_reuse", domain.RecordReuse{GrantID: line.grantID})
		if err == nil {
			err = s.Grants.look(ctx, time.Now())
		}
		if err == nil {
			err = deadGrant()
		}
		return issue{}, err
	}
	successor := s.Refresh.derive(token.line, line.salt, token.seq+1).String()
	return issue{grantID: line.grantID, grant: grant, asked: line.asked, refresh: successor}, nil
}

// A line is what does not change of a line of refresh tokens.
type line struct {
	grantID string
	salt    []byte
	asked   []string // see [capped]
}

// genuine returns a token that was issued, at whatever time, with its line.
func (s *Server) genuine(ctx context.Context, presented string) (t refreshToken, l line, err error) {
	t, ok := parseRefresh(presented)
	if !ok {
		return t, l, deadGrant()
	}
	err = s.DB.QueryRow(ctx, `
		SELECT grant_id, salt, asked
		FROM oauth.lines
		WHERE line_id = $1`, t.line[:]).Scan(&l.grantID, &l.salt, &l.asked)
	if errors.Is(err, pgx.ErrNoRows) {
		return t, l, deadGrant()
	}
	if err != nil {
		return t, l, fmt.Errorf("find a line of refresh tokens: %w", err)
	}
	if want := s.Refresh.derive(t.line, l.salt, t.seq); !hmac.Equal(want.mac[:], t.mac[:]) {
		return t, l, deadGrant()
	}
	return t, l, nil
}

// rotate moves a line on to the successor of a token. It is good as well if
// another call has just done that: clients refresh in parallel, and repeat what
// they heard no answer to. It is not good if the token is from longer ago, for
// then somebody has a copy.
func (s *Server) rotate(ctx context.Context, t refreshToken) (good bool, err error) {
	tag, err := s.DB.Exec(ctx, `
		UPDATE oauth.lines
		SET seq = seq + 1,
		    rotated_at = clock_timestamp(),
		    idle_until = least(now() + $3, ends_at)
		WHERE line_id = $1 AND seq = $2 AND idle_until > now()`, t.line[:], int64(t.seq), RefreshIdle)
	if err != nil {
		return false, fmt.Errorf("rotate a refresh token: %w", err)
	}
	if tag.RowsAffected() == 1 {
		return true, nil
	}
	var seq int64
	var since time.Duration
	var over bool
	err = s.DB.QueryRow(ctx, `
		SELECT seq, clock_timestamp() - rotated_at, idle_until <= now()
		FROM oauth.lines
		WHERE line_id = $1`, t.line[:]).Scan(&seq, &since, &over)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || err == nil && over:
		return false, deadGrant()
	case err != nil:
		return false, fmt.Errorf("look at a line of refresh tokens: %w", err)
	}
	return seq == int64(t.seq)+1 && since <= refreshGrace, nil
}
