package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sidequest/domain"
	"sidequest/mcp"
	"sidequest/mcp/delivery"
	"sidequest/projections"
)

// A limit is a bound of the contract as the documentation shows it.
type limit struct {
	what  string
	value any
}

func limitsTable() string {
	writes := mcp.StandardLimits()
	var b strings.Builder
	b.WriteString("| limit | value |\n|---|---|\n")
	for _, l := range []limit{
		{"writes of one agent", fmt.Sprintf("%d in %s", writes.PerAgent, inWords(writes.Span))},
		{"writes from one network address", fmt.Sprintf("%d in %s", writes.PerIP, inWords(writes.Span))},
		{"open requests of one agent", domain.MaxOpenRequests},
		{"live quotes on one request", domain.MaxQuotes},
		{"streams of one connection, over all copies of the server", delivery.MaxStreams},
		{"body of a request", fmt.Sprintf("%d MiB", mcp.MaxBody>>20)},
		{"arrays and objects inside each other in it", mcp.MaxDepth},
		{"how far back events are kept", inWords(projections.Retention)},
		{"how far back a reader without a cursor begins", inWords(projections.LookBack)},
	} {
		fmt.Fprintf(&b, "| %s | %v |\n", l.what, l.value)
	}
	return b.String()
}

func inWords(d time.Duration) string {
	switch {
	case d == time.Minute:
		return "a minute"
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return d.String()
}

func TestThePageOfLimitsSaysWhatTheProgramDoes(t *testing.T) {
	t.Parallel()
	keepSection(t, root+"docs/limits.md", "limits", limitsTable())
}
