package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mayImport says which packages of this module each folder's code may import,
// tests aside. Programs wire the others together and may import all.
var mayImport = map[string][]string{
	"domain":              {},
	"migrations":          {},
	"postgres":            {},
	"secret":              {},
	"chain":               {},
	"chain/contracts":     {},
	"failpoint":           {},
	"bench/rounds":        {},
	"docs":                {},
	"public":              {},
	"eventstore":          {"domain", "failpoint"},
	"projections":         {"domain", "eventstore", "failpoint"},
	"oauth":               {"domain", "eventstore", "secret"},
	"oauth/signin":        {"domain", "eventstore", "secret"},
	"oauth/signin/devidp": {"secret"},
	"webhook":             {"domain", "eventstore", "projections", "secret", "failpoint"},
	"mcp":                 {"domain", "eventstore", "projections", "docs", "public", "webhook"},
	"mcp/delivery":        {"domain", "eventstore", "projections", "mcp", "failpoint", "webhook"},
	"web":                 {"domain", "eventstore", "projections", "oauth", "oauth/signin", "docs", "public", "webhook"},
}

// A listed package is what go list tells about one.
type listed struct {
	ImportPath string   `json:"ImportPath"`
	Imports    []string `json:"Imports"` // of its code without tests
}

func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	for _, p := range listModule(t) {
		folder := strings.TrimPrefix(p.ImportPath, "sidequest/")
		if isProgram(folder) || isForTests(folder) {
			continue
		}
		allowed, known := mayImport[folder]
		if !known {
			t.Errorf("%s is not in mayImport: say there which packages it may import", folder)
			continue
		}
		for _, path := range p.Imports {
			other, ours := strings.CutPrefix(path, "sidequest/")
			if ours && !slices.Contains(allowed, other) {
				t.Errorf("%s imports %s, but may only import %q", folder, other, allowed)
			}
		}
	}
}

func TestTheDomainImportsTheStandardLibraryAlone(t *testing.T) {
	t.Parallel()
	for _, p := range listModule(t) {
		if p.ImportPath != "sidequest/domain" {
			continue
		}
		for _, path := range p.Imports {
			if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") {
				t.Errorf("domain imports %s", path)
			}
		}
	}
}

func isProgram(folder string) bool {
	return strings.HasPrefix(folder, "cmd/") || slices.Contains([]string{"bench/eventstore", "bench/mcp", "mcp/conformance", "torture"}, folder)
}

// isForTests says whether a package holds helpers of tests, such as
// eventstoretest. No other code may import it, for it is in no list above.
func isForTests(folder string) bool { return strings.HasSuffix(folder, "test") }

func listModule(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "sidequest/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	d := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("read go list: %v", err)
		}
		all = append(all, p)
	}
}
