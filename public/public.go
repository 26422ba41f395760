// Package public answers with documents that are the same for everyone.
//
// It guarantees that each can be read by any page on the web, kept for an hour and
// then asked for again at the price of a header, and that what is not there is said
// in a form every client understands. It must not know what the documents say.
package public

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	methods = "GET, HEAD, OPTIONS"

	// headers are those that clients on web pages send along.
	headers = "Content-Type, If-None-Match, Authorization, MCP-Protocol-Version, Mcp-Method, Mcp-Name"
)

// A Document is a public text or picture at an address of its own.
type Document struct {
	mediaType string
	body      []byte
	tag       string
}

// New returns a document of a media type.
func New(mediaType string, body []byte) *Document {
	sum := sha256.Sum256(body)
	return &Document{mediaType, body, `"` + hex.EncodeToString(sum[:16]) + `"`}
}

// JSON returns a document that is a value.
func JSON(mediaType string, v any) (*Document, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode a public document: %w", err)
	}
	return New(mediaType, b.Bytes()), nil
}

// Body returns what the document says.
func (d *Document) Body() []byte { return d.body }

// ServeHTTP implements [http.Handler].
func (d *Document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	open(w.Header())
	if !answersOthers(w, r) {
		return
	}
	h := w.Header()
	h.Set("Content-Type", d.mediaType)
	h.Set("Cache-Control", "public, max-age=3600")
	h.Set("ETag", d.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.body))
}

// open lets every page on the web read the answer.
func open(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", methods)
	h.Set("Access-Control-Allow-Headers", headers)
	h.Set("Access-Control-Expose-Headers", "ETag")
	h.Set("X-Content-Type-Options", "nosniff")
}

// answersOthers answers methods other than GET and HEAD, and says whether it is one
// of these.
func answersOthers(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return true
	case http.MethodOptions:
		h.Set("Allow", methods)
		h.Set("Access-Control-Max-Age", "7200")
		w.WriteHeader(http.StatusNoContent)
		return false
	}
	h.Set("Allow", methods)
	refuse(w, r, http.StatusMethodNotAllowed, "invalid", "This is a document: GET and HEAD read it.")
	return false
}

// Reading lets requests through that only read. What is behind it is for everyone,
// but not for pages of others.
func Reading(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, r, http.StatusMethodNotAllowed, "invalid", "This is to be read: use GET or HEAD.")
	})
}

// NotFound answers that there is no such document. The message says what there is.
func NotFound(w http.ResponseWriter, r *http.Request, message string) {
	open(w.Header())
	if r.Method == http.MethodOptions {
		answersOthers(w, r)
		return
	}
	refuse(w, r, http.StatusNotFound, "not-found", message)
}

// Forbidden answers that this deployment does not serve the request.
func Forbidden(w http.ResponseWriter, r *http.Request, message string) {
	refuse(w, r, http.StatusForbidden, "forbidden", message)
}

// Unavailable answers while it cannot be found out whether there is a document.
func Unavailable(w http.ResponseWriter, r *http.Request) {
	open(w.Header())
	w.Header().Set("Retry-After", "1")
	refuse(w, r, http.StatusServiceUnavailable, "unavailable", "This cannot be answered at the moment; ask again in a second.")
}

func refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	h := w.Header()
	if r.ContentLength != 0 {
		h.Set("Connection", "close") // the answer does not wait for a body nobody reads
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	body, err := json.Marshal(struct {
		OK      bool   `json:"ok"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}{false, code, message})
	if err == nil { // it is three plain members
		_, _ = w.Write(append(body, '\n'))
	}
}
