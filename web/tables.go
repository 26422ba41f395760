package web

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	extension "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// tables prepares tables for narrow screens, where the stylesheet stacks the cells of
// a row: each cell knows the heading of its column, and each part says what it is,
// which browsers forget of a table that is laid out as something else.
type tables struct{}

// Transform implements [parser.ASTTransformer].
func (tables) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no errors
		if table, is := n.(*extension.Table); is && entering {
			label(table, reader.Source())
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
}

func label(table *extension.Table, source []byte) {
	table.SetAttributeString("role", []byte("table"))
	var columns []string
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		_, head := row.(*extension.TableHeader)
		if !head { // goldmark writes a header's attributes on its thead
			row.SetAttributeString("role", []byte("row"))
		}
		i := 0
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			switch {
			case head:
				columns = append(columns, words(cell, source))
				if cell.HasChildren() {
					cell.SetAttributeString("role", []byte("columnheader"))
				}
			case i < len(columns) && columns[i] != "":
				cell.SetAttributeString("data-column", []byte(columns[i]))
				fallthrough
			default:
				cell.SetAttributeString("role", []byte("cell"))
			}
			i++
		}
	}
}

// words is the text below a node, without what marks it up.
func words(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no errors
		if t, is := n.(*ast.Text); is && entering {
			b.Write(t.Segment.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}
