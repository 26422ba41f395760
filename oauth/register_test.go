package oauth

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
)

func (s *site) registering(t *testing.T, body string) reply {
	t.Helper()
	return s.send(t, s.request(t, http.MethodPost, pathRegister, "application/json", body))
}

func TestThePublicClientWithTheSameMetadataIsTheSameClient(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	here, there := d.serve(t), d.serve(t)
	first := here.registering(t, `{"client_name":"Editor","redirect_uris":["http://localhost/cb"],"scope":"sidequest:read","resource":"https://x.example","application_type":"web"}`)
	again := there.registering(t, `{"redirect_uris":["http://localhost/cb"],"client_name":" Editor ","token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"],"response_types":["code"],
		"client_id":"chosen","client_secret":"chosen","scope":"everything","software_statement":"eyJ"}`)
	if first.status != http.StatusCreated || first.body != again.body {
		t.Fatalf("first = %d %s, again = %d %s", first.status, first.body, again.status, again.body)
	}
	id := first.text("client_id")
	if !strings.HasPrefix(id, "dcr_") || len(id) != 56 {
		t.Errorf("client_id = %q", id)
	}
	want := map[string]any{
		"client_id": id, "client_id_issued_at": first.json["client_id_issued_at"], "client_name": "Editor",
		"redirect_uris": []any{"http://localhost/cb"}, "token_endpoint_auth_method": "none",
		"grant_types": []any{"authorization_code", "refresh_token"}, "response_types": []any{"code"},
		"scope": "sidequest:setup sidequest:read sidequest:hire sidequest:work offline_access",
	}
	if diff := cmp.Diff(want, first.json); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	for _, other := range []string{
		`{"client_name":"Editors","redirect_uris":["http://localhost/cb"]}`,
		`{"client_name":"Editor","redirect_uris":["http://localhost/cb2"]}`,
		`{"client_name":"Editor","redirect_uris":["http://localhost/cb","https://editor.example/cb"]}`,
		`{"client_name":"Editor","redirect_uris":["http://localhost/cb"],"token_endpoint_auth_method":"client_secret_post"}`,
	} {
		if r := here.registering(t, other); r.status != http.StatusCreated || r.text("client_id") == id {
			t.Errorf("%s = %d %s", other, r.status, r.body)
		}
	}
}

func TestWhatCannotBeServedIsNotRegistered(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	many := strings.Repeat(`"https://a.example/cb",`, maxRedirects) + `"https://a.example/cb"`
	for name, tt := range map[string]struct{ body, code string }{
		"no JSON":                 {`redirect_uris=x`, invalidClientMetadata},
		"a list":                  {`[]`, invalidClientMetadata},
		"a member twice":          {`{"redirect_uris":["https://a.example/cb"],"redirect_uris":["https://b.example/cb"]}`, invalidClientMetadata},
		"a name that is none":     {`{"redirect_uris":["https://a.example/cb"],"client_name":1}`, invalidClientMetadata},
		"no redirect URI":         {`{"client_name":"x"}`, invalidRedirect},
		"none in the list":        {`{"redirect_uris":[]}`, invalidRedirect},
		"too many":                {`{"redirect_uris":[` + many + `]}`, invalidRedirect},
		"a script":                {`{"redirect_uris":["https://a.example/cb","javascript:alert(1)"]}`, invalidRedirect},
		"data":                    {`{"redirect_uris":["https://a.example/cb","data:text/html,x"]}`, invalidRedirect},
		"a file":                  {`{"redirect_uris":["https://a.example/cb","file:///etc/passwd"]}`, invalidRedirect},
		"a blob":                  {`{"redirect_uris":["https://a.example/cb","blob:https://a.example/x"]}`, invalidRedirect},
		"a fragment":              {`{"redirect_uris":["https://a.example/cb#x"]}`, invalidRedirect},
		"a user":                  {`{"redirect_uris":["https://u@a.example/cb"]}`, invalidRedirect},
		"something relative":      {`{"redirect_uris":["/cb"]}`, invalidRedirect},
		"nothing but http":        {`{"redirect_uris":["http://a.example/cb"]}`, invalidRedirect},
		"nothing but a scheme":    {`{"redirect_uris":["app://cb"]}`, invalidRedirect},
		"an answer in advance":    {`{"redirect_uris":["https://a.example/cb?code=x"]}`, invalidRedirect},
		"a long name":             {`{"redirect_uris":["https://a.example/cb"],"client_name":"` + strings.Repeat("é", 201) + `"}`, invalidClientMetadata},
		"a key":                   {`{"redirect_uris":["https://a.example/cb"],"token_endpoint_auth_method":"private_key_jwt"}`, invalidClientMetadata},
		"the implicit flow":       {`{"redirect_uris":["https://a.example/cb"],"response_types":["token"]}`, invalidClientMetadata},
		"client credentials":      {`{"redirect_uris":["https://a.example/cb"],"grant_types":["client_credentials"]}`, invalidClientMetadata},
		"more than is reasonable": {`{"redirect_uris":["https://a.example/cb"],"x":"` + strings.Repeat("x", maxRegistration) + `"}`, invalidClientMetadata},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := s.request(t, http.MethodPost, pathRegister, "application/json", tt.body)
			req.Header.Set("Test-Ip", name)
			wantError(t, s.send(t, req), http.StatusBadRequest, tt.code)
		})
	}
	t.Run("a form", func(t *testing.T) {
		t.Parallel()
		req := s.request(t, http.MethodPost, pathRegister, formType, "redirect_uris=x")
		req.Header.Set("Test-Ip", "form")
		wantError(t, s.send(t, req), http.StatusBadRequest, invalidRequest)
	})
}

