package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5/pgconn"

	"sidequest/domain"
)

// newServer returns a server with the tests' methods. Who calls follows from the
// token: "agent" may do everything, "reader" reads, "setup" has no agent yet.
func newServer(tb testing.TB) *Server {
	tb.Helper()
	return &Server{
		Methods:      testMethods(),
		Authenticate: authenticateByName,
		BaseURL:      "https://sidequest.example",
		States:       states(1),
		Listening:    stoppingListening(),
		Log:          slog.New(slog.DiscardHandler),
	}
}

func authenticateByName(r *http.Request) (Caller, error) {
	scopes := map[string][]string{
		"Bearer agent":  {domain.ScopeRead, domain.ScopeHire, domain.ScopeWork},
		"Bearer reader": {domain.ScopeRead},
		"Bearer setup":  {domain.ScopeSetup},
	}
	switch token := r.Header.Get("Authorization"); {
	case scopes[token] != nil:
		return Caller{AgentKey: "ag_test", Scopes: scopes[token], Board: "main"}, nil
	case token == "Bearer hasty":
		e := domain.Refuse(domain.RateLimited, "Too many requests.")
		e.After = 7
		return Caller{}, e
	case token == "Bearer unlucky":
		return Caller{}, errors.New("the database said something private")
	}
	return Caller{}, domain.Refuse(domain.Unauthenticated, "The token \"is\" not valid.")
}

// testMethods stand in for the tool table and the feed.
func testMethods() map[string]Method {
	return map[string]Method{
		"tools/list":     {Handle: listNothing, AllowedInSetup: true, Cacheable: true},
		"tools/call":     {Handle: callTool, AllowedInSetup: true, NameParam: "name", Asks: true},
		"resources/read": {Handle: readResource, NameParam: "uri", Cacheable: true},
		"events/list":    {Handle: listNothing, AllowedInSetup: true},
		"events/poll":    {Handle: listNothing},
		"events/stream":  {Handle: streamThree, Stream: true},
	}
}

func listNothing(context.Context, *Call) (any, error) {
	return map[string]any{"items": []string{}, "resultType": "complete"}, nil
}

// callTool does what the name of the tool says.
func callTool(_ context.Context, c *Call) (any, error) {
	var p struct {
		Name string `json:"name"`
	}
	if err := c.Request.Decode(&p); err != nil {
		return nil, err
	}
	switch p.Name {
	case "ask":
		return ask(c)
	case "work":
		return map[string]any{"content": []any{}}, errors.Join(c.Tell("info", "work", "begun"), c.Progress(1, 2, "half"))
	case "annotate":
		return map[string]any{"_meta": map[string]any{"example/at": 1}, "ttlMs": 5, "cacheScope": "public"}, nil
	case "hire":
		e := domain.Refuse(domain.InsufficientScope, "Hiring needs the scope for it.")
		e.Scope = domain.ScopeHire
		return nil, e
	case "break":
		return nil, errors.New("the database said something private")
	case "panic":
		panic("something private")
	case "conflict":
		return nil, domain.RefuseAs(domain.Invalid, "deadline-order", "Deadlines are in the wrong order.").At("/deadline")
	case "capable":
		return map[string]any{"url": c.Lane.Declares("elicitation", "url")}, nil
	}
	return map[string]any{"content": []any{map[string]any{"type": "text", "text": p.Name}}}, nil
}

// ask asks for a name until it has one.
func ask(c *Call) (any, error) {
	e, given, err := c.Inputs.Elicited("who")
	if err != nil {
		return nil, err
	}
	if given && c.Inputs.State != nil {
		return map[string]any{"action": e.Action, "answer": e.Content}, nil
	}
	form := jsontext.Value(`{"message":"Who are you?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}`)
	return InputRequired{Requests: map[string]InputRequest{"who": {"elicitation/create", form}}, State: []byte("asked")}, nil
}

// stoppingListening ends every stream as soon as it is open.
func stoppingListening() *Listening {
	stopping := make(chan struct{})
	close(stopping)
	return &Listening{
		Tools:    func(Caller) <-chan struct{} { return nil },
		Enter:    func(context.Context, Caller) (Listener, error) { return Listener{Leave: func() {}}, nil },
		Stopping: stopping, Life: time.Hour, KeepAlive: time.Hour,
	}
}

func readResource(context.Context, *Call) (any, error) {
	return nil, &ProtocolError{Code: CodeResourceNotFound, Message: "No such resource."}
}

