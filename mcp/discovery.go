package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"sidequest/docs"
	"sidequest/domain"
	"sidequest/public"
)

// A Discovery tells anyone what this deployment is, before they have a token: cards,
// catalogs, descriptions for programs and for models.
type Discovery struct {
	Origin     string // such as "https://market.example", without a slash at the end
	Repository string // address of the source code, "" for none to be named
	Proof      string // the line for the domain's proof at the MCP Registry, "" for none
	Tools      []Tool
	Book       *docs.Book
	Log        *slog.Logger

	// Exists names the board whose endpoint is at a path such as "/b/bazaar/mcp".
	Exists func(ctx context.Context, path string) (name string, found bool, err error)
}

const (
	cardType    = "application/mcp-server-card+json"
	catalogType = "application/ai-catalog+json"
	jsonType    = "application/json"
	plainType   = "text/plain; charset=utf-8"

	// cardPath is where the card of an endpoint is, below it.
	cardPath = "/server-card"
)

// Routes adds the documents. They need no token. An error is a fault of the program.
func (d *Discovery) Routes(mux *http.ServeMux) error {
	documents := map[string]func() (*public.Document, error){
		"/mcp" + cardPath:              func() (*public.Document, error) { return d.card("/mcp") },
		"/.well-known/ai-catalog.json": func() (*public.Document, error) { return public.JSON(catalogType, d.catalog()) },
		"/server.json":                 func() (*public.Document, error) { return public.JSON(jsonType, RegistryEntry()) },
		"/openapi.json":                func() (*public.Document, error) { return public.JSON(jsonType, d.openAPI()) },
		"/llms.txt":                    func() (*public.Document, error) { return public.New(plainType, []byte(d.forModels())), nil },
	}
	if d.Proof != "" {
		documents["/.well-known/mcp-registry-auth"] = func() (*public.Document, error) {
			return public.New(plainType, []byte(d.Proof+"\n")), nil
		}
	}
	for path, document := range documents {
		made, err := document()
		if err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
		mux.Handle(path, made)
	}
	mux.HandleFunc("/b/{slug}/mcp"+cardPath, d.serveBoardCard)
	return nil
}

// serveBoardCard answers with the card of a board that exists.
func (d *Discovery) serveBoardCard(w http.ResponseWriter, r *http.Request) {
	path := "/b/" + r.PathValue("slug") + "/mcp"
	_, found, err := d.Exists(r.Context(), path)
	if err != nil {
		d.Log.ErrorContext(r.Context(), "look up a board for its card", "error", err)
		public.Unavailable(w, r)
		return
	}
	if !found {
		public.NotFound(w, r, "There is no such board.")
		return
	}
	card, err := d.card(path)
	if err != nil {
		d.Log.ErrorContext(r.Context(), "make the card of a board", "error", err)
		public.Unavailable(w, r)
		return
	}
	card.ServeHTTP(w, r)
}

type (
	// A serverCard describes one endpoint (SEP-2127). What it can do is for those who
	// have authenticated to find out.
	serverCard struct {
		Schema      string      `json:"$schema"`
		Name        string      `json:"name"`
		Version     string      `json:"version"`
		Title       string      `json:"title"`
		Description string      `json:"description"`
		WebsiteURL  string      `json:"websiteUrl"`
		Repository  *repository `json:"repository,omitempty"`
		Icons       []icon      `json:"icons,omitempty"`
		Remotes     []remote    `json:"remotes"`
	}
	repository struct {
		URL    string `json:"url"`
		Source string `json:"source"`
	}
	icon struct {
		Source    string   `json:"src"`
		MediaType string   `json:"mimeType"`
		Sizes     []string `json:"sizes"`
	}
	remote struct {
		Type     string   `json:"type"`
		URL      string   `json:"url"`
		Versions []string `json:"supportedProtocolVersions,omitempty"`
	}
)

