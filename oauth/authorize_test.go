package oauth

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sidequest/domain"
)

// wantPage checks that a person is told, and that the browser goes nowhere.
func wantPage(t *testing.T, r reply) {
	t.Helper()
	if r.status != http.StatusBadRequest || !strings.HasPrefix(r.body, "page: ") || r.header.Get("Location") != "" {
		t.Errorf("answer = %d %q, Location %q; want a page 400 and no redirect", r.status, r.body, r.header.Get("Location"))
	}
}

// wantRedirect checks that the client is told of an error, with all that lets it
// check who tells it.
func wantRedirect(t *testing.T, r reply, code, state string) {
	t.Helper()
	location := r.header.Get("Location")
	got := parametersOf(t, location)
	if r.status != http.StatusSeeOther || !strings.HasPrefix(location, callback+"?") || got.Get("error") != code {
		t.Errorf("answer = %d, Location %q; want a redirect with %s", r.status, location, code)
	}
	if got.Get("iss") != issuer || got.Get("state") != state || got.Has("code") {
		t.Errorf("the redirect has %v, want iss %q and state %q", got, issuer, state)
	}
}

func TestNobodyIsSentToAnAddressThatIsNotTheClients(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, "https://app.example.com/cb", "https://app.example.com/cb?tenant=1", "http://localhost/cb", "http://127.0.0.1/v4")
	for name, redirect := range map[string]string{
		"another path":                    "https://app.example.com/other",
		"a suffix of the host":            "https://app.example.com.evil.com/cb",
		"a user that looks like a host":   "https://app.example.com@evil.com/cb",
		"a user":                          "https://app@app.example.com/cb",
		"dot segments":                    "https://app.example.com/cb/../evil",
		"encoded dots":                    "https://app.example.com/%2e%2e/cb",
		"a slash at the end":              "https://app.example.com/cb/",
		"capitals in the host":            "https://App.example.com/cb",
		"capitals in the scheme":          "HTTPS://app.example.com/cb",
		"another port":                    "https://app.example.com:8443/cb",
		"the port that goes without":      "https://app.example.com:443/cb",
		"another query":                   "https://app.example.com/cb?tenant=2",
		"an added query":                  "https://app.example.com/cb?x=1",
		"a fragment":                      "https://app.example.com/cb#x",
		"an empty fragment":               "https://app.example.com/cb#",
		"no encryption":                   "http://app.example.com/cb",
		"an address for a name":           "http://127.0.0.1/cb",
		"a name for an address":           "http://localhost/v4",
		"a loopback port that is none":    "http://localhost:99999/cb",
		"a loopback suffix":               "http://localhost.evil.com/cb",
		"a user before loopback":          "http://localhost:1234@evil.com/cb",
		"a backslash":                     `https://app.example.com\@evil.com/cb`,
		"another loopback path":           "http://localhost:1234/cb/",
		"a script":                        "javascript:alert(1)",
		"something relative":              "/cb",
		"a space":                         "https://app.example.com/cb ",
		"a line break":                    "https://app.example.com/cb\r\nX: y",
		"the six hidden as four":          "http://[::ffff:127.0.0.1]/v4",
		"a short form of the address":     "http://127.1/v4",
		"an octal form of the address":    "http://0177.0.0.1/v4",
		"localhost with a dot at its end": "http://localhost./cb",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantPage(t, newBrowser().ask(t, s, asks(clientID, map[string]string{"redirect_uri": redirect, "response_type": "token"})))
		})
	}
	for name, redirect := range map[string]string{
		"the very one":                         "https://app.example.com/cb",
		"one with a query":                     "https://app.example.com/cb?tenant=1",
		"another port of localhost":            "http://localhost:49152/cb",
		"another port of the loopback address": "http://127.0.0.1:1/v4",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newBrowser().pending(t, s, asks(clientID, map[string]string{"redirect_uri": redirect}))
		})
	}
}

