package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sidequest/mcp"
)

// A fault is a request that a hostile or broken client sends, and how the server is
// to take it.
type fault struct {
	name   string
	change func(*letter)
	status int
	code   int // of the JSON-RPC error, 0 for none
}

// A letter is a request on its way: the good one that each fault spoils.
type letter struct {
	method, path, host string
	header             http.Header
	body               string
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func goodLetter(token string) *letter {
	return &letter{
		method: http.MethodPost, path: "/mcp",
		header: http.Header{
			"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Protocol-Version": {mcp.V20260728}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"protocol_info"},
		},
		body: `{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"protocol_info",` + modernMeta + `}}`,
	}
}

func set(name string, values ...string) func(*letter) {
	return func(l *letter) {
		l.header.Del(name)
		for _, value := range values {
			l.header.Add(name, value)
		}
	}
}

func body(from, to string) func(*letter) {
	return func(l *letter) {
		if !strings.Contains(l.body, from) {
			panic("the body has no " + from)
		}
		l.body = strings.Replace(l.body, from, to, 1)
	}
}

func whole(text string) func(*letter) { return func(l *letter) { l.body = text } }
func path(p string) func(*letter)     { return func(l *letter) { l.path = p } }
func method(m string) func(*letter)   { return func(l *letter) { l.method, l.body = m, "" } }

