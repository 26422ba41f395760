// Command mcp serves the tool that the benchmark of the protocol lane calls, by
// one of two libraries of others. It writes its address to its output and ends
// with its input.
//
// Both check arguments and answers against schemas, as our own lane does, keep no
// sessions and answer in JSON. Their tokens are compared and nothing more, which
// is the least that authentication can cost.
package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type echoed struct {
	Text string `json:"text" jsonschema:"what comes back"`
}

func main() {
	handlers := map[string]func() http.Handler{"go-sdk": goSDK, "mcp-go": mcpGo}
	if len(os.Args) != 3 || handlers[os.Args[1]] == nil {
		log.Fatal("usage: mcp go-sdk|mcp-go TOKEN")
	}
	if err := serve(bearer(os.Args[2], handlers[os.Args[1]]())); err != nil {
		log.Fatal(err)
	}
}

func serve(h http.Handler) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	fmt.Printf("http://%s/mcp\n", listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func bearer(token string, next http.Handler) http.Handler {
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func goSDK() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "peer", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Answers what it was sent."},
		func(_ context.Context, _ *mcp.CallToolRequest, in echoed) (*mcp.CallToolResult, echoed, error) {
			return nil, in, nil
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

func mcpGo() http.Handler {
	server := mcpgoserver.NewMCPServer("peer", "1",
		mcpgoserver.WithInputSchemaValidation(), mcpgoserver.WithStrictInputSchemaDefault(), mcpgoserver.WithOutputSchemaValidation())
	server.AddTool(
		mcpgo.NewTool("echo", mcpgo.WithDescription("Answers what it was sent."), mcpgo.WithInputSchema[echoed](), mcpgo.WithOutputSchema[echoed]()),
		mcpgo.NewStructuredToolHandler(func(_ context.Context, _ mcpgo.CallToolRequest, in echoed) (echoed, error) { return in, nil }))
	return mcpgoserver.NewStreamableHTTPServer(server, mcpgoserver.WithStateLess(true), mcpgoserver.WithDisableStreaming(true))
}
