package main

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidequest/mcp"
)

// A described server is what cards and manifests say of one.
type described struct {
	Schema      string `json:"$schema"`
	Name        string
	Version     string
	Title       string
	Description string
	WebsiteURL  string
	Repository  *struct{ URL, Source string }
	Icons       []struct{ Src, MimeType string }
	Remotes     []struct {
		Type, URL                 string
		SupportedProtocolVersions []string
	}
}

func TestTheServerSaysTheSameOfItselfEverywhere(t *testing.T) {
	t.Parallel()
	m, r := openBooks(t)
	ann := m.join(t, 1, "ann")[0].at(r.origin)
	var modern struct {
		SupportedVersions []string
		Meta              struct {
			Info mcp.Implementation `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
		Instructions string
	}
	if err := ann.ask(t.Context(), "server/discover", map[string]any{}, &modern); err != nil {
		t.Fatal(err)
	}
	ann.version = mcp.V20251125
	var legacy struct {
		ServerInfo   mcp.Implementation
		Instructions string
	}
	if err := ann.ask(t.Context(), "initialize", map[string]any{
		"protocolVersion": mcp.V20251125, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"},
	}, &legacy); err != nil {
		t.Fatal(err)
	}
	card := decode[described](t, ask(t, http.MethodGet, r.origin+"/mcp/server-card"))
	manifest := decode[described](t, ask(t, http.MethodGet, r.origin+"/server.json"))
	want := mcp.Implementation{Name: "exchange.sidequest/sidequest", Title: "Sidequest", Version: "2.0.0"}
	for where, got := range map[string]mcp.Implementation{
		"server/discover": modern.Meta.Info,
		"initialize":      legacy.ServerInfo,
		"the card":        {Name: card.Name, Title: card.Title, Version: card.Version},
		"server.json":     {Name: manifest.Name, Title: manifest.Title, Version: manifest.Version},
	} {
		if got != want {
			t.Errorf("%s says %+v", where, got)
		}
	}
	if modern.Instructions != legacy.Instructions || !strings.Contains(modern.Instructions, m.Issuer+"/start.md") || len(modern.Instructions) > 2048 {
		t.Errorf("the instructions have %d bytes:\n%s", len(modern.Instructions), modern.Instructions)
	}
	if diff := cmp.Diff(modern.SupportedVersions, card.Remotes[0].SupportedProtocolVersions); diff != "" {
		t.Errorf("revisions of discover and of the card:\n%s", diff)
	}
}

func TestACardDescribesOneEndpointAndNotWhatItCanDo(t *testing.T) {
	t.Parallel()
	m, r := openBooks(t)
	for path, endpoint := range map[string]string{"/mcp/server-card": "/mcp", "/b/acme/mcp/server-card": "/b/acme/mcp"} {
		got := ask(t, http.MethodGet, r.origin+path)
		card := decode[described](t, got)
		if len(card.Remotes) != 1 || card.Remotes[0].URL != m.Issuer+endpoint || card.Remotes[0].Type != "streamable-http" {
			t.Errorf("%s names %+v", path, card.Remotes)
		}
		if card.Schema != "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json" || card.WebsiteURL != m.Issuer ||
			card.Repository == nil || card.Repository.Source != "github" || len(card.Description) > 100 || card.Description == "" {
			t.Errorf("%s says %+v", path, card)
		}
		for _, icon := range card.Icons {
			picture := ask(t, http.MethodGet, r.origin+strings.TrimPrefix(icon.Src, m.Issuer))
			if picture.status != http.StatusOK || picture.header.Get("Content-Type") != icon.MimeType {
				t.Errorf("%s shows %s, which is %d %s", path, icon.Src, picture.status, picture.header.Get("Content-Type"))
			}
		}
		for _, secret := range []string{"tools", "capabilities", "whoami", "Acme", "resources", "prompts"} {
			if len(card.Icons) == 0 || strings.Contains(got.body, secret) {
				t.Errorf("%s tells of %s:\n%s", path, secret, got.body)
			}
		}
	}
}

func TestTheCatalogListsThePublicCard(t *testing.T) {
	t.Parallel()
	m, r := openBooks(t)
	catalog := decode[struct {
		SpecVersion string
		Host        struct{ DisplayName, Identifier, DocumentationURL string }
		Entries     []struct{ Identifier, Type, MediaType, URL string }
	}](t, ask(t, http.MethodGet, r.origin+"/.well-known/ai-catalog.json"))
	if catalog.SpecVersion != "1.0" || catalog.Host.DisplayName != mcp.Title || catalog.Host.DocumentationURL != m.Issuer+"/docs" || len(catalog.Entries) != 1 {
		t.Fatalf("the catalog is %+v", catalog)
	}
	entry := catalog.Entries[0]
	card := ask(t, http.MethodGet, r.origin+strings.TrimPrefix(entry.URL, m.Issuer))
	if entry.URL != m.Issuer+"/mcp/server-card" || card.header.Get("Content-Type") != entry.Type || entry.MediaType != entry.Type || !strings.HasPrefix(entry.Identifier, "urn:air:") {
		t.Errorf("its entry is %+v", entry)
	}
}

func TestTheRegistryIsToldOfTheProductionEndpointAlone(t *testing.T) {
	t.Parallel()
	_, r := openBooks(t)
	got := ask(t, http.MethodGet, r.origin+"/server.json")
	manifest := decode[described](t, got)
	if len(manifest.Remotes) != 1 || manifest.Remotes[0].Type != "streamable-http" || manifest.Remotes[0].URL != "https://sidequest.exchange/mcp" {
		t.Errorf("the manifest names %+v", manifest.Remotes)
	}
	if strings.Contains(got.body, "127.0.0.1") || manifest.Schema != "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json" {
		t.Errorf("the manifest of a development deployment is\n%s", got.body)
	}
	if proof := ask(t, http.MethodGet, r.origin+"/.well-known/mcp-registry-auth"); proof.body != registryProof+"\n" {
		t.Errorf("the proof is %q", proof.body)
	}
}

// addresses are where pages, Markdown and texts point to.
var addresses = regexp.MustCompile("(?:href=\"|src=\"|\\]\\()([^\"\\s)]+)|(https?://127\\.0\\.0\\.1:8080/[A-Za-z0-9_./#-]*[A-Za-z0-9_/#-])")

// notRead are addresses that pages name as an example, or that are no documents.
var notRead = regexp.MustCompile(`/(mcp|api/TOOL|b/BOARD/mcp|connections|approve/?|docs/(SLUG|errors/CODE)|authorize|token|register|revoke|b/|consent/?)$`)

func TestEveryAddressThatADocumentNamesLeadsSomewhere(t *testing.T) {
	t.Parallel()
	m, r := openBooks(t)
	anchors, seen := map[string][]string{}, map[string]bool{}
	queue := []string{"/docs", "/docs.md", "/llms.txt", "/start.md", "/mcp/server-card", "/.well-known/ai-catalog.json", "/.well-known/oauth-protected-resource/mcp"}
	named := map[string]string{}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		got := ask(t, http.MethodGet, r.origin+path)
		if got.status/100 != 2 && got.status/100 != 3 {
			t.Errorf("%s, which %s names, answers %d", path, named[path], got.status)
			continue
		}
		anchors[path] = nil
		for _, id := range regexp.MustCompile(`id="([^"]+)"`).FindAllStringSubmatch(got.body, -1) {
			anchors[path] = append(anchors[path], id[1])
		}
		for _, found := range addresses.FindAllStringSubmatch(got.body, -1) {
			to, local := onServer(t, m.Issuer, path, found[1]+found[2])
			if !local || notRead.MatchString(to) {
				continue
			}
			named[to] = path
			to, _, _ = strings.Cut(to, "#")
			named[to] = path
			queue = append(queue, to)
		}
	}
	for to, from := range named {
		path, fragment, found := strings.Cut(to, "#")
		if found && !strings.HasSuffix(path, ".md") && !slices.Contains(anchors[path], fragment) {
			t.Errorf("%s points to %s, and there is no such place", from, to)
		}
	}
	if len(seen) < 60 {
		t.Errorf("%d documents were read", len(seen))
	}
}

// onServer returns what an address is on the server, below its origin.
func onServer(t *testing.T, origin, path, address string) (to string, local bool) {
	t.Helper()
	base, err := url.Parse(origin + path)
	if err != nil {
		t.Fatal(err)
	}
	u, err := base.Parse(address)
	if err != nil {
		t.Errorf("%s names %s: %v", path, address, err)
		return "", false
	}
	to, local = strings.CutPrefix(u.String(), origin)
	return to, local && to != ""
}
