package domain_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sidequest/domain"
)

func TestAnAmountIsCountedInBaseUnits(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		amount   domain.Amount
		decimals int
		want     string // "" where the amount is refused
	}{
		{"1", 6, "1000000"},
		{"0.000001", 6, "1"},
		{"25.50", 6, "25500000"},
		{"7", 0, "7"},
		{"123456789012345678901234567890.123456789012345678", 18, "123456789012345678901234567890123456789012345678"},
		{"0", 6, ""},
		{"0.000", 6, ""},
		{"00.1", 6, ""},
		{"01", 6, ""},
		{"1.0", 0, ""},
		{"0.0000001", 6, ""},
		{"-1", 6, ""},
		{"+1", 6, ""},
		{"1.", 6, ""},
		{".1", 6, ""},
		{"1e3", 6, ""},
		{"1,5", 6, ""},
		{"", 6, ""},
		{"1\n", 6, ""},
		{"1234567890123456789012345678901", 6, ""},
	} {
		got, err := tt.amount.Base(tt.decimals)
		if tt.want == "" {
			if err == nil {
				t.Errorf("%q with %d decimals is %s, want a refusal", tt.amount, tt.decimals, got)
			}
			continue
		}
		if err != nil || got.String() != tt.want {
			t.Errorf("%q with %d decimals is %s, %v; want %s", tt.amount, tt.decimals, got, err, tt.want)
		}
	}
}

func TestAmountsCompareAsTheirBaseUnitsDo(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.StringMatching(`(0|[1-9][0-9]{0,20})\.[0-9]{0,17}[1-9]`)
		a, b := domain.Amount(amount.Draw(t, "a")), domain.Amount(amount.Draw(t, "b"))
		x, err := a.Base(18)
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.Base(18)
		if err != nil {
			t.Fatal(err)
		}
		if a.Cmp(b) != x.Cmp(y) {
			t.Fatalf("%s against %s is %d, in base units %d", a, b, a.Cmp(b), x.Cmp(y))
		}
	})
}

func TestAWhenResolves(t *testing.T) {
	t.Parallel()

	second := noon.Truncate(time.Second)
	for _, tt := range []struct {
		json string
		want time.Time // zero where it is refused
	}{
		{`1785240000`, time.Unix(1785240000, 0).UTC()},
		{`"1785240000"`, time.Unix(1785240000, 0).UTC()},
		{`0`, time.Unix(0, 0).UTC()},
		{`"2026-07-28T14:00:00+02:00"`, second},
		{`"2026-07-28T12:00:00.9Z"`, second},
		{`"72h"`, second.Add(72 * hour)},
		{`"3d"`, second.Add(72 * hour)},
		{`"1d12h30m15s"`, second.Add(36*hour + 30*time.Minute + 15*time.Second)},
		{`"0s"`, second},
		{`""`, time.Time{}},
		{`null`, time.Time{}},
		{`"tomorrow"`, time.Time{}},
		{`"` + strings.Repeat("far away ", 9) + `"`, time.Time{}},
		{`"3 d"`, time.Time{}},
		{`"3w"`, time.Time{}},
		{`"-3d"`, time.Time{}},
		{`-1`, time.Time{}},
		{`1.5`, time.Time{}},
		{`1e9`, time.Time{}},
		{`999999999999`, time.Time{}},
		{`9999999999999`, time.Time{}},
		{`"0001-01-01T00:00:00Z"`, time.Time{}},
		{`"36501d"`, time.Time{}},
		{`"999999999d999999999d"`, time.Time{}},
		{`"2026-07-28"`, time.Time{}},
	} {
		var w domain.When
		if err := json.Unmarshal([]byte(tt.json), &w); err != nil {
			t.Errorf("%s: %v", tt.json, err)
			continue
		}
		got, err := w.Resolve(noon)
		if (err != nil) != tt.want.IsZero() || !got.Equal(tt.want) {
			t.Errorf("%s is %v, %v; want %v", tt.json, got, err, tt.want)
		}
	}
}

func TestAWhenIsANumberOrAString(t *testing.T) {
	t.Parallel()

	for _, bad := range []string{`true`, `{}`, `["3d"]`} {
		if err := json.Unmarshal([]byte(bad), new(domain.When)); err == nil {
			t.Errorf("%s was taken for a time", bad)
		}
	}
	for w, want := range map[domain.When]string{"3d": `"3d"`, "1785240000": `1785240000`} {
		if got, err := json.Marshal(w); err != nil || string(got) != want {
			t.Errorf("%q is written %s, %v; want %s", string(w), got, err, want)
		}
	}
}

func TestAQuoteNamesItsRequest(t *testing.T) {
	t.Parallel()

	for id, want := range map[domain.QuoteID]domain.RequestID{
		quoteID(bob): requestID,
		"":           "",
		"qt_short":   "",
		domain.QuoteID("rq_" + strings.Repeat("a", 40)): "",
		domain.QuoteID("qt_" + strings.Repeat("A", 40)): "",
		domain.QuoteID("qt_" + strings.Repeat("a", 41)): "",
		domain.QuoteID("qt_" + strings.Repeat("a", 40)): domain.RequestID("rq_" + strings.Repeat("a", 20)),
	} {
		if got := id.Request(); got != want {
			t.Errorf("%q belongs to %q, want %q", id, got, want)
		}
	}
	if n := len(quoteID(bob)); n > 64 {
		t.Errorf("a quote id has %d characters, more than 64", n)
	}
}

// FuzzWhen looks for text that makes Resolve panic or leave its bounds.
func FuzzWhen(f *testing.F) {
	for _, s := range []string{"3d", "1785240000", "2026-07-28T12:00:00Z", "999999999d", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := domain.When(s).Resolve(noon)
		if err == nil && (at.Year() < 1970 || at.Year() > 9999 || at.Nanosecond() != 0) {
			t.Fatalf("%q is %v", s, at)
		}
	})
}
