package main

import (
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/oklog/ulid/v2"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/secret"
)

// TestPeopleInABrowser lets people do in Chromium what they do in theirs. The
// stories share a server and a browser; each is about agents of its own.
func TestPeopleInABrowser(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	// Alone: whenever its operator picks an agent for one application, those that
	// wait for an agent get it too.
	t.Run("an application connects from nothing to a working agent", s.connectFromNothing)
	for _, story := range []struct {
		name string
		play func(*testing.T)
	}{
		{"a person denies", s.deny},
		{"an application asks for more", s.stepUp},
		{"another installation asks for less", s.secondInstallation},
		{"an agent is refused and another proposed", s.refusedSetup},
		{"a private board is for its members", s.privateBoard},
		{"no other page frames the consent", s.frame},
		{"by keyboard alone", s.keyboard},
		{"without JavaScript", s.withoutJavaScript},
		{"a wallet of the browser signs in", s.wallet},
		{"what others send does nothing", s.forgedForms},
		{"a form is good for its session alone", s.switchedAccount},
		{"a person looks after what is theirs", s.lookAfter},
		{"another of this computer's names", s.anotherName},
		{"every page is fit for every reader", s.everyPage},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			story.play(t)
		})
	}
}

var approveURL = regexp.MustCompile(`"approveUrl":"([^"]+)"`)

func (s *site) connectFromNothing(t *testing.T) {
	b, app := s.open(t), s.application(t, "Trusty \u202eClient")
	b.visit(app.asks(domain.ScopeRead, domain.ScopeHire))
	b.reads("Sign in")
	b.signIn(s, "ada")
	b.reads("Signed in as Ada Okafor", "Let Trusty Client act for you?", "unverified name", "a program on this computer",
		"/mcp", "Set up a new agent", "Never: pay, move earnings or ask for permissions of a wallet.", "Deny", "Allow")
	b.tick(`input[value="new"]`)
	b.press("Allow")
	if scope := app.redeem(); scope != domain.ScopeSetup {
		t.Errorf("before there is an agent the application may %q", scope)
	}
	answer := app.call("create_agent", map[string]any{"operationKey": "k1", "name": "Ada's first", "description": "Translates handbooks."})
	found := approveURL.FindStringSubmatch(answer)
	if found == nil {
		t.Fatalf("create_agent answers %s", answer)
	}
	b.visit(s.origin + "/approvals")
	b.reads("A new agent, Ada's first?")
	b.visit(found[1])
	b.reads("A new agent, Ada's first?", "Trusty Client, which you connected, proposes this agent.", "Translates handbooks.", "UTC", "Refuse", "Approve")
	b.looks("approve-agent")
	b.tick(`input[name="role"][value="hire"]`)
	b.press("Approve")
	b.reads("You approved this", "What it may start now: hires.")
	b.looks("approved")
	if who := app.call("whoami", map[string]any{}); !strings.Contains(who, `Ada's first`) || !strings.Contains(who, `"hire"`) {
		t.Errorf("with the same token whoami answers %s", who)
	}
	b.visit(s.origin + "/connections")
	b.reads("Trusty Client", "Ada's first", "Hire.", "new")

	asked := approveURL.FindStringSubmatch(app.call("request_role", map[string]any{"operationKey": "k2", "role": "work"}))
	if asked == nil {
		t.Fatal("request_role does not say where to decide")
	}
	other := s.open(t)
	other.visit(asked[1])
	other.signIn(s, "ben")
	other.reads("There is no such question for you")
	b.visit(asked[1])
	b.reads("May Ada's first take on work?")
	b.looks("approve-role")
	b.press("Refuse")
	b.reads("You refused this", "The agent did not get the role work.")
	b.visit(s.origin + "/approvals")
	b.looks("approvals-decided")
}

// operator returns the id of a ready-made person.
func (s *site) operator(person string) string {
	return domain.DeriveID("op", s.origin+"/dev-idp", person, "0")
}

