package mcp

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// libraryTTL is how long a client may keep what it read here: it changes with the
// version of the program alone.
const libraryTTL = time.Hour

// A Library is what clients can read and be prompted with. It is the same for
// every caller, a setup connection included, and for the whole life of a process.
type Library struct {
	Resources []Resource // in the order of their lists
	Templates []Template
	Skills    []Skill
	Prompts   []Prompt
}

// Methods are the protocol methods of the library, in either era. What it does not
// have has no method, so that it is not claimed either.
func (l *Library) Methods() map[string]Method {
	all := map[string]Method{
		"resources/list":           l.listing(l.listResources),
		"resources/templates/list": l.listing(l.listTemplates),
		"resources/read":           {Handle: l.readResource, AllowedInSetup: true, NameParam: "uri", Cacheable: true, TTL: libraryTTL},
	}
	if len(l.Prompts) > 0 || len(l.Templates) > 0 {
		all["completion/complete"] = Method{Handle: l.complete, AllowedInSetup: true}
	}
	if len(l.Prompts) > 0 {
		all["prompts/list"] = l.listing(l.listPrompts)
		all["prompts/get"] = Method{Handle: l.getPrompt, AllowedInSetup: true, NameParam: "name"}
	}
	if len(l.Skills) > 0 {
		maps.Copy(all, map[string]Method{
			"skills/list":              l.listing(l.listSkills),
			"skills/get":               l.listing(l.getSkill),
			"resources/directory/read": {Handle: l.readDirectory, AllowedInSetup: true},
		})
	}
	return all
}

func (l *Library) listing(h Handler) Method {
	return Method{Handle: h, AllowedInSetup: true, Cacheable: true, TTL: libraryTTL}
}

// Extensions are what the library brings beyond the protocol's core, as modern
// clients are told of it.
func (l *Library) Extensions() map[string]any {
	all := map[string]any{}
	if len(l.Skills) > 0 {
		all["io.modelcontextprotocol/skills"] = map[string]bool{"directoryRead": true}
	}
	if slices.ContainsFunc(l.Resources, Resource.isApp) {
		all["io.modelcontextprotocol/ui"] = map[string][]string{"mimeTypes": {appMediaType}}
	}
	return all
}

// A pageOf is one page of a list that does not change while the program runs. Its
// cursor is the name of the list and the number of entries before the page.
type pageOf[T any] struct {
	entries []T
	next    string // "" at the end
}

// page returns the page that a cursor names, nil for the first.
func page[T any](all []T, list string, cursor *string, size int) (pageOf[T], error) {
	at := 0
	if cursor != nil {
		digits, ours := strings.CutPrefix(*cursor, list+":")
		n, err := strconv.Atoi(digits)
		if !ours || err != nil || n < 1 || n >= len(all) || strconv.Itoa(n) != digits {
			return pageOf[T]{}, InvalidParams("params.cursor is not one of this list; leave it out to begin anew.")
		}
		at = n
	}
	p := pageOf[T]{entries: all[at:min(at+size, len(all))]}
	if at+size < len(all) {
		p.next = list + ":" + strconv.Itoa(at+size)
	}
	return p, nil
}

// cursorOf reads the parameters of a list.
func cursorOf(c *Call) (*string, error) {
	var params struct {
		Cursor *string `json:"cursor"`
	}
	err := c.Request.Decode(&params)
	return params.Cursor, err
}

// uriOf reads the parameter that names what is wanted.
func uriOf(c *Call) (string, error) {
	var params struct {
		URI string `json:"uri"`
	}
	if err := c.Request.Decode(&params); err != nil {
		return "", err
	}
	if params.URI == "" {
		return "", InvalidParams("params.uri is required.")
	}
	return params.URI, nil
}
