package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/docs"
	"sidequest/eventstore/eventstoretest"
)

const origin = "https://market.test"

func load(t *testing.T) *docs.Book {
	t.Helper()
	b, err := docs.Load()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEveryLinkOfAPageLeadsToAPageAndAHeadingInIt(t *testing.T) {
	t.Parallel()
	b := load(t)
	followed := 0
	for _, p := range append(slices.Clone(b.Pages), b.Index(true)) {
		for _, m := range regexp.MustCompile(`\]\(`+origin+`/docs/([^)#]*)#?([^)]*)\)`).FindAllStringSubmatch(p.Text(origin), -1) {
			followed++
			if _, drawn := docs.Picture(m[1]); drawn {
				continue
			}
			to, found := b.Find(m[1])
			if !found {
				t.Errorf("%s links to %s, which is not there", p.Slug, m[1])
			}
			anchored := slices.ContainsFunc(to.Sections(), func(s docs.Section) bool { return s.Anchor == m[2] })
			if m[2] != "" && !anchored {
				t.Errorf("%s links to the heading %s of %s, which is not there", p.Slug, m[2], m[1])
			}
			if to.Engineers && !p.Engineers && p.Slug != "index" {
				t.Errorf("%s, which agents read, links to %s, which they cannot", p.Slug, m[1])
			}
		}
	}
	if followed < 50 {
		t.Errorf("%d links were followed", followed)
	}
}

func TestMarkdownLinksToMarkdownOnTheOriginOfTheDeployment(t *testing.T) {
	t.Parallel()
	b := load(t)
	start, _ := b.Find("start")
	text := start.Markdown(origin)
	for _, want := range []string{"](https://market.test/docs/connect.md)", "`https://market.test/mcp`"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %s", want)
		}
	}
	if tools, _ := b.Find("tools"); !strings.Contains(tools.Markdown(origin), "](https://market.test/docs/tools.md#whoami)") {
		t.Error("a link within a page is not whole")
	}
	if page, _ := b.Find("performance"); !strings.Contains(page.Markdown(origin), "](https://market.test/docs/performance/append-writers-rate.svg)") {
		t.Error("a picture is taken for a page")
	}
	for _, p := range b.Pages {
		if text := p.Markdown(origin); !p.Engineers && (strings.Contains(text, "sidequest.example") || strings.Contains(text, "<!--")) {
			t.Errorf("%s has an example's origin, or a note for editors", p.Slug)
		}
	}
}

func TestEachRefusalHasAPageOfItsOwn(t *testing.T) {
	t.Parallel()
	b := load(t)
	p, found := b.Find("errors/over-budget")
	if !found || p.Title != "over-budget" || !p.Part || p.Summary != "The quote is above the budget of the request." {
		t.Errorf("the page of over-budget is %+v", p)
	}
	if text := p.Text(origin); !strings.HasPrefix(text, "# `over-budget`\n\nThe quote") || !strings.Contains(text, "/docs/tools#submit_quote)") {
		t.Errorf("it says %s", text)
	}
	for _, slug := range []string{"errors/", "errors/none", "skills", "index.md", "../README"} {
		if _, found := b.Find(slug); found {
			t.Errorf("there is a page %q", slug)
		}
	}
}

func TestTheIndexShowsAgentsWhatIsForThem(t *testing.T) {
	t.Parallel()
	b := load(t)
	agents, all := b.Index(false).Text(origin), b.Index(true).Text(origin)
	for _, p := range b.Pages {
		entry := "](" + origin + "/docs/" + p.Slug + ")"
		if strings.Contains(agents, entry) == (p.Engineers || p.Part) || strings.Contains(all, entry) == (p.Part || p.Decision) {
			t.Errorf("%s is where it does not belong, or is not where it does", p.Slug)
		}
		if decisions, _ := b.Find("adr"); p.Decision && !strings.Contains(decisions.Text(origin), entry) {
			t.Errorf("the page on the decisions lacks %s", p.Slug)
		}
		if p.Summary == "" && !strings.HasPrefix(p.Slug, "adr/") {
			t.Errorf("nothing says what %s is for", p.Slug)
		}
	}
}

func TestHeadingsAreNamedAsReadersOfLinksExpect(t *testing.T) {
	t.Parallel()
	var a docs.Anchors
	for _, c := range [][2]string{
		{"What a repeat would do", "what-a-repeat-would-do"}, {"`check_operation`", "check_operation"},
		{"`events/poll`", "eventspoll"}, {"`-32602`", "-32602"}, {"Codes", "codes"}, {"Codes", "codes-1"}, {"Über", "über"},
	} {
		if got := a.Next(c[0]); got != c[1] {
			t.Errorf("%q is named %q, want %q", c[0], got, c[1])
		}
	}
}

