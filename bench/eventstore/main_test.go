package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidequest/bench/rounds"
)

// The figures of so short a run mean nothing. That each part comes to its end, and
// that nothing was lost on the way, does.
func TestEveryPartOfTheBenchmarkStillRuns(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	p := plan{rounds: 1, span: 50 * time.Millisecond, events: 5000, out: out, short: true}
	var said strings.Builder
	if err := run(t.Context(), p, &said); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join(out, "eventstore.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []rounds.Row
	if err := json.Unmarshal(doc, &rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"append @1 against raw insert", "append @128 against raw insert", "answer to consumer at 1500/s, p50"} {
		if !strings.Contains(said.String(), want) || !strings.Contains(string(doc), want) {
			t.Errorf("no row %q", want)
		}
	}
	for _, r := range rows {
		if strings.HasPrefix(r.Name, "lost") && !r.Pass {
			t.Errorf("%s: %v", r.Name, r.Ours)
		}
	}
	if pictures, _ := filepath.Glob(filepath.Join(out, "*.svg")); len(pictures) != 4 {
		t.Errorf("%d pictures, want 4", len(pictures))
	}
}
