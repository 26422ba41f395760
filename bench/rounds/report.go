package rounds

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
)

// A Row compares one figure of ours with what it is measured against.
type Row struct {
	Name    string  `json:"name"`
	Ours    float64 `json:"ours"`
	Against float64 `json:"against"`
	Ratio   float64 `json:"ratio"` // the figure that has the goal
	Goal    float64 `json:"goal"`  // 0 for none
	Most    bool    `json:"most"`  // the goal is an upper bound
	Pass    bool    `json:"pass"`
	Unit    string  `json:"unit"` // of ours and against
}

// AtLeast makes a row whose ratio is to reach the goal.
func AtLeast(name, unit string, ours, against, ratio, goal float64) Row {
	return Row{Name: name, Unit: unit, Ours: ours, Against: against, Ratio: ratio, Goal: goal, Pass: ratio >= goal}
}

// AtMost makes a row whose ratio is not to exceed the goal.
func AtMost(name, unit string, ours, against, ratio, goal float64) Row {
	return Row{Name: name, Unit: unit, Ours: ours, Against: against, Ratio: ratio, Goal: goal, Most: true, Pass: ratio <= goal}
}

// Table writes the rows for people.
func Table(out io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(out, 2, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "what\tours\tagainst\tratio\tgoal\t\t")
	for _, r := range rows {
		goal, verdict := "", ""
		if r.Goal != 0 {
			goal, verdict = "≥ "+number(r.Goal), "short"
			if r.Most {
				goal = "≤ " + number(r.Goal)
			}
			if r.Pass {
				verdict = "pass"
			}
		}
		fmt.Fprintf(w, "%s\t%s %s\t%s %s\t%s\t%s\t%s\t\n", r.Name, number(r.Ours), r.Unit, number(r.Against), r.Unit, number(r.Ratio), goal, verdict)
	}
	return w.Flush()
}

func number(f float64) string {
	switch {
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	default:
		return fmt.Sprintf("%.3g", f)
	}
}

// Save writes the rows for programs.
func Save(path string, rows []Row) error {
	doc, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the figures: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the figures are no secret
		return fmt.Errorf("make the folder of the figures: %w", err)
	}
	return os.WriteFile(path, append(doc, '\n'), 0o644) //nolint:gosec // the same
}