func faults() []fault {
	return []fault{
		{"none", func(*letter) {}, 200, 0},

		{"another version in the header", set("Mcp-Protocol-Version", mcp.V20251125), 400, mcp.CodeHeaderMismatch},
		{"no version in the header", set("Mcp-Protocol-Version"), 400, mcp.CodeHeaderMismatch},
		{"two versions in the header", set("Mcp-Protocol-Version", mcp.V20260728, mcp.V20260728), 400, mcp.CodeHeaderMismatch},
		{"another version in the body", body(`"2026-07-28"`, `"2025-11-25"`), 400, mcp.CodeHeaderMismatch},
		{"no method in the header", set("Mcp-Method"), 400, mcp.CodeHeaderMismatch},
		{"another method in the header", set("Mcp-Method", "tools/list"), 400, mcp.CodeHeaderMismatch},
		{"a method in another case", set("Mcp-Method", "Tools/Call"), 400, mcp.CodeHeaderMismatch},
		{"no name in the header", set("Mcp-Name"), 400, mcp.CodeHeaderMismatch},
		{"another name in the header", set("Mcp-Name", "request_quotes"), 400, mcp.CodeHeaderMismatch},
		{"two names in the header", set("Mcp-Name", "protocol_info", "request_quotes"), 400, mcp.CodeHeaderMismatch},
		{"the name in base64", set("Mcp-Name", "=?base64?cHJvdG9jb2xfaW5mbw==?="), 200, 0},
		{"a name in broken base64", set("Mcp-Name", "=?base64?cHJvdG9jb2xfaW5mbw?="), 400, mcp.CodeHeaderMismatch},
		{"another name in base64", set("Mcp-Name", "=?base64?d2hvYW1p?="), 400, mcp.CodeHeaderMismatch},
		{"a version nobody knows", func(l *letter) {
			set("Mcp-Protocol-Version", "2031-01-01")(l)
			body(`"2026-07-28"`, `"2031-01-01"`)(l)
		}, 400, mcp.CodeUnsupportedVersion},

		{"no _meta", body(`,`+modernMeta, ``), 400, mcp.CodeInvalidParams},
		{"a _meta that is no object", body(modernMeta, `"_meta":[]`), 400, mcp.CodeInvalidParams},
		{"no capabilities", body(`,"io.modelcontextprotocol/clientCapabilities":{}`, ``), 400, mcp.CodeInvalidParams},
		{"a batch", func(l *letter) { l.body = "[" + l.body + "]" }, 400, mcp.CodeInvalidRequest},
		{"no id", body(`"id":"7",`, ``), 400, mcp.CodeInvalidRequest},
		{"an id of null", body(`"id":"7"`, `"id":null`), 400, mcp.CodeInvalidRequest},
		{"an id with a fraction", body(`"id":"7"`, `"id":7.5`), 400, mcp.CodeInvalidRequest},
		{"an id that is an object", body(`"id":"7"`, `"id":{}`), 400, mcp.CodeInvalidRequest},
		{"METHOD beside method", body(`"method":`, `"METHOD":"tools/list","method":`), 400, mcp.CodeInvalidRequest},
		{"METHOD in place of method", body(`"method":`, `"METHOD":`), 400, mcp.CodeInvalidRequest},
		{"Name beside name", body(`"name":`, `"Name":"whoami","name":`), 400, mcp.CodeInvalidRequest},
		{"the method twice", body(`"method":`, `"method":"tools/list","method":`), 400, mcp.CodeParse},
		{"a name twice by an escape", body(`"name":`, `"n\u0061me":"whoami","name":`), 400, mcp.CodeParse},
		{"an answer", whole(`{"jsonrpc":"2.0","id":"7","result":{}}`), 400, mcp.CodeInvalidRequest},
		{"another version of JSON-RPC", body(`"2.0"`, `"1.0"`), 400, mcp.CodeInvalidRequest},
		{"no JSON", whole(`hello`), 400, mcp.CodeParse},
		{"nothing", whole(``), 400, mcp.CodeParse},
		{"more behind the message", func(l *letter) { l.body += "{}" }, 400, mcp.CodeParse},
		{"text that is not UTF-8", whole("{\"jsonrpc\":\"2.0\",\"id\":\"\xff\"}"), 400, mcp.CodeParse},
		{"a mark at the beginning", func(l *letter) { l.body = "\ufeff" + l.body }, 400, mcp.CodeParse},
		{"nesting without end", body(modernMeta, modernMeta+`,"x":`+strings.Repeat("[", 100_000)), 400, mcp.CodeInvalidRequest},
		{"a method nobody knows", func(l *letter) {
			set("Mcp-Method", "no/such")(l)
			body("tools/call", "no/such")(l)
		}, 404, mcp.CodeMethodNotFound},
		{"a handshake in the modern era", func(l *letter) {
			set("Mcp-Method", "initialize")(l)
			body("tools/call", "initialize")(l)
		}, 404, mcp.CodeMethodNotFound},
		{"a notification", whole(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}`), 202, 0},

		{"a wish for HTML", set("Accept", "text/html"), 406, mcp.CodeInvalidRequest},
		{"no wish", set("Accept"), 200, 0},
		{"a form", set("Content-Type", "application/x-www-form-urlencoded"), 415, mcp.CodeInvalidRequest},
		{"a type that begins like ours", set("Content-Type", "application/json-seq"), 415, mcp.CodeInvalidRequest},
		{"a packed body", set("Content-Encoding", "gzip"), 415, mcp.CodeInvalidRequest},
		{"a page without origin", set("Origin", "null"), 403, mcp.CodeInvalidRequest},
		{"a page of someone else", set("Origin", "http://evil.example"), 403, mcp.CodeInvalidRequest},
		{"a page that looks like ours", set("Origin", "http://localhost.evil.example"), 403, mcp.CodeInvalidRequest},
		{"two pages", set("Origin", "http://localhost", "http://localhost"), 403, mcp.CodeInvalidRequest},
		{"a rebound name", func(l *letter) { l.host = "evil.example" }, 403, mcp.CodeInvalidRequest},
		{"GET", method(http.MethodGet), 405, mcp.CodeInvalidRequest},
		{"DELETE", method(http.MethodDelete), 405, mcp.CodeInvalidRequest},
		{"PUT", method(http.MethodPut), 405, mcp.CodeInvalidRequest},
		{"a session of yesterday", set("Mcp-Session-Id", "0123456789abcdef"), 200, 0},
		{"a stream to resume", set("Last-Event-ID", "41"), 200, 0},

		{"no token", set("Authorization"), 401, 401},
		{"two tokens", func(l *letter) { l.header.Add("Authorization", "Bearer other") }, 400, mcp.CodeInvalidRequest},
		{"another scheme", set("Authorization", "Basic YTpi"), 401, 401},
		{"a token that ends early", func(l *letter) { set("Authorization", l.header.Get("Authorization")[:60])(l) }, 401, 401},
		{"a token in the address", func(l *letter) {
			l.path += "?access_token=" + strings.TrimPrefix(l.header.Get("Authorization"), "Bearer ")
			l.header.Del("Authorization")
		}, 401, 401},
		{"a token without end", set("Authorization", "Bearer "+strings.Repeat("a", 100_000)), 401, 401},
		{"a scheme in small letters", func(l *letter) { set("Authorization", "bearer"+l.header.Get("Authorization")[6:])(l) }, 200, 0},
		{"the address in other words", path("/%6dcp"), 200, 0},
	}
}

// TestAHostileClientIsRefusedAndUnderstandsWhy plays every fault. Whatever comes
// back has a JSON-RPC body, so that no client takes it for a server of old, and the
// id if there was one that could be read.
func TestAHostileClientIsRefusedAndUnderstandsWhy(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	token := m.join(t, 1, "hostile")[0].tokens[0]
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			l := goodLetter(token)
			f.change(l)
			status, header, raw := l.post(t, r.origin)
			if status != f.status {
				t.Fatalf("got %d %.300s", status, raw)
			}
			if f.status == http.StatusAccepted {
				return
			}
			var got struct {
				JSONRPC string  `json:"jsonrpc"`
				ID      *string `json:"id"`
				Error   struct {
					Code    int    `json:"code"`
					Message string `json:"message"`
				} `json:"error"`
			}
			if err := json.Unmarshal([]byte(raw), &got); err != nil || got.JSONRPC != "2.0" {
				t.Fatalf("no JSON-RPC: %v: %.300s", err, raw)
			}
			if got.Error.Code != f.code || f.code != 0 && got.Error.Message == "" {
				t.Errorf("got %.300s", raw)
			}
			if f.status == http.StatusOK && (got.ID == nil || *got.ID != "7") {
				t.Errorf("the id is not repeated: %.300s", raw)
			}
			if challenge := header.Get("WWW-Authenticate"); (f.status == http.StatusUnauthorized) != strings.Contains(challenge, "/.well-known/oauth-protected-resource/mcp") {
				t.Errorf("the challenge is %q", challenge)
			}
			if f.status == http.StatusMethodNotAllowed && !strings.Contains(header.Get("Allow"), http.MethodPost) {
				t.Errorf("Allow is %q", header.Get("Allow"))
			}
		})
	}
}

// post sends the letter.
func (l *letter) post(t *testing.T, origin string) (status int, header http.Header, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), l.method, origin+l.path, strings.NewReader(l.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header, req.Host = l.header, l.host
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(raw)
}

// TestAnAddressIsTheEndpointInEverySpellingOrNothing: an address that only looks
// like the endpoint is no second door to it, and one that is tolerated leads to the
// same resource.
func TestAnAddressIsTheEndpointInEverySpellingOrNothing(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	token := m.join(t, 1, "beside")[0].tokens[0]
	for _, p := range []string{"/mcp;a=b", "/mcp%00", "/mcp%2f%2f", "/mcp/x", "/api", "/api/whoami/x", "/b//mcp", "/b/none/mcp", "/b/..%2fmain/mcp", "/b/%00/mcp", "/b/%ff/mcp", "/b/acme%00/api/whoami", "/b/%00/mcp/server-card", "/approve/%00", "/consent/%ff"} {
		l := goodLetter(token)
		l.path = p
		if status, _, raw := l.post(t, r.origin); status != http.StatusNotFound {
			t.Errorf("%s: got %d %.200s", p, status, raw)
		}
	}
	for _, p := range []string{"/mcp/", "/MCP", "/mcp%2f", "/%4d%43%50"} {
		l := goodLetter(token)
		l.path = p
		if status, _, raw := l.post(t, r.origin); status != http.StatusOK {
			t.Errorf("%s: got %d %.200s", p, status, raw)
		}
		l.header.Del("Authorization")
		_, header, _ := l.post(t, r.origin)
		if got := header.Get("WWW-Authenticate"); !strings.Contains(got, `/.well-known/oauth-protected-resource/mcp"`) {
			t.Errorf("%s: the challenge is %q", p, got)
		}
	}
}

