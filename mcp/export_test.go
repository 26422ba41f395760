package mcp

import "testing"

// What the tests of the tools share with those of the wire.
var (
	ReadRequest   = readRequest
	WriteResponse = writeResponse
)

// TextContent is what the texts of prompts are.
type TextContent = textContent

// Read returns the text of a resource.
func (l *Library) Read(tb testing.TB, uri string) string {
	tb.Helper()
	r, found := l.find(uri)
	if !found {
		tb.Fatalf("there is no %s", uri)
	}
	return r.Text
}

// EnumOf returns the values that the items of an argument can have.
func EnumOf(tb testing.TB, tool, argument string) []string {
	tb.Helper()
	var all []string
	for _, t := range table() {
		if property, found := t.In.doc.Properties.Get(argument); t.Name == tool && found {
			for _, v := range property.Items.Enum {
				all = append(all, v.(string))
			}
		}
	}
	return all
}
