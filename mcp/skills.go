package mcp

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"
)

// skillPage is how many skills are on a page of skills/list.
const skillPage = 2

// A Skill is a guide with the files that belong to it, of the extension
// io.modelcontextprotocol/skills (SEP-2640).
type Skill struct {
	// Name is the last part of the skill's folder: a-z, 0-9 and inner hyphens.
	Name        string
	Description string

	// Files are the files of the folder by their paths in it. There is a SKILL.md,
	// whose front matter has the name and the description above and nothing else.
	Files []SkillFile
}

// A SkillFile is a text of a skill.
type SkillFile struct{ Path, Text string }

const manifest = "SKILL.md"

// folder is the URI of the skill's folder.
func (s Skill) folder() string { return "skill://" + s.Name }

// resources are the files of the skill. Lists show the manifest alone: whoever
// needs the others finds their names there.
func (s Skill) resources() []Resource {
	var all []Resource
	for _, f := range s.Files {
		r := Resource{URI: s.folder() + "/" + f.Path, Name: f.Path, MediaType: markdownType, Text: f.Text, Unlisted: true}
		if f.Path == manifest {
			r.Name, r.Description, r.Unlisted = s.Name, s.Description, false
		}
		all = append(all, r)
	}
	return all
}

// A skillEntry is a skill as clients see it: what its manifest says of it, and what
// its files are, so that a client can tell whether it read the same.
type skillEntry struct {
	URI         string           `json:"uri"`
	FrontMatter frontMatter      `json:"frontmatter"`
	Resources   []skillFileEntry `json:"resources"`
}

type frontMatter struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

type skillFileEntry struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"` // sha256: and 64 hex digits
	Size   int    `json:"size"`   // bytes
}

func (s Skill) entry() skillEntry {
	e := skillEntry{URI: s.folder() + "/" + manifest, FrontMatter: frontMatter{s.Name, s.Description}}
	for _, r := range s.resources() {
		e.Resources = append(e.Resources, skillFileEntry{r.URI, SkillDigest(r.Text), len(r.Text)})
	}
	return e
}

// SkillDigest names the content of a file of a skill.
func SkillDigest(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

func (l *Library) listSkills(_ context.Context, c *Call) (any, error) {
	cursor, err := cursorOf(c)
	if err != nil {
		return nil, err
	}
	p, err := page(l.Skills, "skills", cursor, skillPage)
	if err != nil {
		return nil, err
	}
	entries := []skillEntry{}
	for _, s := range p.entries {
		entries = append(entries, s.entry())
	}
	return struct {
		Skills []skillEntry `json:"skills"`
		Next   string       `json:"nextCursor,omitzero"`
	}{entries, p.next}, nil
}

func (l *Library) getSkill(_ context.Context, c *Call) (any, error) {
	uri, err := uriOf(c)
	if err != nil {
		return nil, err
	}
	for _, s := range l.Skills {
		if e := s.entry(); e.URI == uri {
			return struct {
				Skill skillEntry `json:"skill"`
			}{e}, nil
		}
	}
	return nil, InvalidParams("params.uri names no skill; skills/list has those there are.")
}

// readDirectory lists what is directly in a folder of a skill.
func (l *Library) readDirectory(_ context.Context, c *Call) (any, error) {
	uri, err := uriOf(c)
	if err != nil {
		return nil, err
	}
	cursor, err := cursorOf(c)
	if err != nil {
		return nil, err
	}
	children := l.children(uri)
	if children == nil {
		return nil, InvalidParams("params.uri names no folder; a skill's folder is its uri without /%s.", manifest)
	}
	p, err := page(children, "directory", cursor, resourcePage)
	if err != nil {
		return nil, err
	}
	return struct {
		Resources []description `json:"resources"`
		Next      string        `json:"nextCursor,omitzero"`
	}{p.entries, p.next}, nil
}

// children are the files and folders directly in a folder, nil where it is none.
func (l *Library) children(folder string) []description {
	var all []description
	for _, s := range l.Skills {
		if folder != s.folder() && !strings.HasPrefix(folder, s.folder()+"/") {
			continue
		}
		for _, r := range s.resources() {
			inner, within := strings.CutPrefix(r.URI, folder+"/")
			first, _, deeper := strings.Cut(inner, "/")
			switch child := folder + "/" + first; {
			case !within:
			case !deeper:
				all = append(all, r.describe())
			case !slices.ContainsFunc(all, func(d description) bool { return d.URI == child }):
				all = append(all, description{URI: child, Name: path.Base(first), MediaType: directoryType})
			}
		}
	}
	return all
}
