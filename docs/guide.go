package docs

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// A Guide tells an agent how to act in one role. It is a skill as hosts know them: a
// folder with a SKILL.md and what belongs to it.
type Guide struct {
	Role        string
	Description string // when to use it
	Files       []GuideFile
}

// A GuideFile is one text of a guide, by its path in the guide's folder.
type GuideFile struct{ Path, text string }

// Roles are those there are guides for, in the order in which an agent needs them.
func Roles() []string { return []string{"connector", "worker", "publisher"} }

// Manifest is the file of a guide that is read first.
const Manifest = "SKILL.md"

// Text returns what the file says, with the deployment's own origin.
func (f GuideFile) Text(origin string) string {
	return At(origin, f.text)
}

// Guide returns the guide for a role.
func (b *Book) Guide(role string) (Guide, bool) {
	for _, g := range b.Guides {
		if g.Role == role {
			return g, true
		}
	}
	return Guide{}, false
}

// Manifest returns the text that is read first.
func (g Guide) Manifest(origin string) string {
	for _, f := range g.Files {
		if f.Path == Manifest {
			return f.Text(origin)
		}
	}
	return ""
}

func loadGuides() ([]Guide, error) {
	var all []Guide
	for _, role := range Roles() {
		g := Guide{Role: role}
		root := path.Join("skills", role)
		err := fs.WalkDir(files, root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			f := GuideFile{Path: strings.TrimPrefix(name, root+"/"), text: string(raw)}
			if f.Path == Manifest {
				g.Description, err = description(role, f.text)
			}
			g.Files = append(g.Files, f)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the guide of the %s: %w", role, err)
		}
		all = append(all, g)
	}
	return all, nil
}

// description reads the front matter of a manifest, which is two lines: its name and
// its description, as YAML has them unquoted.
func description(role, text string) (string, error) {
	head, _, closed := strings.Cut(text, "\n---\n")
	rest, opened := strings.CutPrefix(head, "---\nname: "+role+"\ndescription: ")
	if !opened || !closed || strings.ContainsAny(rest, "\n:#\"'") {
		return "", fmt.Errorf("%s of %s does not begin with its name and a plain description", Manifest, role)
	}
	return rest, nil
}
