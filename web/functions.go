package web

import (
	"html/template"
	"strings"
	"time"
	"unicode"
)

// functions are what templates may call.
func functions() template.FuncMap {
	return template.FuncMap{
		"styleHash": func() string { return assetHash("style.css") },
		"assetHash": assetHash,
		"foreign":   foreign,
		"minute":    minute,
		"day":       day,
		"stamp":     stamp,
	}
}

// foreignLength bounds a name that a stranger chose, in characters.
const foreignLength = 60

// foreign makes a name that a stranger chose fit to be shown: in one line, without
// characters that are invisible or change the direction of what follows, and not
// longer than a name. Templates escape it and isolate its direction.
func foreign(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.Join(strings.Fields(s), " ") {
		if !unicode.IsGraphic(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) {
			continue
		}
		if n++; n > foreignLength {
			return b.String() + "…"
		}
		b.WriteRune(r)
	}
	return b.String()
}

// day names a day as people write it, in UTC.
func day(t time.Time) string { return t.UTC().Format("2 January 2006") }

// minute names a moment as people write it, in UTC.
func minute(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }

// stamp names a moment for programs and for those who look closely.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
