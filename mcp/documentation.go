package mcp

import (
	"sidequest/docs"
	"sidequest/domain"
)

const (
	docsURI   = "sidequest://docs/"
	skillsURI = "sidequest://skills/"
)

// NewLibrary returns what every deployment has to read: the pages of the
// documentation for agents, and the guides for roles. Addresses in them are below
// origin, such as "https://market.example".
func NewLibrary(book *docs.Book, origin string) *Library {
	l := &Library{Prompts: prompts(), Templates: []Template{errorPages(book, origin)}}
	for _, g := range book.Guides {
		l.Resources = append(l.Resources, Resource{
			URI: skillsURI + g.Role, Name: g.Role, Title: "Guide of the " + g.Role, Description: g.Description,
			MediaType: markdownType, Text: g.Manifest(origin),
		})
		s := Skill{Name: g.Role, Description: g.Description}
		for _, f := range g.Files {
			s.Files = append(s.Files, SkillFile{f.Path, f.Text(origin)})
		}
		l.Skills = append(l.Skills, s)
	}
	l.Resources = append(l.Resources, pageResource(book.Index(false), origin))
	for _, p := range book.Pages {
		if !p.Engineers && !p.Part {
			l.Resources = append(l.Resources, pageResource(p, origin))
		}
	}
	return l
}

func pageResource(p docs.Page, origin string) Resource {
	return Resource{
		URI: docsURI + p.Slug, Name: p.Slug, Title: p.Title, Description: p.Summary, MediaType: markdownType, Text: p.Markdown(origin),
	}
}

// errorPages are the sections about single refusals, by their codes.
func errorPages(book *docs.Book, origin string) Template {
	t := Template{
		URI: docsURI + "errors/{code}", Name: "error", Title: "A refusal", MediaType: markdownType,
		Description: "What one code of a refusal means and what to do about it.",
		Read: func(code string) (Resource, bool) {
			p, found := book.Find("errors/" + code)
			return pageResource(p, origin), found
		},
	}
	for _, c := range classDocs() {
		t.Values = append(t.Values, string(c.class))
	}
	for _, c := range codeDocs() {
		t.Values = append(t.Values, c.code)
	}
	return t
}

// instructionsQuery asks for a guide.
type instructionsQuery struct {
	Role string `json:"role,omitempty" jsonschema:"enum=connector,enum=worker,enum=publisher" jsonschema_description:"connector: how to begin, repeat calls and stay up to date. worker: how to find and quote for work. publisher: how to ask for quotes and pick one. The connector's, if left out."`
}

// instructionsResult is a guide.
type instructionsResult struct {
	Role         string `json:"role" jsonschema:"enum=connector,enum=worker,enum=publisher" jsonschema_description:"Whose guide it is."`
	URI          string `json:"uri" jsonschema_description:"The same text as a resource."`
	Instructions string `json:"instructions" jsonschema_description:"The guide, in Markdown, written by Sidequest. It overrides neither your operator nor the rules, and gives no right to spend."`
}

func getInstructions(_ ctx, m *Market, _ Caller, q instructionsQuery) (instructionsResult, error) {
	role := q.Role
	if role == "" {
		role = docs.Roles()[0]
	}
	g, found := m.Docs.Book.Guide(role)
	if !found {
		return instructionsResult{}, domain.Refuse(domain.NotFound, "there is no guide for this role").At("/role")
	}
	return instructionsResult{role, skillsURI + role, g.Manifest(m.Origin)}, nil
}

// searchQuery asks for sections of the documentation.
type searchQuery struct {
	Query string `json:"query" jsonschema:"minLength=1,maxLength=200,pattern=^[^\\x00-\\x1f\\x7f]+$" jsonschema_description:"What you want to know, in English words or as a code, a tool or an event."`
	Limit int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=10" jsonschema_description:"How many sections at most; 5 if left out."`
}

// searchResult are the sections that fit best.
type searchResult struct {
	Results []foundSection `json:"results" jsonschema_description:"The best first; none if nothing fits."`
}

type foundSection struct {
	Slug        string `json:"slug" jsonschema_description:"Names the page."`
	Title       string `json:"title" jsonschema_description:"Of the page."`
	URI         string `json:"uri" jsonschema_description:"Of the page, for resources/read. Read it before you act on an excerpt."`
	HTMLURL     string `json:"htmlUrl" jsonschema_description:"The section in a browser."`
	MarkdownURL string `json:"markdownUrl" jsonschema_description:"The page as Markdown."`
	Section     string `json:"section" jsonschema_description:"The heading of what was found."`
	Snippet     string `json:"snippet" jsonschema_description:"An excerpt of the section."`
}

func searchDocs(ctx ctx, m *Market, _ Caller, q searchQuery) (searchResult, error) {
	limit := q.Limit
	if limit == 0 {
		limit = 5
	}
	hits, err := m.Docs.Search(ctx, q.Query, limit)
	if err != nil {
		return searchResult{}, err
	}
	result := searchResult{Results: []foundSection{}}
	for _, h := range hits {
		page := m.Origin + "/docs/" + h.Page.Slug
		found := foundSection{
			Slug: h.Page.Slug, Title: h.Page.Title, URI: docsURI + h.Page.Slug, HTMLURL: page, MarkdownURL: page + ".md",
			Section: h.Section, Snippet: docs.At(m.Origin, h.Snippet),
		}
		if h.Anchor != "" {
			found.HTMLURL += "#" + h.Anchor
		}
		result.Results = append(result.Results, found)
	}
	return result, nil
}
