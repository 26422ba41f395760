package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"
)

// The font is Atkinson Hyperlegible Next: in it the letters and digits of ids and
// addresses cannot be taken for each other.
//
//go:embed style.css static
var static embed.FS

// assets are the files that pages refer to, with their media types. Nothing else
// below static is served.
func assets() map[string]string {
	return map[string]string{
		"style.css":                "text/css; charset=utf-8",
		"static/wallet.js":         "text/javascript; charset=utf-8",
		"static/latin.woff2":       "font/woff2",
		"static/latin-ext.woff2":   "font/woff2",
		"static/LICENSE-fonts.txt": "text/plain; charset=utf-8",
	}
}

// assetHash changes with the content of a file, so that a page never meets the
// stylesheet of another version.
func assetHash(name string) string {
	content, err := static.ReadFile(name)
	if err != nil {
		return "" // no such file is a mistake that the tests of the pages find
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:6])
}

// Assets adds the stylesheet and what it refers to.
func Assets(mux *http.ServeMux) {
	for name, kind := range assets() {
		content, err := static.ReadFile(name)
		if err != nil {
			panic(err) // the list above names what is embedded below it
		}
		tag := `"` + assetHash(name) + `"`
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Content-Type", kind)
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Cross-Origin-Resource-Policy", "same-origin")
			h.Set("ETag", tag)
			h.Set("Cache-Control", "public, max-age=3600")
			if r.URL.RawQuery == assetHash(name) {
				h.Set("Cache-Control", "public, max-age=31536000, immutable")
			}
			http.ServeContent(w, r, path.Base(name), time.Time{}, bytes.NewReader(content))
		})
	}
}
