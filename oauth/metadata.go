package oauth

import (
	"net/http"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"sidequest/domain"
)

// The endpoints, at the bare origin: some clients look for them nowhere else.
const (
	pathAuthorize = "/authorize"
	pathToken     = "/token"
	pathRegister  = "/register"
	pathRevoke    = "/revoke"
	pathKeys      = "/jwks"

	pathServer   = "/.well-known/oauth-authorization-server"
	pathOpenID   = "/.well-known/openid-configuration" // some clients know no other
	pathResource = "/.well-known/oauth-protected-resource"
)

// serveMetadata tells clients how to use the server (RFC 8414 §2). Every URL is of
// the configured issuer, whatever host the request names.
func (s *Server) serveMetadata(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "public, max-age=3600")
	s.writeJSON(w, r, http.StatusOK, map[string]any{
		"issuer":                                                s.Issuer,
		"authorization_endpoint":                                s.Issuer + pathAuthorize,
		"token_endpoint":                                        s.Issuer + pathToken,
		"registration_endpoint":                                 s.Issuer + pathRegister,
		"revocation_endpoint":                                   s.Issuer + pathRevoke,
		"jwks_uri":                                              s.Issuer + pathKeys,
		"scopes_supported":                                      append(domain.Scopes(), offlineAccess),
		"response_types_supported":                              []string{"code"},
		"response_modes_supported":                              []string{"query"},
		"grant_types_supported":                                 []string{"authorization_code", "refresh_token"},
		"code_challenge_methods_supported":                      []string{"S256"},
		"token_endpoint_auth_methods_supported":                 []string{authNone, authPost, authBasic, authKey},
		"token_endpoint_auth_signing_alg_values_supported":      assertionAlgorithms,
		"revocation_endpoint_auth_methods_supported":            []string{authNone, authPost, authBasic, authKey},
		"revocation_endpoint_auth_signing_alg_values_supported": assertionAlgorithms,
		"client_id_metadata_document_supported":                 true,
		"authorization_response_iss_parameter_supported":        true,
		"service_documentation":                                 s.Issuer + "/docs",
	})
}

// serveResource tells clients of a protected resource what a token has to be for
// (RFC 9728 §3). Clients compare the resource with the URL they were given, so it
// is named as they spell it.
func (s *Server) serveResource(w http.ResponseWriter, r *http.Request) {
	asked := strings.TrimPrefix(r.URL.EscapedPath(), pathResource)
	if asked == "" || asked == "/" {
		asked = MainPath
	}
	resource, found, err := s.resourceAt(r.Context(), CanonicalPath(asked))
	if err != nil {
		s.writeFault(w, r, err)
		return
	}
	if !found {
		s.writeFault(w, r, &fault{status: http.StatusNotFound, code: "not_found", description: "there is no such resource"})
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=300")
	s.writeJSON(w, r, http.StatusOK, map[string]any{
		"resource":                 s.Issuer + asked,
		"resource_name":            resource.Name,
		"authorization_servers":    []string{s.Issuer},
		"scopes_supported":         []string{domain.ScopeRead},
		"bearer_methods_supported": []string{"header"},
	})
}

// serveKeys publishes the keys that check access tokens (RFC 7517 §5), those that
// will sign and those that signed included.
func (s *Server) serveKeys(w http.ResponseWriter, r *http.Request) {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for kid, key := range s.Keys.ring.Load().verified {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key, KeyID: kid, Algorithm: string(jose.ES256), Use: "sig"})
	}
	w.Header().Set("Cache-Control", "public, max-age=300")
	s.writeJSON(w, r, http.StatusOK, set)
}
