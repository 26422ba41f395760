package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sidequest/domain"
	"sidequest/mcp"
	"sidequest/mcp/delivery"
	"sidequest/oauth"
	"sidequest/projections"
	"sidequest/webhook"
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
		{"streams of `subscriptions/listen` of one connection, counted apart", delivery.MaxStreams},
		{"webhooks of one connection", webhook.MaxPerGrant},
		{"connections of one agent", oauth.MaxGrants},
		{"a code of the authorization server is good for", inWords(oauth.CodeLife)},
		{"an access token is good for", inWords(oauth.TokenLife)},
		{"a login that is not used ends after", inWords(oauth.RefreshIdle)},
		{"a login ends in any case after", inWords(oauth.RefreshLife)},
		{"messages of a batch, in the revision that has batches", mcp.MaxBatch},
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
	case d == time.Hour:
		return "an hour"
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return d.String()
}

func TestThePageOfLimitsSaysWhatTheProgramDoes(t *testing.T) {
	t.Parallel()
	keepSection(t, root+"docs/limits.md", "limits", limitsTable())
}
