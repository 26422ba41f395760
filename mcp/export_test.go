package mcp

// What the tests of the tools share with those of the wire.
var (
	ReadRequest   = readRequest
	WriteResponse = writeResponse
)
