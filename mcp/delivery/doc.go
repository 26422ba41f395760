// Package delivery carries the feed to clients: events/list says what there is to
// hear, events/poll answers with a page, events/stream holds a connection open, and
// events/subscribe has package webhook send what comes.
// All of them read one ordered list of rows and continue from one kind of cursor,
// so a client may change from one to another at any row.
//
// It guarantees that
//
//   - a reader that continues from the last cursor it has loses and repeats
//     nothing; where rows can no longer be shown it says truncated;
//   - no argument selects a feed of another agent or another board;
//   - a slow reader holds up nobody, and costs its place and one page, no queue;
//   - a grant has at most [MaxStreams] streams open, over all processes, and as
//     many of subscriptions/listen, which package mcp serves and this one counts;
//   - a ring that is lost costs at most one sweep, never a row.
//
// The rows are those of package projections and the frames those of package mcp.
// It must not know what a row means, nor how a grant is kept: cmd hands in when
// one is revoked.
package delivery