func streamThree(_ context.Context, c *Call) (any, error) {
	var p struct {
		Name string `json:"name"`
	}
	if err := c.Request.Decode(&p); err != nil {
		return nil, err
	}
	if p.Name == "" {
		return nil, InvalidParams("params.name is required.")
	}
	s, err := c.OpenStream()
	if err != nil {
		return nil, err
	}
	for _, n := range []string{"active", "event", "heartbeat"} {
		if err := s.Notify("notifications/events/"+n, map[string]any{"cursor": n}); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(s.Notify("notifications/empty", nil), s.KeepAlive(), s.Flush()); err != nil {
		return nil, err
	}
	switch p.Name {
	case "abrupt":
		return nil, ErrAbrupt
	case "break":
		return nil, errors.New("the database said something private")
	}
	return nil, nil
}

func TestInstructionsFitWhereClientsCutThem(t *testing.T) {
	t.Parallel()
	origin := "https://" + strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + ".example"
	text := Instructions(origin)
	if n := len([]rune(text)); n > 2048 {
		t.Errorf("the instructions have %d characters, clients cut at 2048", n)
	}
	if !strings.Contains(text, origin+"/start.md") {
		t.Error("they do not name the page to begin with")
	}
}

func TestABodyThatIsTooLargeIsRefusedWithAndWithoutItsLength(t *testing.T) {
	t.Parallel()
	url := serve(t, newServer(t))
	for _, body := range []io.Reader{
		strings.NewReader(strings.Repeat(" ", MaxBody+1)),
		io.MultiReader(strings.NewReader(strings.Repeat(" ", MaxBody)), strings.NewReader(" ")),
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer agent")
		req.Header.Set("Content-Type", "application/json")
		status, answer := do(t, req)
		if status != http.StatusRequestEntityTooLarge || !strings.Contains(answer, `"jsonrpc":"2.0"`) {
			t.Errorf("got %d %s, want 413 with a JSON-RPC body", status, answer)
		}
	}
}

func TestADevelopmentServerAnswersOnlyWhatIsMeantForThisMachine(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.BaseURL = "http://127.0.0.1:8080"
	url := serve(t, s)
	for _, c := range []struct {
		host, origin string
		want         int
	}{
		{"127.0.0.1:8080", "", 202},
		{"localhost:8080", "", 202},
		{"[::1]:8080", "", 202},
		{"sidequest.example", "", 403},
		{"127.0.0.1.evil.example", "", 403},
		{"localhost", "http://localhost:6274", 202},
		{"localhost", "http://127.0.0.1", 202},
		{"localhost", "https://inspector.example", 202},
		{"localhost", "http://evil.example", 403},
		{"localhost", "null", 403},
		{"localhost", "http://localhost@evil.example", 403},
		{"localhost", "http://localhost/", 403},
	} {
		req := newRequest(t, url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		req.Host = c.host
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		if status, _ := do(t, req); status != c.want {
			t.Errorf("host %q, origin %q: got %d, want %d", c.host, c.origin, status, c.want)
		}
	}
}

func TestTheTextOfAnInternalErrorStaysInTheLogUnderItsID(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s := newServer(t)
	s.Log = loggerTo(&log)
	for _, tool := range []string{"break", "panic"} {
		log.Reset()
		body := record(t, s, modern("tools/call", tool, `"name":"`+tool+`"`))
		id := stringAt(t, body, "error", "data", "errorId")
		if len(id) != 12 || strings.Contains(body, "private") {
			t.Errorf("the answer shows %s", body)
		}
		if !strings.Contains(log.String(), id) || !strings.Contains(log.String(), "private") {
			t.Errorf("the log of %s does not explain %s:\n%s", tool, id, log.String())
		}
	}
}

func TestEveryCombinationOfScopesReadsAsDecided(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		held string
		may  string
	}{
		{"", ""},
		{domain.ScopeSetup, domain.ScopeSetup},
		{domain.ScopeRead, domain.ScopeRead},
		{domain.ScopeHire, domain.ScopeRead + " " + domain.ScopeHire},
		{domain.ScopeWork, domain.ScopeRead + " " + domain.ScopeWork},
		{domain.ScopeHire + " " + domain.ScopeWork, domain.ScopeRead + " " + domain.ScopeWork + " " + domain.ScopeHire},
	} {
		caller := Caller{Scopes: strings.Fields(c.held)}
		var may []string
		for _, scope := range []string{domain.ScopeSetup, domain.ScopeRead, domain.ScopeWork, domain.ScopeHire} {
			if caller.Has(scope) {
				may = append(may, scope)
			}
		}
		if got := strings.Join(may, " "); got != c.may {
			t.Errorf("%q may %q, want %q", c.held, got, c.may)
		}
	}
}

func TestWhatCannotBeRoutedIsAnsweredInTheFormOfItsEndpoint(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	away := fmt.Errorf("look a board up: %w", &pgconn.PgError{Code: "57P01"})
	w := httptest.NewRecorder()
	s.Fail(w, newRequest(t, "/b/acme/mcp", "{}"), away)
	if body := w.Body.String(); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" ||
		stringAt(t, body, "jsonrpc") != "2.0" || stringAt(t, body, "error", "data", "code") != "unavailable" || strings.Contains(body, `"id"`) && !strings.Contains(body, `"id":null`) {
		t.Errorf("over MCP: %d %v %s", w.Code, w.Header(), body)
	}
	w = httptest.NewRecorder()
	api := &API{Server: s, Market: &Market{Log: s.Log}}
	api.Fail(w, newRequest(t, "/b/acme/api/whoami", "{}"), away)
	if body := w.Body.String(); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" ||
		stringAt(t, body, "code") != "unavailable" || stringAt(t, body, "retry") != "same-key" {
		t.Errorf("over HTTP: %d %v %s", w.Code, w.Header(), body)
	}
	w = httptest.NewRecorder()
	s.Fail(w, newRequest(t, "/b/acme/mcp", "{}"), errors.New("something private"))
	if body := w.Body.String(); w.Code != http.StatusInternalServerError || strings.Contains(body, "private") {
		t.Errorf("a fault of ours: %d %s", w.Code, body)
	}
}
