package mcp

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
)

const (
	resourcePage = 50 // entries on a page of a list
	markdownType = "text/markdown"

	// appMediaType marks the pages of MCP Apps, which hosts show in a frame.
	appMediaType = "text/html;profile=mcp-app"

	// directoryType marks what holds other resources, in the skills extension.
	directoryType = "inode/directory"
)

// A Resource is something that clients can read by its URI.
type Resource struct {
	URI         string
	Name        string // for programs
	Title       string // for people; "" where the name does
	Description string
	MediaType   string
	Text        string // what it says; empty where Blob is set
	Blob        []byte
	Meta        map[string]any // _meta, in lists and with the content
	Unlisted    bool           // it can be read by those who know of it
}

// A Template is a family of resources whose URIs differ in one place, {name}, that
// has no slash.
type Template struct {
	URI         string
	Name        string
	Title       string
	Description string
	MediaType   string
	Read        func(value string) (Resource, bool)
	Values      []string // what completes the variable; nil for none
}

// isApp says whether the resource is the page of an MCP App.
func (r Resource) isApp() bool { return strings.HasPrefix(r.URI, "ui://") }

// AppOf is the _meta of a tool whose answer hosts can show with an MCP App. Some
// hosts still look for the older of the two names.
func AppOf(uri string) map[string]any {
	return map[string]any{"ui": map[string]any{"resourceUri": uri}, "ui/resourceUri": uri}
}

// A description is a resource or a template as lists show it.
type description struct {
	URI         string         `json:"uri,omitzero"`
	URITemplate string         `json:"uriTemplate,omitzero"`
	Name        string         `json:"name"`
	Title       string         `json:"title,omitzero"`
	Description string         `json:"description,omitzero"`
	MediaType   string         `json:"mimeType,omitzero"`
	Size        int            `json:"size,omitzero"` // bytes
	Meta        map[string]any `json:"_meta,omitzero"`
}

func (r Resource) describe() description {
	return description{
		URI: r.URI, Name: r.Name, Title: r.Title, Description: r.Description, MediaType: r.MediaType,
		Size: len(r.Text) + len(r.Blob), Meta: r.Meta,
	}
}

// A content is a resource as it is read.
type content struct {
	URI       string         `json:"uri"`
	MediaType string         `json:"mimeType,omitzero"`
	Text      *string        `json:"text,omitzero"`
	Blob      *string        `json:"blob,omitzero"` // base64
	Meta      map[string]any `json:"_meta,omitzero"`
}

func (r Resource) content() content {
	c := content{URI: r.URI, MediaType: r.MediaType, Meta: r.Meta}
	if r.Blob != nil {
		c.Blob = new(base64.StdEncoding.EncodeToString(r.Blob))
	} else {
		c.Text = &r.Text
	}
	return c
}

// resources are all that can be read by a fixed URI, files of skills included.
func (l *Library) resources() []Resource {
	all := slices.Clone(l.Resources)
	for _, s := range l.Skills {
		all = append(all, s.resources()...)
	}
	return all
}

func (l *Library) listResources(_ context.Context, c *Call) (any, error) {
	cursor, err := cursorOf(c)
	if err != nil {
		return nil, err
	}
	listed := []description{}
	for _, r := range l.resources() {
		if !r.Unlisted {
			listed = append(listed, r.describe())
		}
	}
	p, err := page(listed, "resources", cursor, resourcePage)
	if err != nil {
		return nil, err
	}
	return struct {
		Resources []description `json:"resources"`
		Next      string        `json:"nextCursor,omitzero"`
	}{p.entries, p.next}, nil
}

func (l *Library) listTemplates(_ context.Context, c *Call) (any, error) {
	cursor, err := cursorOf(c)
	if err != nil {
		return nil, err
	}
	all := []description{}
	for _, t := range l.Templates {
		all = append(all, description{
			URITemplate: t.URI, Name: t.Name, Title: t.Title, Description: t.Description, MediaType: t.MediaType,
		})
	}
	p, err := page(all, "templates", cursor, resourcePage)
	if err != nil {
		return nil, err
	}
	return struct {
		Templates []description `json:"resourceTemplates"`
		Next      string        `json:"nextCursor,omitzero"`
	}{p.entries, p.next}, nil
}

func (l *Library) readResource(_ context.Context, c *Call) (any, error) {
	uri, err := uriOf(c)
	if err != nil {
		return nil, err
	}
	r, found := l.find(uri)
	if !found {
		return nil, noResource(uri)
	}
	return struct {
		Contents []content `json:"contents"`
	}{[]content{r.content()}}, nil
}

// find returns the resource with a URI: one of its own, or one of a template.
func (l *Library) find(uri string) (Resource, bool) {
	for _, r := range l.resources() {
		if r.URI == uri {
			return r, true
		}
	}
	for _, t := range l.Templates {
		if value, fits := t.value(uri); fits {
			return t.Read(value)
		}
	}
	return Resource{}, false
}

// value returns what a URI has where the template has its variable.
func (t Template) value(uri string) (string, bool) {
	before, rest, _ := strings.Cut(t.URI, "{")
	_, after, _ := strings.Cut(rest, "}")
	value, begins := strings.CutPrefix(uri, before)
	value, ends := strings.CutSuffix(value, after)
	return value, begins && ends && value != "" && !strings.Contains(value, "/")
}

// longestURI bounds how much of a URI is repeated to its sender, in bytes.
const longestURI = 512

func noResource(uri string) *ProtocolError {
	if len(uri) > longestURI {
		uri = strings.ToValidUTF8(uri[:longestURI], "")
	}
	return &ProtocolError{
		Code:    CodeResourceNotFound,
		Message: "There is no such resource; resources/list and resources/templates/list name those there are.",
		Data: struct {
			URI string `json:"uri"`
		}{uri},
	}
}