func TestAGuideIsASkillWithItsReferences(t *testing.T) {
	t.Parallel()
	b := load(t)
	for _, role := range docs.Roles() {
		g, found := b.Guide(role)
		if !found || len(g.Description) < 40 || len(g.Files) < 2 {
			t.Errorf("the guide of the %s is %+v", role, g)
		}
		text := g.Manifest(origin)
		if !strings.HasPrefix(text, "---\nname: "+role+"\ndescription: "+g.Description+"\n---\n\n# ") {
			t.Errorf("the guide of the %s begins %.80q", role, text)
		}
		for _, m := range regexp.MustCompile(`\]\(([^):]+)\)`).FindAllStringSubmatch(text, -1) {
			if !slices.ContainsFunc(g.Files, func(f docs.GuideFile) bool { return f.Path == m[1] }) {
				t.Errorf("the guide of the %s links to %s, which is not in its folder", role, m[1])
			}
		}
	}
	if _, found := b.Guide("auditor"); found {
		t.Error("there is a guide for a role that is none")
	}
}

func index(t *testing.T) *docs.Index {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), eventstoretest.NewDB(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &docs.Index{DB: pool, Book: load(t)}
}

func TestASearchFindsTheSectionThatHasTheWords(t *testing.T) {
	t.Parallel()
	x := index(t)
	for query, want := range map[string]string{
		"over-budget":                       "errors#over-budget",
		"replace an earlier quote":          "tools#submit_quote",
		"how do I connect with Claude Code": "connect#hosts",
		"cursor after a lost connection":    "first-deal#a-lost-connection",
		"writes of one agent in a minute":   "limits#",
		"streams displaced by a fifth":      "events#eventsstream",
	} {
		hits, err := x.Search(t.Context(), query, 3)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, h := range hits {
			found = append(found, h.Page.Slug+"#"+h.Anchor)
			if h.Page.Engineers || h.Snippet == "" || h.Section == "" {
				t.Errorf("%q finds %+v", query, h)
			}
		}
		if !slices.Contains(found, want) {
			t.Errorf("%q finds %q, want %s among them", query, found, want)
		}
	}
}

func TestASearchForNothingThatIsThereFindsNothing(t *testing.T) {
	t.Parallel()
	x := index(t)
	for _, query := range []string{"xylophone", "the", "-", "'); DROP TABLE docs.sections; --", "a & | ! <-> :*", strings.Repeat("&", 200)} {
		hits, err := x.Search(t.Context(), query, 10)
		if err != nil || hits == nil {
			t.Errorf("%q: %v, %v", query, hits, err)
		}
		if strings.ContainsAny(query, "x-") && !strings.Contains(query, "DROP") && len(hits) != 0 {
			t.Errorf("%q finds %d sections", query, len(hits))
		}
	}
}

func TestTwoVersionsOfThePagesAreSearchedSideBySideAndOldOnesGo(t *testing.T) {
	t.Parallel()
	x := index(t)
	first := slices.Concat(search(t, x), search(t, x))
	for _, edition := range []string{"b", "c", "d", "e", "f"} {
		later := *x.Book
		later.Edition, later.Pages = edition, later.Pages[:3]
		search(t, &docs.Index{DB: x.DB, Book: &later})
	}
	var editions int
	if err := x.DB.QueryRow(t.Context(), `SELECT count(*) FROM docs.editions`).Scan(&editions); err != nil || editions != 4 {
		t.Errorf("%d editions are kept, %v", editions, err)
	}
	if diff := cmp.Diff(first, slices.Concat(search(t, x), search(t, x))); diff != "" {
		t.Errorf("a version whose edition was dropped finds something else (-before +after):\n%s", diff)
	}
}

// search returns what a search finds, by its addresses.
func search(t *testing.T, x *docs.Index) []string {
	t.Helper()
	hits, err := x.Search(t.Context(), "connect with a token", 5)
	if err != nil || len(hits) == 0 {
		t.Fatalf("%d hits, %v", len(hits), err)
	}
	var all []string
	for _, h := range hits {
		all = append(all, h.Page.Slug+"#"+h.Anchor)
	}
	return all
}

func TestCopiesThatStartAtOnceFillTheIndexOnce(t *testing.T) {
	t.Parallel()
	x := index(t)
	done := make(chan error, 8)
	for range cap(done) {
		go func() { done <- x.Fill(t.Context()) }()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	var twice int
	err := x.DB.QueryRow(t.Context(), `
		SELECT count(*) - count(DISTINCT (slug, section, body))
		FROM docs.sections`).Scan(&twice)
	if err != nil || twice != 0 {
		t.Errorf("%d sections are there twice, %v", twice, err)
	}
}