// agentOf gives a ready-made person an agent, whose roles are hire alone.
func (s *site) agentOf(t *testing.T, person, name string) domain.AgentKey {
	t.Helper()
	owner := domain.AgentKey(s.operator(person))
	var key domain.AgentKey
	s.with(t, func(ctx context.Context, store *eventstore.Store, vault secret.Vault) error {
		wallet, err := managedWallet(ctx, vault, domain.DevelopmentAgent(name))
		if err != nil {
			return err
		}
		op := func() eventstore.Operation {
			return eventstore.Operation{Owner: owner, Key: ulid.Make().String(), Tool: "test", At: time.Now()}
		}
		if _, err := eventstore.Execute(ctx, store, op(), domain.RegisterAgent{Name: name, Wallet: wallet}); err != nil {
			return err
		}
		key = domain.DevelopmentAgent(name)
		_, err = eventstore.Execute(ctx, store, op(), domain.SetRoles{AgentKey: key, Roles: []domain.Role{domain.RoleHire}})
		return err
	})
	return key
}

func (s *site) deny(t *testing.T) {
	b, app := s.open(t), s.application(t, "Denied")
	b.visit(app.asks(domain.ScopeHire))
	b.signIn(s, "ben")
	b.press("Deny")
	if answer := app.answer(); answer.Get("error") != "access_denied" || answer.Has("code") {
		t.Errorf("the application got %v", answer)
	}
	b.visit(s.origin + "/connections")
	if strings.Contains(b.text(), "Denied") {
		t.Error("what was denied is connected")
	}
}

func (s *site) privateBoard(t *testing.T) {
	s.board(t, s.replica, domain.Board{Slug: "acme", Name: "Acme", Private: true})
	b, app := s.open(t), s.application(t, "Curious")
	app.board = "/b/acme"
	b.visit(app.asks(domain.ScopeRead))
	b.signIn(s, "ben")
	b.reads("This is not allowed", "This board is private, for its members alone", s.operator("ben"))
	s.member(t, "admit", s.operator("ben"))
	b.visit(app.asks(domain.ScopeRead))
	b.reads("Let Curious act for you?", "Acme")
	b.tick(`input[value="new"]`)
	s.member(t, "dismiss", s.operator("ben")) // while the page is open
	b.press("Allow")
	b.reads("This is not allowed", "This board is private, for its members alone")
	app.nothingCame()
}

func (s *site) stepUp(t *testing.T) {
	key := s.agentOf(t, "judith", "Stepper")
	b, app := s.open(t), s.application(t, "Growing client")
	b.visit(app.asks(domain.ScopeRead))
	b.signIn(s, "judith")
	b.tick(fmt.Sprintf(`input[name="agent"][value=%q]`, key))
	b.press("Allow")
	if scope := app.redeem(); scope != domain.ScopeRead {
		t.Errorf("at first it may %q", scope)
	}
	b.visit(app.asks(domain.ScopeRead, domain.ScopeHire, domain.ScopeWork))
	b.reads("Let Growing client do more?", "already allowed", "new")
	if !evaluate[bool](b, fmt.Sprintf(`document.querySelector('input[name="agent"][value=%q]').checked`, key)) {
		t.Error("the agent of before is not proposed")
	}
	b.looks("consent-more")
	b.tick(`input[name="scope"][value="sidequest:work"]`) // leaves it out
	b.press("Allow")
	if scope := app.redeem(); scope != domain.ScopeRead+" "+domain.ScopeHire {
		t.Errorf("after the second consent it may %q", scope)
	}
	b.visit(s.origin + "/connections")
	if n := strings.Count(b.text(), "Acts as"); n != 1 {
		t.Errorf("there are %d connections, want the one of before", n)
	}
	b.tick(`summary`)
	b.looks("connections-change")
	b.tick(`input[name="scope"][value="sidequest:work"]`)
	b.press("Save")
	if scope := app.renew(); scope != strings.Join([]string{domain.ScopeRead, domain.ScopeHire, domain.ScopeWork}, " ") {
		t.Errorf("widened on the page and renewed, it may %q", scope)
	}
	b.tick(`summary`)
	b.tick(`input[name="scope"][value="sidequest:hire"]`)
	b.press("Save")
	app.soon("request_quotes", "insufficient-scope")
}