func TestWithoutAClientThatIsKnownThereIsAPage(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback)
	for name, params := range map[string]url.Values{
		"an unknown client":         asks("dcr_nobody", nil),
		"no client":                 asks("", map[string]string{"client_id": ""}),
		"a long client id":          asks(strings.Repeat("x", 2000), nil),
		"no redirect URI":           asks(clientID, map[string]string{"redirect_uri": ""}),
		"two clients":               withMore(asks(clientID, nil), "client_id", "other"),
		"two redirect URIs":         withMore(asks(clientID, nil), "redirect_uri", callback),
		"an error to pass on":       asks("dcr_nobody", map[string]string{"error": "x", "response_type": "token"}),
		"a state with a zero byte":  asks(clientID, map[string]string{"state": "a\x00b"}),
		"a state that is no text":   asks(clientID, map[string]string{"state": "\xff"}),
		"a state of more than 4 KB": asks(clientID, map[string]string{"state": strings.Repeat("s", 4097)}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantPage(t, newBrowser().ask(t, s, params))
		})
	}
	t.Run("parameters that do not parse", func(t *testing.T) {
		t.Parallel()
		wantPage(t, s.get(t, pathAuthorize+"?client_id="+clientID+"&a=%zz"))
	})
}

func withMore(v url.Values, name, value string) url.Values {
	v.Add(name, value)
	return v
}

func TestAClientIsToldWhatIsWrongWithItsRequest(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback)
	changed := func(pairs ...string) url.Values {
		changes := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			changes[pairs[i]] = pairs[i+1]
		}
		return asks(clientID, changes)
	}
	for name, tt := range map[string]struct {
		params url.Values
		code   string
	}{
		"the implicit flow":               {changed("response_type", "token"), "unsupported_response_type"},
		"a hybrid flow":                   {changed("response_type", "code id_token"), "unsupported_response_type"},
		"no response type":                {changed("response_type", ""), invalidRequest},
		"an answer in a fragment":         {changed("response_mode", "fragment"), invalidRequest},
		"an answer by a form":             {changed("response_mode", "form_post"), invalidRequest},
		"no challenge":                    {changed("code_challenge", ""), invalidRequest},
		"neither challenge nor method":    {changed("code_challenge", "", "code_challenge_method", ""), invalidRequest},
		"a plain challenge":               {changed("code_challenge_method", "plain"), invalidRequest},
		"no method, which would be plain": {changed("code_challenge_method", ""), invalidRequest},
		"a short challenge":               {changed("code_challenge", "short"), invalidRequest},
		"a challenge with padding":        {changed("code_challenge", challengeOf(verifier)+"="), invalidRequest},
		"a foreign resource":              {changed("resource", "https://other.example/mcp"), invalidTarget},
		"the resource of another scheme":  {changed("resource", "http://sidequest.example/mcp"), invalidTarget},
		"a resource with a fragment":      {changed("resource", resource+"#x"), invalidTarget},
		"a resource with a query":         {changed("resource", resource+"?x=1"), invalidTarget},
		"a resource with a user":          {changed("resource", "https://x@sidequest.example/mcp"), invalidTarget},
		"the origin for a resource":       {changed("resource", issuer), invalidTarget},
		"a board that does not exist":     {changed("resource", issuer+"/b/nobody/mcp"), invalidTarget},
		"a path with dots":                {changed("resource", issuer+"/b/x/../acme/mcp"), invalidTarget},
		"a path with an encoded slash":    {changed("resource", issuer+"/b%2facme/mcp"), invalidTarget},
		"two resources":                   {withMore(changed(), "resource", issuer+"/b/acme/mcp"), invalidTarget},
		"a scope twice":                   {withMore(changed(), "scope", domain.ScopeRead), invalidRequest},
		"a state twice":                   {withMore(changed("state", ""), "state", "1"), invalidRequest},
		"a request object":                {changed("request", "eyJ"), "request_not_supported"},
		"a request object elsewhere":      {changed("request_uri", "https://client.example/r"), "request_uri_not_supported"},
		"no page":                         {changed("prompt", "none"), "consent_required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "a state twice" {
				tt.params.Add("state", "2")
				wantRedirect(t, newBrowser().ask(t, s, tt.params), tt.code, "")
				return
			}
			wantRedirect(t, newBrowser().ask(t, s, tt.params), tt.code, "st&te= 1")
		})
	}
	t.Run("no page and nobody signed in", func(t *testing.T) {
		t.Parallel()
		b := newBrowser()
		b.session = ""
		wantRedirect(t, b.ask(t, s, changed("prompt", "none")), "login_required", "st&te= 1")
	})
}

