package oauth

import (
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
)

func TestAClientConnectsWithNothingButItsRegistration(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback)
	b := newBrowser()
	id := b.pending(t, s, asks(clientID, nil))

	p, err := s.Pending(t.Context(), b.on(t), id)
	if err != nil {
		t.Fatal(err)
	}
	want := Client{ID: clientID, Name: "Test client", Kind: KindRegistered}
	if diff := cmp.Diff(want, p.Client); diff != "" {
		t.Errorf("client (-want +got):\n%s", diff)
	}
	if p.RedirectURI != callback || p.Resource != resource || !slices.Equal(p.Asked, []string{domain.ScopeRead, domain.ScopeHire}) {
		t.Errorf("pending = %+v", p)
	}

	answer, grantID := b.allow(t, s, id, bound(domain.ScopeRead, domain.ScopeHire))
	code := answer.Get("code")
	if diff := cmp.Diff(url.Values{"code": {code}, "state": {"st&te= 1"}, "iss": {issuer}}, answer); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	r := s.post(t, pathToken, codeForm(clientID, code, nil))
	if r.status != http.StatusOK || r.text("token_type") != "Bearer" || r.text("scope") != "sidequest:read sidequest:hire" || r.json["expires_in"] != 3600.0 {
		t.Fatalf("token: %d %s", r.status, r.body)
	}
	if got := r.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control = %q", got)
	}
	who, err := s.verify(t, r.text("access_token"))
	wantWho := Principal{
		AgentKey: alice, GrantID: grantID, ClientID: clientID, Operator: string(operator),
		Scopes: []string{domain.ScopeRead, domain.ScopeHire}, Asked: []string{domain.ScopeRead, domain.ScopeHire}, Resource: resource,
	}
	if diff := cmp.Diff(wantWho, who); diff != "" || err != nil {
		t.Errorf("principal (-want +got):\n%s, %v", diff, err)
	}
	again := s.refreshed(t, clientID, r.text("refresh_token"), nil)
	if again.status != http.StatusOK || again.text("refresh_token") == r.text("refresh_token") {
		t.Errorf("refresh: %d %s", again.status, again.body)
	}
}