// frame puts the consent page into a page of another site: attack 17.
func (s *site) frame(t *testing.T) {
	b, app := s.open(t), s.application(t, "Framed")
	b.visit(app.asks(domain.ScopeRead))
	b.signIn(s, "ben")
	consent := b.location()
	trap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<h1>Win a prize</h1><iframe src=%q onload="document.title = 'loaded'"></iframe>`, consent)
	}))
	t.Cleanup(trap.Close)
	b.visit(trap.URL)
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool](`document.title === "loaded"`)); err != nil {
		t.Fatal(err)
	}
	frames, err := chromedp.Call(b.ctx, cdppage.GetFrameTree, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range frames.FrameTree.ChildFrames {
		if strings.HasPrefix(child.Frame.URL, s.origin) {
			t.Errorf("the frame shows %s", child.Frame.URL)
		}
	}
	app.nothingCame()
}

// keyboard goes through sign-in and consent with Tab, Space and Enter alone.
func (s *site) keyboard(t *testing.T) {
	key := s.agentOf(t, "ben", "Keys")
	b, app := s.open(t), s.application(t, "Keyboard client")
	b.visit(app.asks(domain.ScopeRead, domain.ScopeHire))
	b.tabTo("Continue with a ready-made person")
	b.enter()
	b.tabTo("Ben Lindqvist")
	b.enter()
	b.reads("Let Keyboard client act for you?")
	b.tabTo("radio")
	for range 20 { // arrows go through the agents
		if evaluate[string](b, `document.activeElement.value`) == string(key) {
			break
		}
		b.do(chromedp.KeyEvent(kb.ArrowDown))
	}
	b.do(chromedp.KeyEvent(" "))
	b.tabTo("Allow")
	b.enter()
	if scope := app.redeem(); scope != domain.ScopeRead+" "+domain.ScopeHire {
		t.Errorf("it may %q", scope)
	}
}

// tabTo presses Tab until the thing of a text, or of a type, has the focus, and sees
// to it that the focus shows all the way.
func (b *tab) tabTo(want string) {
	b.t.Helper()
	for range 60 {
		b.do(chromedp.KeyEvent("\t"))
		at := evaluate[struct {
			Text, Type string
			Shown      bool
		}](b, `(() => { const e = document.activeElement;
			const shown = n => n && getComputedStyle(n).outlineStyle !== "none" && parseFloat(getComputedStyle(n).outlineWidth) >= 2;
			return {Text: e.innerText || "", Type: e.type || "", Shown: e === document.body || shown(e) || shown(e.closest(".choice"))}; })()`)
		if !at.Shown {
			b.t.Errorf("one cannot see that %q has the focus", at.Text+at.Type)
		}
		if strings.HasPrefix(strings.TrimSpace(at.Text), want) || at.Type == want {
			return
		}
	}
	b.t.Fatalf("Tab never comes to %q at %s", want, b.location())
}

func (b *tab) enter() {
	b.t.Helper()
	if _, err := chromedp.RunResponse(b.ctx, chromedp.KeyEvent("\r")); err != nil {
		b.t.Fatalf("press Enter at %s: %v", b.location(), err)
	}
}

func (s *site) withoutJavaScript(t *testing.T) {
	key := s.agentOf(t, "ben", "Plain")
	b, app := s.open(t), s.application(t, "Plain client")
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.visit(app.asks(domain.ScopeRead))
	b.signIn(s, "ben")
	b.tick(fmt.Sprintf(`input[name="agent"][value=%q]`, key))
	b.press("Allow")
	if scope := app.redeem(); scope != domain.ScopeRead {
		t.Errorf("it may %q", scope)
	}
	signer, address := newAccount(t)
	b.visit(s.origin + "/connections")
	b.press("Sign out")
	b.visit(s.origin + "/sign-in/wallet?return_to=/account")
	b.do(chromedp.SendKeys(chromedp.CSS(`#address`), address))
	b.press("Continue")
	text := evaluate[string](b, `document.querySelector('input[name="message"]').value`)
	b.do(chromedp.SendKeys(chromedp.CSS(`#signature`), personalSign(t, signer, text)))
	b.press("Continue")
	b.reads("Your account", address[:6])
}

func newAccount(t *testing.T) (*ecdsa.PrivateKey, string) {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key, crypto.PubkeyToAddress(key.PublicKey).Hex()
}

