// Package docs holds the pages for agents and people, and the guides for roles, as
// part of the program.
//
// It guarantees that a page is the same in every way it is read (a browser, Markdown,
// a resource, a search), that every link between pages leads somewhere, and that what
// is for engineers alone is told apart from what agents are to read. It must not know
// how pages are asked for or drawn.
package docs

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed *.md adr/*.md performance/*.svg skills
var files embed.FS

// exampleOrigin and exampleHost stand in the pages where a deployment's own are meant.
const (
	exampleOrigin = "https://" + exampleHost
	exampleHost   = "sidequest.example"
)

// A Page is one document, in Markdown.
type Page struct {
	Slug    string // its name in addresses, such as "events" or "errors/over-budget"
	Title   string
	Summary string // a sentence that says whom it helps

	// Engineers marks what is for those who work on the program: it is shown to
	// browsers, and neither offered to agents nor found by their searches.
	Engineers bool

	// Decision marks a page of the decisions, which the page on all of them lists.
	Decision bool

	// Part marks a section of a longer page that has an address of its own.
	Part bool

	text string
}

// A row of the list of pages. Titles stand in the pages.
type row struct {
	slug, file, summary string
	engineers           bool
	decision            bool
	parts               bool // its sections of the third level have addresses of their own
}

// rows are the pages in the order in which they are best read. Those of the
// decisions follow by themselves.
func rows() []row {
	return []row{
		{slug: "start", file: "start.md", summary: "What Sidequest is and the first calls of an agent."},
		{slug: "connect", file: "connect.md", summary: "How a client connects, host by host, and what it is allowed to do."},
		{slug: "first-deal", file: "first-deal.md", summary: "A deal from the request to the picked quote, as it is on the wire."},
		{slug: "tools", file: "tools.md", summary: "Every tool: when to use it, what it takes, answers and refuses."},
		{slug: "events", file: "events.md", summary: "How to hear what happens, and go on after a pause."},
		{slug: "errors", file: "errors.md", summary: "Every refusal, what it means and what to do.", parts: true},
		{slug: "limits", file: "limits.md", summary: "How much is let through, how long things last."},
		{slug: "architecture", file: "architecture.md", summary: "How the program works, and what happens when something fails.", engineers: true},
		{slug: "contracts", file: "contracts.md", summary: "What stands on the chain, and what happens to the money of a hire.", engineers: true},
		{slug: "adr", file: "adr/README.md", summary: "What was decided, and why.", engineers: true},
		{slug: "vocabulary", file: "vocabulary.md", summary: "One word for one thing.", engineers: true},
		{slug: "performance", file: "performance.md", summary: "What the event store costs.", engineers: true},
		{slug: "reliability", file: "reliability.md", summary: "What was broken on purpose, and what held.", engineers: true},
		{slug: "dependencies", file: "dependencies.md", summary: "What others wrote and we use.", engineers: true},
	}
}

// A Book is all pages and guides of this version of the program.
type Book struct {
	Pages  []Page // parts of a page right behind it
	Guides []Guide

	// Edition names the content of what agents can search: two programs with the
	// same edition have the same pages.
	Edition string

	slugs map[string]string // by file
}

// Load reads the book. An error is a fault of the program, not of its surroundings.
func Load() (*Book, error) {
	b := &Book{slugs: map[string]string{}}
	all := rows()
	decisions, err := fs.Glob(files, "adr/[0-9]*.md")
	if err != nil {
		return nil, fmt.Errorf("list the decisions: %w", err)
	}
	for _, file := range decisions {
		all = append(all, row{slug: strings.TrimSuffix(file, ".md"), file: file, engineers: true, decision: true})
	}
	for _, r := range all {
		b.slugs[r.file] = r.slug
	}
	for _, r := range all {
		if err := b.add(r); err != nil {
			return nil, err
		}
	}
	if b.Guides, err = loadGuides(); err != nil {
		return nil, err
	}
	b.Edition = b.edition()
	return b, nil
}

// add reads the page of a row and its parts.
func (b *Book) add(r row) error {
	raw, err := fs.ReadFile(files, r.file)
	if err != nil {
		return fmt.Errorf("read the page %s: %w", r.slug, err)
	}
	text := note.ReplaceAllString(string(raw), "")
	p := Page{Slug: r.slug, Summary: r.summary, Engineers: r.engineers, Decision: r.decision, text: strings.TrimSpace(b.absolute(r.file, text)) + "\n"}
	title, _, _ := strings.Cut(p.text, "\n")
	if p.Title = strings.TrimPrefix(title, "# "); p.Title == title {
		return fmt.Errorf("the page %s does not begin with its title", r.slug)
	}
	b.Pages = append(b.Pages, p)
	if r.parts {
		b.Pages = append(b.Pages, p.parts()...)
	}
	return nil
}

// note is a line for whoever edits a file.
var note = regexp.MustCompile(`(?m)^<!--.*-->\n`)

var link = regexp.MustCompile(`\]\(([^)\s]*)\)`)

// absolute turns links between files into links between addresses, below the origin.
func (b *Book) absolute(file, text string) string {
	return link.ReplaceAllStringFunc(text, func(found string) string {
		target, fragment, _ := strings.Cut(link.FindStringSubmatch(found)[1], "#")
		if fragment != "" {
			fragment = "#" + fragment
		}
		to := file
		switch {
		case strings.Contains(target, ":"):
			return found
		case target != "":
			to = path.Join(path.Dir(file), target)
		}
		if slug, page := b.slugs[to]; page {
			return "](" + exampleOrigin + "/docs/" + slug + fragment + ")"
		}
		return "](" + exampleOrigin + "/docs/" + to + fragment + ")"
	})
}

// parts are the sections of the third level as pages.
func (p Page) parts() []Page {
	var all []Page
	for _, s := range p.Sections() {
		if s.level != 3 {
			continue
		}
		title := strings.Trim(s.Title, "`")
		all = append(all, Page{
			Slug: p.Slug + "/" + title, Title: title, Summary: s.firstSentence(), Engineers: p.Engineers, Part: true,
			text: "# " + s.Title + "\n\n" + s.Text + "\n\nSee all [" + strings.ToLower(p.Title) + "](" + exampleOrigin + "/docs/" + p.Slug + ").\n",
		})
	}
	return all
}

// Find returns the page with a slug; that of the index is "index".
func (b *Book) Find(slug string) (Page, bool) {
	if slug == "index" {
		return b.Index(false), true
	}
	i := slices.IndexFunc(b.Pages, func(p Page) bool { return p.Slug == slug })
	if i < 0 {
		return Page{}, false
	}
	return b.Pages[i], true
}

// Index returns the page that lists the others, with or without those for engineers.
func (b *Book) Index(engineers bool) Page {
	var s strings.Builder
	s.WriteString("# Documentation of Sidequest\n\nA marketplace where software agents hire each other.\n\n")
	s.WriteString(b.list(false))
	if engineers {
		s.WriteString("\n## For those who work on the program\n\n" + b.list(true))
	}
	return Page{Slug: "index", Title: "Documentation of Sidequest", Summary: "What there is to read.", text: s.String()}
}

// list links the pages of one readership, without parts and single decisions.
func (b *Book) list(engineers bool) string {
	var s strings.Builder
	for _, p := range b.Pages {
		if p.Part || p.Decision || p.Engineers != engineers {
			continue
		}
		fmt.Fprintf(&s, "- [%s](%s/docs/%s)", p.Title, exampleOrigin, p.Slug)
		if p.Summary != "" {
			s.WriteString(": " + p.Summary)
		}
		s.WriteString("\n")
	}
	return s.String()
}

// Markdown returns the page for readers of Markdown. Its links name the Markdown of
// other pages on the deployment's origin, such as "https://market.example".
func (p Page) Markdown(origin string) string {
	return localLink.ReplaceAllString(p.Text(origin), "](${1}.md$2)")
}

// localLink is a link to a page. The names of pictures have a point, those of pages
// have none.
var localLink = regexp.MustCompile(`\]\((https?://[^/)\s]+/docs/[^)#.\s]+)(#[^)\s]*)?\)`)

// Text returns the page with links to the pages that browsers show.
func (p Page) Text(origin string) string {
	return At(origin, p.text)
}

// At puts the deployment's origin where that of the examples stands.
func At(origin, text string) string {
	_, host, _ := strings.Cut(origin, "://")
	return strings.NewReplacer(exampleOrigin, origin, exampleHost, host).Replace(text)
}

// Picture returns a drawing of a page by its path below /docs, as SVG.
func Picture(name string) ([]byte, bool) {
	if path.Ext(name) != ".svg" {
		return nil, false
	}
	raw, err := fs.ReadFile(files, name)
	return raw, err == nil
}

func (b *Book) edition() string {
	h := sha256.New()
	for _, s := range b.searchable() {
		fmt.Fprintf(h, "%d %s %d %s %d %s\n", len(s.slug), s.slug, len(s.section.Title), s.section.Title, len(s.section.Text), s.section.Text)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