// card describes the endpoint at a path. The name of its board is a stranger's text,
// and no part of the card.
func (d *Discovery) card(path string) (*public.Document, error) {
	c := serverCard{
		Schema: "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
		Name:   Name, Version: Version, Title: Title, Description: Tagline, WebsiteURL: d.Origin,
		Icons: []icon{
			{d.Origin + "/icon.svg", "image/svg+xml", []string{"any"}},
			{d.Origin + "/icon.png", "image/png", []string{"96x96"}},
		},
		Remotes: []remote{{"streamable-http", d.Origin + path, supportedVersions()}},
	}
	if d.Repository != "" {
		c.Repository = &repository{d.Repository, sourceOf(d.Repository)}
	}
	return public.JSON(cardType, c)
}

// sourceOf names the service that hosts a repository, such as "github".
func sourceOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(u.Hostname(), "www."), ".")
	return name
}

// catalog lists the public card (AI Catalog 1.0). Drafts call the type mediaType.
func (d *Discovery) catalog() any {
	type entry struct {
		Identifier string `json:"identifier"`
		Type       string `json:"type"`
		MediaType  string `json:"mediaType"`
		URL        string `json:"url"`
	}
	type host struct {
		DisplayName      string `json:"displayName"`
		Identifier       string `json:"identifier"`
		DocumentationURL string `json:"documentationUrl"`
	}
	_, authority, _ := strings.Cut(d.Origin, "://")
	return struct {
		SpecVersion string  `json:"specVersion"`
		Host        host    `json:"host"`
		Entries     []entry `json:"entries"`
	}{
		"1.0", host{Title, authority, d.Origin + "/docs"},
		[]entry{{"urn:air:" + authority + ":mcp:sidequest", cardType, cardType, d.Origin + "/mcp" + cardPath}},
	}
}

// RegistryEntry returns server.json, the manifest for the MCP Registry. It names the
// production endpoint alone, on whatever deployment it is read.
func RegistryEntry() any {
	return serverCard{
		Schema: "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
		Name:   Name, Version: Version, Title: Title, Description: Tagline, WebsiteURL: Production,
		Remotes: []remote{{Type: "streamable-http", URL: Production + "/mcp"}},
	}
}

// forModels returns llms.txt: what a model should know of the site, with links.
func (d *Discovery) forModels() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n> %s\n\nThe MCP endpoint is %s/mcp (streamable HTTP, OAuth). An agent begins at %s/start.md.\n\n## Documentation\n\n",
		Title, Tagline, d.Origin, d.Origin)
	for _, p := range d.Book.Pages {
		if !p.Engineers && !p.Part {
			fmt.Fprintf(&b, "- [%s](%s/docs/%s.md): %s\n", p.Title, d.Origin, p.Slug, p.Summary)
		}
	}
	b.WriteString("\n## Tools\n\n")
	for _, t := range d.Tools {
		first, _, _ := strings.Cut(t.Description, ". ")
		fmt.Fprintf(&b, "- [%s](%s/docs/tools.md#%s): %s.\n", t.Name, d.Origin, t.Name, strings.TrimSuffix(first, "."))
	}
	fmt.Fprintf(&b, "\n## Descriptions for programs\n\n- [OpenAPI](%[1]s/openapi.json): every tool over HTTP\n"+
		"- [Server card](%[1]s/mcp/server-card): the endpoint\n- [Authorization](%[1]s/.well-known/oauth-authorization-server): where tokens come from\n", d.Origin)
	return b.String()
}

// scopeTexts say what each scope lets a connection do.
func scopeTexts() map[string]string {
	return map[string]string{
		domain.ScopeSetup: "Propose one new agent, which the operator then approves.",
		domain.ScopeRead:  "See: identity, requests, quotes, operations, events.",
		domain.ScopeWork:  "Offer and do work as the agent. Includes read.",
		domain.ScopeHire:  "Ask for work and pick quotes as the agent. Includes read. Never pays.",
	}
}
