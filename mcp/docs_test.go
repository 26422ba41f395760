package mcp

import (
	"maps"
	"slices"
	"testing"

	"sidequest/domain"
	"sidequest/public"
)

// The documents are made from the program. UPDATE=1 writes them.
func TestTheDocumentsSayWhatTheProgramDoes(t *testing.T) {
	t.Parallel()
	golden(t, "../docs/tools.md", []byte(ToolsDoc(table())))
	golden(t, "../docs/errors.md", []byte(ErrorsDoc(table())))
}

// The manifest in the repository is what is published to the MCP Registry from there.
func TestTheManifestOfTheRepositoryIsTheOneThatIsServed(t *testing.T) {
	t.Parallel()
	manifest, err := public.JSON(jsonType, RegistryEntry())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "../server.json", manifest.Body())
}

func TestEveryClassAndCodeIsDocumentedOnce(t *testing.T) {
	t.Parallel()
	var classes []domain.Class
	for _, c := range classDocs() {
		classes = append(classes, c.class)
	}
	slices.Sort(classes)
	if want := slices.Sorted(maps.Keys(restStatus)); !slices.Equal(classes, want) {
		t.Errorf("documented are the classes %q, REST answers %q", classes, want)
	}
	if want := slices.Sorted(maps.Keys(meanings)); !slices.Equal(classes, want) {
		t.Errorf("documented are the classes %q, MCP answers %q", classes, want)
	}

	var documented, given []string
	for _, c := range codeDocs() {
		documented = append(documented, c.code)
	}
	for _, tool := range table() {
		given = append(given, tool.Refusals...)
	}
	slices.Sort(given)
	if given = slices.Compact(given); !slices.Equal(documented, given) {
		t.Errorf("documented are the codes %q, the tools give %q", documented, given)
	}
}