func TestOneURIThatIsOfNoUseDoesNotFailTheOthers(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).serve(t)
	uris := []string{
		"cursor://anysphere.cursor-mcp/oauth/callback", "https://www.cursor.com/agents/mcp/oauth/callback",
		"http://localhost:8787/callback", "cursor://elsewhere/callback", "com.example.app:/cb", "http://remote.example/cb",
	}
	clientID := s.registerClient(t, uris...)
	for i, uri := range uris {
		params := asks(clientID, map[string]string{"redirect_uri": uri})
		if i < 3 {
			newBrowser().pending(t, s, params)
		} else {
			wantPage(t, newBrowser().ask(t, s, params))
		}
	}
}

func TestAFloodOfRegistrationsIsTurnedAwayAndLeavesNoEvents(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	sites := []*site{d.serve(t), d.serve(t)}
	_, head, err := sites[0].process.store.Category(t.Context(), domain.Grants.Name)
	if err != nil {
		t.Fatal(err)
	}
	let := 0
	for i := range 100 {
		body, err := json.Marshal(map[string]any{"redirect_uris": []string{fmt.Sprintf("https://a.example/%d", i)}})
		if err != nil {
			t.Fatal(err)
		}
		req := sites[i%2].request(t, http.MethodPost, pathRegister, "application/json", string(body))
		req.Header.Set("Test-Ip", fmt.Sprintf("2001:db8::%d", i)) // one subscriber
		switch r := sites[i%2].send(t, req); {
		case r.status == http.StatusCreated:
			let++
		case r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") == "":
			t.Fatalf("registration %d = %d %s", i, r.status, r.body)
		}
	}
	if let != registrationsPerMinute {
		t.Errorf("%d registrations got through, want %d", let, registrationsPerMinute)
	}
	if _, after, err := sites[0].process.store.Category(t.Context(), domain.Grants.Name); err != nil || after != head {
		t.Errorf("the log grew from %d to %d, %v", head, after, err)
	}
}

func TestANameIsShownAsWhatItIs(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"Claude":                           "Claude",
		" two \t words\r\n":                "two words",
		"Cla\u200bude":                     "Claude",
		"\u202eedualC\u202c":               "edualC",
		"a\u2066b\u2069":                   "ab",
		"\ufeffx\u00ad":                    "x",
		"\u3164\u115f":                     "",
		"nul\x00l":                         "null",
		"bad\xff":                          "bad",
		"<script>alert(1)</script>":        "<script>alert(1)</script>", // pages escape it
		"Сlaude":                           "Сlaude",                    // its letters are real; it is shown as not verified
		"flag \U000e0067\U000e0062 hidden": "flag hidden",
		"emoji 👩‍💻":                        "emoji 👩💻",
	} {
		if got := visibleName(given); got != want {
			t.Errorf("visibleName(%q) = %q, want %q", given, got, want)
		}
	}
}
