package oauth

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"sidequest/domain"
)

func FuzzARedirectGoesWhereItsClientRegistered(f *testing.F) {
	for _, seed := range []string{
		callback, "http://localhost/cb", "http://localhost:1/cb", "http://127.0.0.1:65535/cb?x=1", "http://[::1]:8/cb", "http://localhost:0/cb",
		"http://localhost:80@evil.example/cb", "http://localhost/cb#", "https://client.example\\@evil.example/callback", "cursor://anysphere.cursor-mcp/oauth/callback",
		"http://127.1/cb", "http://LOCALHOST/cb", "http://localhost:1:2/cb", "http://[::1]/cb", "//localhost/cb", "http:///cb",
	} {
		f.Add(seed)
	}
	registered := []string{callback, "http://localhost/cb", "http://127.0.0.1/cb?x=1", "http://[::1]:9/cb", cursorRedirect, "http://remote.example/cb"}
	f.Fuzz(func(t *testing.T, asked string) {
		match, ok := matchRedirect(registered, asked)
		if !ok {
			return
		}
		want, err1 := url.Parse(match)
		got, err2 := url.Parse(asked)
		if err1 != nil || err2 != nil || !slices.Contains(registered, match) {
			t.Fatalf("%q matches %q", asked, match)
		}
		if got.Scheme != want.Scheme || got.Hostname() != want.Hostname() || got.EscapedPath() != want.EscapedPath() || got.RawQuery != want.RawQuery || got.User != nil || got.Fragment != "" {
			t.Errorf("%q goes elsewhere than %q", asked, match)
		}
		if got.Port() != want.Port() && got.Hostname() != "localhost" && got.Hostname() != "127.0.0.1" && got.Hostname() != "::1" {
			t.Errorf("%q goes to another port than %q", asked, match)
		}
		if got.Scheme == "http" && got.Hostname() == "remote.example" {
			t.Errorf("%q goes over the network without encryption", asked)
		}
		answer, err := answerAt(asked, url.Values{"code": {"c d"}, "iss": {issuer}})
		if err != nil {
			t.Fatal(err)
		}
		if u, err := url.Parse(answer); err != nil || u.Query().Get("code") != "c d" || u.Host != got.Host || u.EscapedPath() != got.EscapedPath() {
			t.Errorf("the answer goes to %q", answer)
		}
	})
}

func FuzzAMetadataDocumentIsAboutItsOwnClient(f *testing.F) {
	const id = "https://client.example/x"
	for _, seed := range []string{
		string(metadataOf(id, nil)), string(metadataOf(id, map[string]any{"client_secret": nil, "jwks_uri": id, "token_endpoint_auth_method": authKey})),
		`{"client_id":"` + id + `","client_name":"x","redirect_uris":["javascript:x"]}`, `{}`, `[]`, `null`, `{"client_id":1}`, `{"CLIENT_ID":"` + id + `"}`,
		`{"client_id":"` + id + `","client_name":"x","redirect_uris":["` + callback + `"],"token_endpoint_auth_method":"private_key_jwt","jwks":{"keys":[{"kty":"oct","k":"AA"}]}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r, err := parseMetadata(id, []byte(body))
		if err != nil {
			return
		}
		if r.ID != id || r.Name == "" || r.Name != visibleName(r.Name) || len(r.redirects) == 0 || r.secretHash != nil {
			t.Errorf("client = %+v", r)
		}
		if r.auth != authNone && (r.auth != authKey || (len(r.keys.set) == 0) == (r.keys.url == "")) {
			t.Errorf("authentication = %+v", r)
		}
		for _, key := range r.keys.set {
			if !key.IsPublic() {
				t.Error("a secret is taken for a public key")
			}
		}
	})
}

func FuzzNobodyGuessesAToken(f *testing.F) {
	keys, v := memory(f)
	good, err := keys.Mint(token("gr_live", domain.ScopeRead))
	if err != nil {
		f.Fatal(err)
	}
	parts := strings.Split(good, ".")
	for _, seed := range []string{
		"", ".", "..", "a.b.c", good[:len(good)-1], good + "A", parts[0] + "." + parts[1] + ".", parts[0] + ".." + parts[2],
		"eyJhbGciOiJub25lIn0." + parts[1] + ".", "eyJhbGciOiJIUzI1NiJ9." + parts[1] + "." + parts[2], good + "." + parts[2], strings.ToLower(good),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bearer string) {
		if bearer == good {
			return
		}
		if who, err := v.Verify(t.Context(), bearer, resource); err == nil {
			t.Errorf("%q speaks for %+v", bearer, who)
		}
	})
}

func FuzzARefreshTokenHasOneSpelling(f *testing.F) {
	key := RefreshKey(strings.Repeat("k", 32))
	good := key.derive([16]byte{1}, []byte("salt"), 7).String()
	for _, seed := range []string{"", "rt_", good, good[:len(good)-1], good + "=", "RT_" + good[3:], good + "\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, presented string) {
		token, ok := parseRefresh(presented)
		if !ok {
			return
		}
		if token.String() != presented {
			t.Errorf("%q is another spelling of %q", presented, token)
		}
		if presented != good && token == key.derive(token.line, []byte("salt"), token.seq) {
			t.Errorf("%q was guessed", presented)
		}
	})
}

func FuzzADangerousURIIsNotRegistered(f *testing.F) {
	for _, seed := range []string{callback, "JavaScript:alert(1)", "data:,x", "http://localhost:1/", "blob:https://a.example/x", "app:/cb", "https:cb"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		use := useOfRedirect(uri)
		u, err := url.Parse(uri)
		if use == redirectRefused {
			return
		}
		if err != nil || u.User != nil || strings.ContainsAny(uri, "#\r\n \\") || dangerousScheme(u.Scheme) {
			t.Errorf("%q may be registered", uri)
		}
		if use == redirectUsable && u.Scheme != "https" && uri != cursorRedirect {
			if _, loopback := splitLoopback(uri); !loopback {
				t.Errorf("%q is usable", uri)
			}
		}
	})
}
