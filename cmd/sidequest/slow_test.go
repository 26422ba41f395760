package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestABodyThatDoesNotComeHoldsUpNoAnswer sends the beginning of a body and waits.
// Whoever is refused for another reason hears it at once.
func TestABodyThatDoesNotComeHoldsUpNoAnswer(t *testing.T) {
	t.Parallel()
	origin := openMarket(t).start(t).origin
	for path, want := range map[string]int{"/mcp": http.StatusUnauthorized, "/api/whoami": http.StatusUnauthorized, "/nope": http.StatusNotFound} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(origin, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", path)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: no answer: %v", path, err)
			continue
		}
		if res.StatusCode != want || !res.Close {
			t.Errorf("%s: %s, and the connection stays: %t", path, res.Status, !res.Close)
		}
		_ = res.Body.Close()
	}
}
