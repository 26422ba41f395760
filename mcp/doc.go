// Package mcp is the protocol lane: it turns one POST into one call of a method
// and the method's answer into JSON-RPC, for the current revision of the Model
// Context Protocol and for the legacy ones, and it holds the tool table and the
// pipeline every tool call goes through.
//
// It guarantees that
//
//   - a body is read in one way only: exact-case keys, no duplicate names, valid
//     UTF-8, bounded size and depth;
//   - everything a request can be refused for is decided before the first byte of
//     an answer, and every refusal has a JSON-RPC body;
//   - every result has the envelope its lane demands, whatever the method returned;
//   - the text of an internal error stays in the log.
//
// Nothing is remembered between requests.
//
// It must not know how a bearer token is verified (that is an edge handed to
// [Server]), how the feed is stored or carried (package delivery), or any SQL.
package mcp
