package oauth

import (
	"net/http"
	"slices"
	"strings"
)

// Routes adds the server's endpoints. Those that clients call themselves may be
// called from any web page, since they take no cookies; those that people see may
// not.
func (s *Server) Routes(mux *http.ServeMux) {
	mux.Handle(pathAuthorize, methods(s.serveAuthorize, http.MethodGet, http.MethodPost))
	mux.Handle(pathToken, anyOrigin(s.serveToken, http.MethodPost))
	mux.Handle(pathRegister, anyOrigin(s.serveRegister, http.MethodPost))
	mux.Handle(pathRevoke, anyOrigin(s.serveRevoke, http.MethodPost))
	mux.Handle(pathKeys, anyOrigin(s.serveKeys, http.MethodGet, http.MethodHead))
	mux.Handle(pathServer, anyOrigin(s.serveMetadata, http.MethodGet, http.MethodHead))
	mux.Handle(pathOpenID, anyOrigin(s.serveMetadata, http.MethodGet, http.MethodHead))
	for _, path := range []string{pathResource, pathResource + "/"} {
		mux.Handle(path, anyOrigin(s.serveResource, http.MethodGet, http.MethodHead))
	}
}

// corsHeaders are those that clients on web pages send along.
const corsHeaders = "Content-Type, Authorization, MCP-Protocol-Version, Mcp-Method, Mcp-Name"

// anyOrigin lets pages of any origin call an endpoint, without credentials of the
// browser.
func anyOrigin(serve http.HandlerFunc, allowed ...string) http.Handler {
	inner := methods(serve, allowed...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Expose-Headers", "WWW-Authenticate, Retry-After")
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", strings.Join(append(allowed, http.MethodOptions), ", "))
			h.Set("Access-Control-Allow-Headers", corsHeaders)
			h.Set("Access-Control-Max-Age", "7200")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// methods refuses other methods than those allowed.
func methods(serve http.HandlerFunc, allowed ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(allowed, r.Method) {
			serve(w, r)
			return
		}
		h := w.Header()
		h.Set("Allow", strings.Join(allowed, ", "))
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Type", "application/json")
		if r.ContentLength != 0 {
			h.Set("Connection", "close") // the answer does not wait for a body nobody reads
		}
		w.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = w.Write([]byte(`{"error":"invalid_request","error_description":"this endpoint takes other methods"}` + "\n"))
	})
}
