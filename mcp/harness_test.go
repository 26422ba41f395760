package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// serve starts the server and returns the URL of its endpoint.
func serve(tb testing.TB, s *Server) string {
	tb.Helper()
	server := httptest.NewServer(s)
	tb.Cleanup(server.Close)
	return server.URL + "/mcp"
}

// newRequest returns a POST from an agent who may do everything.
func newRequest(tb testing.TB, url, body string) *http.Request {
	tb.Helper()
	req := httptest.NewRequestWithContext(tb.Context(), http.MethodPost, url, strings.NewReader(body))
	req.RequestURI = ""
	req.Header.Set("Authorization", "Bearer agent")
	req.Header.Set("Content-Type", "application/json")
	return req
}

// modern returns a complete modern request; params are its members but _meta.
func modern(method, name, params string) *http.Request {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s"_meta":{%q:%q,%q:{}}}}`,
		method, params, comma(params), metaProtocolVersion, V20260728, metaClientCapabilities)
	req := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer agent")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Mcp-Protocol-Version", V20260728)
	req.Header.Set("Mcp-Method", method)
	if name != "" {
		req.Header.Set("Mcp-Name", name)
	}
	return req
}

func comma(members string) string {
	if members == "" {
		return ""
	}
	return ","
}

// do sends a request over the network.
func do(tb testing.TB, req *http.Request) (status int, body string) {
	tb.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// record answers a request without a network.
func record(tb testing.TB, s *Server, req *http.Request) string {
	tb.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	return w.Body.String()
}

// stringAt returns the string at a path of members.
func stringAt(tb testing.TB, body string, path ...string) string {
	tb.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		tb.Fatalf("%v: %s", err, body)
	}
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	s, _ := v.(string)
	return s
}

// loggerTo returns a logger that writes lines of text.
func loggerTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