// personalSign signs a message given as 0x and hex digits, as wallets do.
func personalSign(t *testing.T, key *ecdsa.PrivateKey, message string) string {
	t.Helper()
	text, err := hex.DecodeString(strings.TrimPrefix(message, "0x"))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := crypto.Sign(crypto.Keccak256(fmt.Appendf(nil, "\x19Ethereum Signed Message:\n%d%s", len(text), text)), key)
	if err != nil {
		t.Fatal(err)
	}
	sig[64] += 27
	return "0x" + hex.EncodeToString(sig)
}

// wallet puts a small wallet into the browser, as an extension would.
func (s *site) wallet(t *testing.T) {
	key, address := newAccount(t)
	b := s.open(t)
	b.do(chromedp.ExposeFunc("walletDoes", func(_ context.Context, ask struct {
		Method string   `json:"method"`
		Params []string `json:"params"`
	}) (string, error) {
		if ask.Method == "eth_requestAccounts" {
			return address, nil
		}
		return personalSign(t, key, ask.Params[0]), nil
	}))
	_, err := chromedp.Call(b.ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: `
		window.ethereum = {request: async ({method, params}) => {
			const answer = await window.walletDoes({method, params: params || []});
			return method === "eth_requestAccounts" ? [answer] : answer;
		}};`})
	if err != nil {
		t.Fatal(err)
	}
	b.visit(s.origin + "/sign-in/wallet?return_to=/account")
	b.looks("wallet-address")
	b.press("Use the wallet of this browser")
	b.reads("This costs nothing, moves nothing and allows no payment.", address)
	b.looks("wallet-text")
	b.press("Sign with my wallet")
	b.reads("Your account", address[:6])
	b.looks("account")
	s.open(t).signIn(s, "ben") // so that he has been here before
	b.press("Add a ready-made person")
	b.click(`button[value="ben"]`)
	b.reads("Nothing was added to your account", "This identity already belongs to another account here", "Your account")
}

func (s *site) lookAfter(t *testing.T) {
	key := s.agentOf(t, "ada", "Looked after")
	b, app := s.open(t), s.application(t, "Ending client")
	b.visit(app.asks(domain.ScopeRead, domain.ScopeHire))
	b.signIn(s, "ada")
	b.tick(fmt.Sprintf(`input[name="agent"][value=%q]`, key))
	b.press("Allow")
	app.redeem()

	b.visit(s.origin + "/agents/" + string(key))
	b.reads("Looked after", "Ending client")
	b.looks("agent")
	b.tick(`input[name="role"][value="hire"]`)
	b.tick(`input[name="role"][value="work"]`)
	b.press("Save")
	b.reads("Saved.")
	if who := app.call("whoami", map[string]any{}); !strings.Contains(who, "Looked after") {
		t.Errorf("whoami answers %s", who)
	}
	refused := app.call("request_quotes", requestArgs("one"))
	if !strings.Contains(refused, "role-required") {
		t.Errorf("without the role the agent hears %s", refused)
	}
	b.tick(`.ending > summary`)
	b.looks("connection-ending")
	b.press("End it now")
	b.reads("The connection of Ending client has ended.")
	b.looks("connection-ended")
	app.soon("whoami", "unauthenticated")
	b.visit(s.origin + "/docs")
	b.click(`.who a[href="/connections"]`)
	b.reads("Applications that act for you")
	stranger := s.open(t)
	stranger.visit(s.origin + "/agents/" + string(key))
	stranger.signIn(s, "ben")
	stranger.reads("There is no such agent of yours")
}

// anotherName comes by localhost, whose cookies are not those of 127.0.0.1.
func (s *site) anotherName(t *testing.T) {
	b := s.open(t)
	b.visit(strings.Replace(s.origin, "127.0.0.1", "localhost", 1) + "/sign-in?return_to=/agents")
	b.signIn(s, "ben")
	if at := b.location(); at != s.origin+"/agents" {
		t.Errorf("the sign-in ends at %s", at)
	}
	for _, name := range []string{"localhost", "localhost.", "LOCALHOST."} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.origin+"/sign-in?return_to=/agents", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = name + ":" + r.URL.Port()
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if at := answer.Header.Get("Location"); answer.StatusCode != http.StatusTemporaryRedirect || at != s.origin+"/sign-in?return_to=/agents" {
			t.Errorf("%s is answered %d and sent to %q", name, answer.StatusCode, at)
		}
	}
}
