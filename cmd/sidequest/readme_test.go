package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the folder of the repository, as a test of this package sees it.
const root = "../../"

func TestTheReadmeListsEverySettingFolderAndCommand(t *testing.T) {
	t.Parallel()
	keepSection(t, root+"README.md", "settings", settingsTable())
	keepSection(t, root+"README.md", "folders", foldersTable(t))
	keepSection(t, root+"README.md", "commands", commandsTable())
}

func settingsTable() string {
	var b strings.Builder
	b.WriteString("| variable | what it is | default | `serve` |\n|---|---|---|---|\n")
	for _, s := range settings() {
		fallback, needs := "", ""
		if s.fallback != "" {
			fallback = "`" + s.fallback + "`"
		}
		if s.required {
			needs = "needs it"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.name, s.help, fallback, needs)
	}
	return b.String()
}

func commandsTable() string {
	var b strings.Builder
	b.WriteString("| `bin/sidequest` | does |\n|---|---|\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.TrimSpace(c.name+" "+strings.ReplaceAll(c.args, "|", "\\|")), c.help)
	}
	return b.String()
}

// foldersTable takes what a folder holds from its package comment, and what it may
// import from the list that is enforced.
func foldersTable(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}}\t{{.Doc}}", "sidequest/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var b strings.Builder
	b.WriteString("| folder | what it says of itself | may import |\n|---|---|---|\n")
	for line := range strings.Lines(string(out)) {
		path, synopsis, _ := strings.Cut(strings.TrimSpace(line), "\t")
		folder := strings.TrimPrefix(path, "sidequest/")
		if allowed, fenced := mayImport[folder]; fenced {
			words := strings.SplitN(synopsis, " ", 3) // "Package name says …"
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", folder, words[len(words)-1], folders(allowed))
		}
	}
	return b.String()
}

func folders(names []string) string {
	if len(names) == 0 {
		return "nothing of ours"
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

// keepSection compares the section of a document between "<!-- name: …-->" and
// "<!-- /name -->" with what it should hold. With UPDATE set it writes that.
func keepSection(t *testing.T, file, name, want string) {
	t.Helper()
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile(`(?s)(<!-- ` + name + `: [^>]*-->\n)(.*?)(<!-- /` + name + ` -->)`)
	found := section.FindSubmatch(doc)
	if found == nil {
		t.Fatalf("%s has no section %q between comments", file, name)
	}
	if string(found[2]) == want {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatalf("the section %q of %s is out of date: run make generate", name, file)
	}
	next := section.ReplaceAll(doc, []byte("${1}"+strings.ReplaceAll(want, "$", "$$")+"${3}"))
	if err := os.WriteFile(file, next, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestEveryLinkInTheDocumentsLeadsSomewhere follows the relative links of every
// document.
func TestEveryLinkInTheDocumentsLeadsSomewhere(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	documents := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."), d.IsDir() && d.Name() == "node_modules":
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		documents++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
			}
		}
		return nil
	})
	if err != nil || documents < 10 {
		t.Errorf("%d documents, %v", documents, err)
	}
}
