package oauth

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"sidequest/domain"
)

// serveRevoke ends the access that a token stands for (RFC 7009). Tokens authorise
// nothing without their grant, so it is the grant that ends, with every token of
// it. Whether there was anything to end is not told.
func (s *Server) serveRevoke(w http.ResponseWriter, r *http.Request) {
	form, err := readForm(w, r, maxForm)
	if err == nil {
		err = checkOnce(form)
	}
	var client registration
	if err == nil {
		client, err = s.authenticate(r.Context(), r, form)
	}
	if err == nil && form.Get("token") == "" {
		err = bad(invalidRequest, "token is missing")
	}
	if err == nil {
		err = s.revoke(r.Context(), client, form.Get("token"))
	}
	if err != nil {
		s.writeFault(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
}

func (s *Server) revoke(ctx context.Context, client registration, token string) error {
	grantID, err := s.grantOf(ctx, token)
	if err != nil || grantID == "" {
		return err
	}
	grant, err := s.Grants.Live(ctx, grantID)
	if e, ok := errors.AsType[*domain.Error](err); ok && e.Class == domain.Unauthenticated {
		return nil // it has ended already
	}
	if err != nil || grant.ClientID != client.ID {
		return err
	}
	s.Log.InfoContext(ctx, "access revoked by its client", "grant", grantID, "client", client.ID)
	return s.end(ctx, grantID, "ended by the application itself")
}

// grantOf returns the grant of a token of ours, or "".
func (s *Server) grantOf(ctx context.Context, token string) (string, error) {
	if !strings.HasPrefix(token, refreshPrefix) {
		c, err := NewVerifier(s.Keys, s.Issuer, s.Grants).parse(ctx, token)
		if err != nil {
			return "", nil //nolint:nilerr // what is no token of ours has no effect
		}
		return c.GrantID, nil
	}
	_, l, err := s.genuine(ctx, token)
	if _, dead := errors.AsType[*fault](err); dead {
		return "", nil
	}
	return l.grantID, err
}
