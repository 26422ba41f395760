package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// A site is a deployment that a browser can open: one replica under its own
// address, with the sign-in of development.
type site struct {
	*market
	*replica
	browser context.Context // Chromium, shared by the stories of one test
}

func openSite(t *testing.T) *site {
	t.Helper()
	s := &site{market: openMarket(t)}
	addr := freeAddress(t)
	s.Issuer = "http://" + addr
	s.replica = s.start(t, func(c *config) { c.Addr, c.Development, c.Wallets = addr, true, true })
	s.browser = newChromium(t)
	return s
}

// newChromium starts a browser that ends with the test.
func newChromium(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, quit := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until it is gone
		quit()
		stop()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	return ctx
}

// A tab is one person's browser: cookies of its own.
type tab struct {
	t   *testing.T
	ctx context.Context
}

const tabTime = 5 * time.Minute // for all that happens in one tab

// open opens a tab with the cookies of nobody.
func (s *site) open(t *testing.T) *tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(s.browser, chromedp.WithNewBrowserContext())
	ctx, stop := context.WithTimeout(ctx, tabTime)
	t.Cleanup(func() {
		stop()
		closeTab()
	})
	b := &tab{t, ctx}
	b.do(chromedp.EmulateViewport(1200, 900))
	return b
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatalf("in the browser: %v", err)
	}
}

func (b *tab) visit(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate(address))
}

// click clicks on the first thing of a selector and waits for the page that follows.
func (b *tab) click(selector string) {
	b.t.Helper()
	if _, err := chromedp.RunResponse(b.ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		b.t.Fatalf("click %s at %s: %v", selector, b.location(), err)
	}
}

// press presses a button by its text.
func (b *tab) press(text string) {
	b.t.Helper()
	if _, err := chromedp.RunResponse(b.ctx, chromedp.Click(fmt.Sprintf(`//button[starts-with(normalize-space(.), %q)]`, text))); err != nil {
		b.t.Fatalf("press %q at %s: %v\n%s", text, b.location(), err, b.text())
	}
}

func (b *tab) tick(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

func (b *tab) location() string {
	b.t.Helper()
	return evaluate[string](b, `location.href`)
}

// evaluate returns what JavaScript says of the page. It works where the page itself
// may run none.
func evaluate[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("ask the browser: %v", err)
	}
	return value
}

// text is what a person reads on the page.
func (b *tab) text() string {
	b.t.Helper()
	return evaluate[string](b, `document.body.innerText`)
}

func (b *tab) reads(want ...string) {
	b.t.Helper()
	text := b.text()
	for _, w := range want {
		if !strings.Contains(text, w) {
			b.t.Errorf("the page at %s does not say %q:\n%s", b.location(), w, text)
		}
	}
}

// signIn signs one of the ready-made people in, from the sign-in page.
func (b *tab) signIn(s *site, person string) {
	b.t.Helper()
	if !strings.HasPrefix(b.location(), s.origin+"/sign-in") {
		b.visit(s.origin + "/sign-in")
	}
	b.press("Continue with a ready-made person")
	b.click(`button[value="` + person + `"]`)
}

// An application is an MCP client on the person's computer, as those of others are:
// it registers itself, sends the person to the server and waits on loopback.
type application struct {
	s        *site
	t        *testing.T
	id       string
	redirect string
	board    string // path of the board it asks for; "" for main
	verifier string
	state    string
	answers  chan url.Values
	token    string
	refresh  string
}

func (s *site) application(t *testing.T, name string) *application {
	t.Helper()
	a := &application{s: s, t: t, verifier: rand.Text() + rand.Text(), answers: make(chan url.Values, 5)}
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callback" {
			a.answers <- r.URL.Query()
			_, _ = io.WriteString(w, "You can close this page.")
		}
	}))
	t.Cleanup(back.Close)
	a.redirect = back.URL + "/callback"
	var registered struct {
		ID string `json:"client_id"`
	}
	a.post("/register", "application/json", mustJSON(t, map[string]any{
		"client_name": name, "redirect_uris": []string{a.redirect}, "token_endpoint_auth_method": "none",
	}), &registered)
	a.id = registered.ID
	return a
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func (a *application) post(path, kind, body string, into any) {
	a.t.Helper()
	answer, err := http.Post(a.s.origin+path, kind, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		a.t.Fatalf("POST %s: %s %s %v", path, answer.Status, raw, err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		a.t.Fatal(err)
	}
}

// asks returns where the application sends the person for scopes.
func (a *application) asks(scopes ...string) string {
	sum := sha256.Sum256([]byte(a.verifier))
	a.state = rand.Text()
	return a.s.origin + "/authorize?" + url.Values{
		"client_id": {a.id}, "redirect_uri": {a.redirect}, "response_type": {"code"}, "state": {a.state},
		"scope": {strings.Join(scopes, " ")}, "resource": {a.s.origin + a.board + "/mcp"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode()
}

// answer waits for what came back with the person.
func (a *application) answer() url.Values {
	a.t.Helper()
	select {
	case answer := <-a.answers:
		if answer.Get("state") != a.state || answer.Get("iss") != a.s.origin {
			a.t.Errorf("the answer is %v, want state %q and iss %q", answer, a.state, a.s.origin)
		}
		return answer
	case <-time.After(30 * time.Second):
		a.t.Fatal("nothing came back to the application")
	}
	panic("unreachable")
}

// redeem gets a token for the code that came back, and returns its scopes.
func (a *application) redeem() string {
	a.t.Helper()
	return a.exchange(url.Values{
		"grant_type": {"authorization_code"}, "code": {a.answer().Get("code")}, "client_id": {a.id},
		"redirect_uri": {a.redirect}, "code_verifier": {a.verifier},
	})
}

// renew gets another token, and returns its scopes.
func (a *application) renew() string {
	a.t.Helper()
	return a.exchange(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {a.refresh}, "client_id": {a.id}})
}

func (a *application) exchange(form url.Values) (scope string) {
	a.t.Helper()
	var got struct {
		Token   string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Scope   string `json:"scope"`
	}
	a.post("/token", "application/x-www-form-urlencoded", form.Encode(), &got)
	a.token, a.refresh = got.Token, got.Refresh
	return got.Scope
}

// nothingCame fails if something came back.
func (a *application) nothingCame() {
	a.t.Helper()
	select {
	case answer := <-a.answers:
		a.t.Errorf("the application got %v", answer)
	default:
	}
}

// call calls a tool as the application does, and returns the answer's body.
func (a *application) call(tool string, args map[string]any) (body string) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.s.origin+"/api/"+tool, strings.NewReader(mustJSON(a.t, args)))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+a.token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(raw)
}

// soon calls a tool until its answer says something, which it has to within a second.
func (a *application) soon(tool, want string) {
	a.t.Helper()
	for deadline := time.Now().Add(time.Second); ; {
		answer := a.call(tool, map[string]any{})
		if strings.Contains(answer, want) {
			return
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("after a second %s answers %s, without %q", tool, answer, want)
		}
	}
}
