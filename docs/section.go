package docs

import (
	"strconv"
	"strings"
	"unicode"
)

// A Section is what stands below one heading of a page, up to the next.
type Section struct {
	Title  string // of the page, before its first heading
	Anchor string // the heading's id in the drawn page; "" before the first
	Text   string // Markdown, without the heading

	level int // 1 to 3; deeper headings belong to the section above them
}

// Sections takes the page apart, in order.
func (p Page) Sections() []Section {
	var ids Anchors
	all := []Section{{Title: p.Title, level: 1}}
	fenced := false
	var text strings.Builder
	flush := func() {
		all[len(all)-1].Text = strings.TrimSpace(text.String())
		text.Reset()
	}
	for line := range strings.Lines(p.text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		level, title := heading(line)
		if fenced || level == 0 {
			text.WriteString(line)
			continue
		}
		anchor := ids.Next(title)
		if level == 1 {
			continue // the title of the page
		}
		flush()
		all = append(all, Section{Title: title, Anchor: anchor, level: level})
	}
	flush()
	return all
}

// heading returns the level and text of a heading of the levels 1 to 3, or 0.
func heading(line string) (level int, title string) {
	marks, title, found := strings.Cut(strings.TrimSpace(line), " ")
	if !found || len(marks) > 3 || strings.Trim(marks, "#") != "" || marks == "" {
		return 0, ""
	}
	return len(marks), title
}

// Second says whether the section's heading is of the second level, below which
// others may stand.
func (s Section) Second() bool { return s.level == 2 }

// firstSentence of the section's first paragraph.
func (s Section) firstSentence() string {
	paragraph, _, _ := strings.Cut(s.Text, "\n\n")
	sentence, _, found := strings.Cut(strings.Join(strings.Fields(paragraph), " "), ". ")
	if found {
		sentence += "."
	}
	return sentence
}

// Anchors names headings: in lower case, with hyphens for spaces and without
// punctuation, numbered where a name comes again. The zero value is for a new page.
type Anchors struct{ seen map[string]int }

// Next returns the id of the page's next heading, which is given as Markdown.
func (a *Anchors) Next(heading string) string {
	id := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, heading)
	if a.seen == nil {
		a.seen = map[string]int{}
	}
	n := a.seen[id]
	a.seen[id]++
	if n > 0 {
		id += "-" + strconv.Itoa(n)
	}
	return id
}
