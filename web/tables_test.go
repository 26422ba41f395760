package web

import (
	"strings"
	"testing"
)

func TestCellsOfATableKnowTheirColumnAndTheTableCanBeScrolled(t *testing.T) {
	t.Parallel()
	html, err := toHTML("| code | | in `short` |\n|---|---|---|\n| a | b | \"c\" <d> |\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`tabindex="0"><table role="table">`, `</table></div>`, `<th role="columnheader">code</th>`, `<td></td>`,
		`<tr role="row">`, `<td data-column="code" role="cell">a</td>`, `<td role="cell">b</td>`, `<td data-column="in short" role="cell">`,
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the table lacks %s:\n%s", want, html)
		}
	}
	if opened, closed := strings.Count(string(html), "<div"), strings.Count(string(html), "</div"); opened != closed {
		t.Errorf("%d parts are opened and %d closed:\n%s", opened, closed, html)
	}
}