func TestARequestMayComeAsAForm(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback)
	r := s.post(t, pathAuthorize, asks(clientID, nil))
	if r.status != http.StatusSeeOther || !strings.HasPrefix(r.header.Get("Location"), ConsentPath) {
		t.Errorf("answer = %d, Location %q", r.status, r.header.Get("Location"))
	}
	wantPage(t, s.send(t, s.request(t, http.MethodPost, pathAuthorize+"?client_id=x", formType, asks(clientID, nil).Encode())))
	if r := s.send(t, s.request(t, http.MethodPut, pathAuthorize, "", "")); r.status != http.StatusMethodNotAllowed {
		t.Errorf("PUT = %d", r.status)
	}
}

func TestTheAnswerKeepsTheQueryOfTheRedirectURI(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	const with = "https://client.example/cb?b=2&a=%2F"
	clientID := s.registerClient(t, with)
	state := strings.Repeat("s", 4096)
	r := newBrowser().ask(t, s, asks(clientID, map[string]string{"redirect_uri": with, "response_type": "token", "state": state}))
	location := r.header.Get("Location")
	if got := parametersOf(t, location); !strings.HasPrefix(location, with+"&") || got.Get("state") != state || got.Get("iss") != issuer {
		t.Errorf("Location = %.100q", location)
	}
}

func TestWhatIsAskedForIsReadLeniently(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback)
	for name, tt := range map[string]struct {
		changes  map[string]string
		resource string
		asked    string
	}{
		"no scope":                   {map[string]string{"scope": ""}, resource, "sidequest:read"},
		"a scope that nobody knows":  {map[string]string{"scope": "claudeai"}, resource, "sidequest:read"},
		"refresh tokens":             {map[string]string{"scope": "offline_access sidequest:work"}, resource, "sidequest:work"},
		"a scope that begins like":   {map[string]string{"scope": "sidequest:readonly sidequest:hire"}, resource, "sidequest:hire"},
		"everything, in any order":   {map[string]string{"scope": "sidequest:work sidequest:hire sidequest:read sidequest:setup sidequest:work"}, resource, strings.Join(domain.Scopes(), " ")},
		"no resource":                {map[string]string{"resource": ""}, resource, "sidequest:read sidequest:hire"},
		"capitals in the resource":   {map[string]string{"resource": "https://Sidequest.example/MCP"}, resource, "sidequest:read sidequest:hire"},
		"a slash after the resource": {map[string]string{"resource": issuer + "/b/Acme/mcp/"}, issuer + "/b/acme/mcp", "sidequest:read sidequest:hire"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBrowser()
			id := b.pending(t, s, asks(clientID, tt.changes))
			p, err := s.Pending(t.Context(), b.on(t), id)
			if err != nil || p.Resource != tt.resource || strings.Join(p.Asked, " ") != tt.asked {
				t.Errorf("pending = %+v, %v", p, err)
			}
		})
	}
}

func TestTheAddressOfARequestIsNotPassedOn(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	r := newBrowser().ask(t, s, asks(s.registerClient(t, callback), nil))
	if r.header.Get("Referrer-Policy") != "no-referrer" || r.header.Get("Cache-Control") != "no-store" || r.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("header = %v", r.header)
	}
	cookie := r.header.Get("Set-Cookie")
	for _, part := range []string{"__Host-", "; Path=/;", "; HttpOnly", "; Secure", "; SameSite=Lax", "; Max-Age=600"} {
		if !strings.Contains(cookie, part) {
			t.Errorf("Set-Cookie = %q, without %q", cookie, part)
		}
	}
}

func TestOneAddressCannotPileUpRequests(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	clientID := s.registerClient(t, callback)
	for range requestsPerMinute {
		newBrowser().pending(t, s, asks(clientID, nil))
	}
	if r := newBrowser().ask(t, s, asks(clientID, nil)); r.status != http.StatusTooManyRequests {
		t.Errorf("one more = %d", r.status)
	}
}