// TestABodyWithoutEndIsCutOff sends chunks for as long as the server takes them.
func TestABodyWithoutEndIsCutOff(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	token := m.join(t, 1, "endless")[0].tokens[0]
	conn := dial(t, r.origin)
	go func() {
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", token)
		chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat(" ", 64<<10))
		for {
			if _, err := io.WriteString(conn, chunk); err != nil {
				return
			}
		}
	}()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge || !res.Close {
		t.Errorf("got %s, and the connection stays: %t", res.Status, !res.Close)
	}
}

// TestAHeaderThatNeverEndsHoldsUpNobody begins many requests and ends none.
func TestAHeaderThatNeverEndsHoldsUpNobody(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	token := m.join(t, 1, "slow")[0].tokens[0]
	var slow []net.Conn
	for range 100 {
		conn := dial(t, r.origin)
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
		slow = append(slow, conn)
	}
	if status, _, raw := goodLetter(token).post(t, r.origin); status != http.StatusOK {
		t.Errorf("another client meanwhile: %d %s", status, raw)
	}
	for _, conn := range slow {
		if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the connection is kept although its header does not come")
		}
	}
}

// TestAStreamWhoseClientOnlyListensOnEnds: whoever closes its side of a connection
// has left, for HTTP cannot tell the two apart.
func TestAStreamWhoseClientOnlyListensOnEnds(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	token := m.join(t, 1, "half")[0].tokens[0]
	conn := dial(t, r.origin)
	text := `{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{"name":"sidequest.requests",` + modernMeta + `}}`
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: events/stream\r\nContent-Length: %d\r\n\r\n%s", token, len(text), text)
	frames := bufio.NewReader(conn)
	for {
		line, err := frames.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "notifications/events/active") {
			break
		}
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(frames); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the stream is held open for a client that has left")
	}
}

// dial connects to a server, for half a minute at most.
func dial(t *testing.T, origin string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(origin, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}
