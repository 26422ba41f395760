package rounds

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestContestantsTakeTurnsInAnOrderThatTurnsWithEveryRound(t *testing.T) {
	t.Parallel()
	var order []string
	contestant := func(name string) Contestant {
		return Contestant{Name: name, Turn: func(context.Context, int, time.Duration) (Sample, error) {
			order = append(order, name)
			return Sample{Done: len(order), Elapsed: time.Second}, nil
		}}
	}
	r, err := Run(t.Context(), Plan{Rounds: 3, Writers: 1}, contestant("a"), contestant("b"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "b", "a", "a", "b"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	// The ratios of the rounds are 2/1, 3/4 and 6/5.
	if got := r.Ratio("b", "a", Rate); got != 1.2 {
		t.Errorf("ratio %v, want the median of the rounds' ratios, 1.2", got)
	}
	if got := r.Total("a", Rate); got != 10.0/3 {
		t.Errorf("total %v, want that of all rounds together", got)
	}
}

func TestAWriterWithoutMoreWorkEndsAndAnyOtherErrorIsReported(t *testing.T) {
	t.Parallel()
	left := 5
	spent := Contestant{Name: "spent", Once: func(context.Context, int) error {
		if left--; left < 0 {
			return ErrSpent
		}
		return nil
	}}
	r, err := Run(t.Context(), Plan{Rounds: 1, Span: time.Minute, Writers: 1}, spent)
	if err != nil || r["spent"][0].Done != 5 {
		t.Errorf("%+v, %v, want five pieces of work", r["spent"], err)
	}
	broken := errors.New("broken")
	_, err = Run(t.Context(), Plan{Rounds: 1, Span: time.Minute, Writers: 3}, Contestant{Name: "broken", Once: func(context.Context, int) error { return broken }})
	if !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
}

func TestAPlotIsWellFormedAndLeavesOutWhatIsMissing(t *testing.T) {
	t.Parallel()
	p := Plot{Title: "Title", X: []string{"1", "8"}, Lines: []Line{{"whole", []float64{5, 2000}}, {"half", []float64{0, 30}}}}
	d := xml.NewDecoder(strings.NewReader(p.svg()))
	circles := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "circle" {
			circles++
		}
	}
	if circles != 3 {
		t.Errorf("%d points, want 3", circles)
	}
}
