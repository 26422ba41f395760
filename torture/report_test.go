package torture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The variables that steer a run.
const (
	seedEnv   = "SIDEQUEST_SEED" // a number that repeats the choices of a run
	budgetEnv = "TORTURE"        // how long a long run lasts, such as 10m
	onlyEnv   = "TORTURE_ONLY"   // part of the names of the faults that are wanted, to look into one
)

// budget is how long the run lasts, 0 for the short form.
func budget() time.Duration {
	d, err := time.ParseDuration(os.Getenv(budgetEnv))
	if err != nil {
		return 0
	}
	return d
}

// outcomes is what the faults of this run came to.
type outcomes struct {
	seed uint64
	rows []*outcome
}

// An outcome is what one fault came to.
type outcome struct {
	fault fault
	runs  int
	wrong int // runs after which something did not fit
}

func (o *outcomes) of(ft fault) *outcome {
	for _, row := range o.rows {
		if row.fault.name == ft.name {
			return row
		}
	}
	row := &outcome{fault: ft}
	o.rows = append(o.rows, row)
	return row
}

// A measurement compares a figure of ours with what it is held against.
type measurement struct {
	Name    string  `json:"name"`
	Ours    float64 `json:"ours"`
	Against float64 `json:"against"`
	Ratio   float64 `json:"ratio"`
	Goal    string  `json:"goal"`
	Pass    bool    `json:"pass"`
}

// measurements of this run: the worst of each name.
var measurements = struct {
	sync.Mutex

	rows []measurement
}{}

// recordRatio notes a figure that may be so many times another one.
func recordRatio(name string, ours, against, most float64) {
	m := measurement{Name: name, Ours: ours, Against: against, Goal: fmt.Sprintf("ratio <= %g", most)}
	if against > 0 {
		m.Ratio = ours / against
	}
	m.Pass = m.Ratio <= most
	record(m)
}

// recordLimit notes a figure that has a limit.
func recordLimit(name string, ours, limit float64) {
	record(measurement{name, ours, limit, ours / limit, "ratio <= 1", ours <= limit})
}

func record(m measurement) {
	measurements.Lock()
	defer measurements.Unlock()
	for i, before := range measurements.rows {
		if before.Name == m.Name {
			if m.Ratio > before.Ratio {
				measurements.rows[i] = m
			}
			return
		}
	}
	measurements.rows = append(measurements.rows, m)
}

// publish writes the results of a long run: rows for the bench, and the document.
func (o *outcomes) publish(t *testing.T) {
	t.Helper()
	measurements.Lock()
	defer measurements.Unlock()
	slices.SortFunc(o.rows, func(a, b *outcome) int { return cmp.Compare(a.fault.name, b.fault.name) })
	slices.SortFunc(measurements.rows, func(a, b measurement) int { return cmp.Compare(a.Name, b.Name) })
	var rows []measurement
	for _, row := range o.rows {
		rows = append(rows, measurement{
			Name: "runs in which something was lost, doubled or out of order: " + row.fault.name,
			Ours: float64(row.wrong), Goal: "0", Pass: row.wrong == 0,
		})
	}
	rows = append(rows, measurements.rows...)
	raw, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{
		"../bench/out/torture.json": append(raw, '\n'),
		"../docs/reliability.md":    []byte(o.document(measurements.rows)),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const preface = `# Reliability

This page is made by ` + "`make torture`" + `: it lets agents strike deals over several copies of the program, as real processes
built with the race detector, makes something fail under them, lets them go on, and then checks the whole history. What
must hold after **every** fault:

- each operation that was answered is on record once, with the answer that was given; a repeat is answered the same;
- no operation half exists: receipts and events name each other, and an operation's events stand side by side;
- positions have no gaps, versions of each stream none, hashes and seals verify;
- two tails that read the log while it was written saw exactly the log, in order;
- each view, built anew, comes out byte for byte as it was;
- the copy in JetStream is the log, without a hole or a double;
- each listener, over all its lost streams, heard exactly the feed;
- no agent that read after its own write, on whatever copy, missed it.

`

func (o *outcomes) document(measured []measurement) string {
	var b strings.Builder
	b.WriteString(preface)
	fmt.Fprintf(&b, "The last run had the seed %d (`%s=%d make torture` makes the same choices) and lasted %s.\n\n", o.seed, seedEnv, o.seed, budget())
	b.WriteString("| fault | what must hold besides | runs | result |\n|---|---|---|---|\n")
	for _, row := range o.rows {
		result := "held"
		if row.wrong > 0 {
			result = fmt.Sprintf("**failed in %d**", row.wrong)
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s |\n", row.fault.name, row.fault.must, row.runs, result)
	}
	b.WriteString("\n| measured in the same run | worst | held against | goal | |\n|---|---|---|---|---|\n")
	for _, m := range measured {
		verdict := "pass"
		if !m.Pass {
			verdict = "short"
		}
		fmt.Fprintf(&b, "| %s | %.2f | %.2f | %s | %s |\n", m.Name, m.Ours, m.Against, m.Goal, verdict)
	}
	return b.String()
}

// seed returns the seed of the run and says what it is.
func seed(t *testing.T, random uint64) uint64 {
	t.Helper()
	if given := os.Getenv(seedEnv); given != "" {
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedEnv, err)
		}
		random = n
	}
	t.Logf("%s=%d", seedEnv, random)
	return random
}
