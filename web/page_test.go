package web

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sidequest/domain"
)

func newPages(t *testing.T) *Pages {
	t.Helper()
	p, err := NewPages(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestARefusalIsShownAndAnInternalErrorIsNot(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	for _, c := range []struct {
		err         error
		status      int
		says, hides string
	}{
		{domain.Refuse(domain.NotFound, "There is no such connection."), http.StatusNotFound, "There is no such connection.", "not-found"},
		{domain.Refuse(domain.Invalid, "<b>bold</b>"), http.StatusBadRequest, "&lt;b&gt;bold", "<b>"},
		{errors.New("relation secrets does not exist"), http.StatusInternalServerError, "It may not have been done.", "relation"},
	} {
		w := httptest.NewRecorder()
		p.fail(w, httptest.NewRequest(http.MethodGet, "/x", http.NoBody), nil, c.err)
		if body := w.Body.String(); w.Code != c.status || !strings.Contains(body, c.says) || strings.Contains(body, c.hides) {
			t.Errorf("%v is answered %d\n%s", c.err, w.Code, body)
		}
	}
}

func TestEveryPageForbidsFramesScriptsAndCaches(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	newPages(t).fail(w, httptest.NewRequest(http.MethodGet, "/x", http.NoBody), nil, domain.Refuse(domain.NotFound, "no"))
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'",
		"X-Frame-Options":         "DENY",
		"Referrer-Policy":         "no-referrer",
		"Cache-Control":           "no-store",
		"X-Content-Type-Options":  "nosniff",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestTheStylesheetIsFoundUnderItsHashAndKeptForEver(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	Assets(mux)
	for path, cache := range map[string]string{
		"/style.css":                           "public, max-age=3600",
		"/style.css?" + assetHash("style.css"): "public, max-age=31536000, immutable",
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if w.Code != http.StatusOK || w.Header().Get("Cache-Control") != cache || w.Header().Get("Content-Type") != "text/css; charset=utf-8" {
			t.Errorf("%s is answered %d with %v", path, w.Code, w.Header())
		}
	}
}

func TestANameOfAStrangerIsOneShortVisibleLine(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Claude\u202eedualC":     "ClaudeedualC",
		"a\u200bb\u2066c\u2069d": "abcd",
		"two\n lines\t here":     "two lines here",
		strings.Repeat("x", 90):  strings.Repeat("x", 60) + "…",
		"عميل":                   "عميل",
	} {
		if got := foreign(name); got != want {
			t.Errorf("foreign(%q) = %q, want %q", name, got, want)
		}
	}
}
