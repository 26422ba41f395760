package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidequest/domain"
	"sidequest/mcp"
	"sidequest/mcp/delivery"
	"sidequest/oauth/signin"
	"sidequest/secret"
)

// complete is an environment in which serve starts.
func complete(t testing.TB) map[string]string {
	t.Helper()
	kek := filepath.Join(t.TempDir(), "kek.json")
	if _, err := secret.LoadOrCreate(kek); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"SIDEQUEST_OIDC_FILE":       providerFile(t, 0o600, `[{"id":"corp","name":"Corp","issuer":"https://id.corp.example","clientId":"c1","clientSecret":"hush"}]`),
		"SIDEQUEST_PUBLIC_URL":      "https://market.example",
		"SIDEQUEST_DATABASE_URL":    "postgres://app:pw@db.example/market",
		"SIDEQUEST_NATS_URL":        "nats://token@one.example:4222,nats://token@two.example:4222",
		"SIDEQUEST_NATS_REPLICAS":   "3",
		"SIDEQUEST_KEK_FILE":        kek,
		"SIDEQUEST_NETWORK":         "main",
		"SIDEQUEST_CHAIN_ID":        "143",
		"SIDEQUEST_REWARD_TOKENS":   "0xf0000000000000000000000000000000000000aa:USD:6, 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed:ABC:18",
		"SIDEQUEST_ARBITRATOR":      "0xe000000000000000000000000000000000000005",
		"SIDEQUEST_TRUSTED_PROXIES": "10.0.0.0/8, fd00::/8",
	}
}

// providerFile writes a file of sign-in providers.
func providerFile(t testing.TB, mode os.FileMode, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "oidc.json")
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestACompleteEnvironmentIsReadWhole(t *testing.T) {
	t.Parallel()
	env := complete(t)
	got, err := loadConfig(func(name string) string { return env[name] }, true)
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		Addr:        "127.0.0.1:8080",
		PublicURL:   "https://market.example",
		DatabaseURL: env["SIDEQUEST_DATABASE_URL"],
		NATSURL:     env["SIDEQUEST_NATS_URL"],
		Replicas:    3,
		KEKFile:     env["SIDEQUEST_KEK_FILE"],
		WakePrefix:  "sidequest",
		Network:     mcp.Network{Name: "main", ChainID: 143},
		Tokens: []domain.Token{
			{Address: "0xF0000000000000000000000000000000000000AA", Symbol: "USD", Decimals: 6},
			{Address: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", Symbol: "ABC", Decimals: 18},
		},
		Arbitrator: "0xe000000000000000000000000000000000000005",
		Proxies:    []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
		Limits:     mcp.Limits{PerAgent: 60, PerIP: 240, Span: time.Minute},
		Codes:      delivery.SketchCodes(),
		SignIn:     []signin.Provider{{ID: "corp", Name: "Corp", Issuer: "https://id.corp.example", ClientID: "c1", ClientSecret: "hush"}},
		Wallets:    true,
	}
	same := cmp.Comparer(func(a, b domain.Address) bool { return a.Is(b) })
	if diff := cmp.Diff(want, got, same, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
}

func TestEverythingThatIsWrongWithTheEnvironmentIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	_, err := loadConfig(func(string) string { return "" }, true)
	if err == nil {
		t.Fatal("an empty environment will do")
	}
	for _, s := range settings() {
		if says := strings.Contains(err.Error(), s.name+" is missing: "+s.help); says != s.required {
			t.Errorf("of %s, required %t, it says:\n%v", s.name, s.required, err)
		}
	}
	_, err = loadConfig(func(string) string { return "!" }, true)
	if err == nil {
		t.Fatal("an environment of nonsense will do")
	}
	for _, s := range settings() {
		if !strings.Contains(err.Error(), s.name+" is malformed: ") {
			t.Errorf("of nonsense in %s it does not speak:\n%v", s.name, err)
		}
	}
}

func TestADevelopmentServerNeedsNoEnvironmentButTakesNoNonsense(t *testing.T) {
	t.Parallel()
	if _, err := loadConfig(func(string) string { return "" }, false); err != nil {
		t.Error(err)
	}
	if _, err := loadConfig(func(string) string { return "!" }, false); err == nil {
		t.Error("nonsense will do")
	}
}

func TestEachSettingIsCheckedForWhatItMeans(t *testing.T) {
	t.Parallel()
	good := complete(t)
	for _, tt := range []struct{ name, value, says string }{
		{"SIDEQUEST_ADDR", "8080", "HOST:PORT"},
		{"SIDEQUEST_PUBLIC_URL", "http://market.example", "use https"},
		{"SIDEQUEST_PUBLIC_URL", "https://market.example/", "without a path or a slash"},
		{"SIDEQUEST_PUBLIC_URL", "https://market.example?x=1", "without a path or a slash"},
		{"SIDEQUEST_PUBLIC_URL", "http://127.0.0.1:8080", ""},
		{"SIDEQUEST_PUBLIC_URL", "http://localhost:8080", ""},
		{"SIDEQUEST_DATABASE_URL", "postgres://app:hush@db.example:port/market", "give a URL"},
		{"SIDEQUEST_DATABASE_URL", "mysql://app:hush@db.example/market", "give a URL"},
		{"SIDEQUEST_NATS_URL", "https://hush@nats.example", "give a URL"},
		{"SIDEQUEST_NATS_REPLICAS", "2", "give 1, 3 or 5"},
		{"SIDEQUEST_KEK_FILE", good["SIDEQUEST_KEK_FILE"] + ".no", "no such file"},
		{"SIDEQUEST_NETWORK", "mainnet", "test or main"},
		{"SIDEQUEST_CHAIN_ID", "0", "above zero"},
		{"SIDEQUEST_CHAIN_ID", "0x1", "above zero"},
		{"SIDEQUEST_REWARD_TOKENS", "0xF0000000000000000000000000000000000000AA:USD", "ADDRESS:SYMBOL:DECIMALS"},
		{"SIDEQUEST_REWARD_TOKENS", "0xF0000000000000000000000000000000000000AA::6", "ADDRESS:SYMBOL:DECIMALS"},
		{"SIDEQUEST_REWARD_TOKENS", "0xF0000000000000000000000000000000000000AA:USD:19", "up to 18"},
		{"SIDEQUEST_REWARD_TOKENS", "0xF0000000000000000000000000000000000000AA:USD:-1", "up to 18"},
		{"SIDEQUEST_REWARD_TOKENS", "F0000000000000000000000000000000000000AA:USD:6", "0x and 40 hex digits"},
		{"SIDEQUEST_ARBITRATOR", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1Beaed", "checksum"},
		{"SIDEQUEST_ARBITRATOR", "0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED", ""},
		{"SIDEQUEST_TRUSTED_PROXIES", "10.0.0.1", "networks"},
		{"SIDEQUEST_WRITES_PER_AGENT", "0", "above zero"},
		{"SIDEQUEST_WRITES_PER_IP", "many", "above zero"},
		{"SIDEQUEST_WEBHOOK_LOOPBACK", "yes", "on or off"},
		{"SIDEQUEST_WEBHOOK_LOOPBACK", "on", "leave it off"},
		{"SIDEQUEST_WEBHOOK_LOOPBACK", "off", ""},
		{"SIDEQUEST_WEBHOOK_CA_FILE", "/nowhere", "no such file"},
		{"SIDEQUEST_WEBHOOK_CA_FILE", "config_test.go", "no certificate"},
		{"SIDEQUEST_WALLET_SIGN_IN", "yes", "on or off"},
		{"SIDEQUEST_WALLET_SIGN_IN", "off", ""},
		{"SIDEQUEST_OIDC_FILE", good["SIDEQUEST_OIDC_FILE"] + ".no", "no such file"},
		{"SIDEQUEST_OIDC_FILE", providerFile(t, 0o644, `[]`), "others can read it"},
		{"SIDEQUEST_OIDC_FILE", providerFile(t, 0o600, `{"clientSecret":"hush"`), "give a JSON list"},
		{"SIDEQUEST_OIDC_FILE", providerFile(t, 0o600, `[{"id":"Corp","name":"C","issuer":"https://id.example","clientId":"c","clientSecret":"hush"}]`), "its id has"},
		{"SIDEQUEST_OIDC_FILE", providerFile(t, 0o600, `[{"id":"a","issuer":"https://id.example","clientId":"c"}]`), "give it a name"},
		{"SIDEQUEST_OIDC_FILE", providerFile(t, 0o600, `[{"id":"a","name":"A","issuer":"https://id.example"}]`), "clientId is missing"},
		{"SIDEQUEST_OIDC_FILE", providerFile(t, 0o600, `[{"id":"a","name":"A","issuer":"http://id.example","clientId":"c"}]`), "uses https"},
		{"SIDEQUEST_OIDC_FILE", providerFile(t, 0o600, `[{"id":"a","name":"A","issuer":"https://id.example?x","clientId":"c"}]`), "without query"},
		{"SIDEQUEST_OIDC_FILE", providerFile(t, 0o600, `[{"id":"dev","name":"A","issuer":"https://id.example","clientId":"c"}]`), "is taken"},
	} {
		_, err := loadConfig(func(name string) string {
			if name == tt.name {
				return tt.value
			}
			return good[name]
		}, true)
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("%s=%s: %v", tt.name, tt.value, err)
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s=%s: error = %v, want one that says %q", tt.name, tt.value, err, tt.says)
		case err != nil && strings.Contains(err.Error(), "hush"):
			t.Errorf("%s=%s: the error repeats a secret: %v", tt.name, tt.value, err)
		}
	}
}

func TestServeRefusesToStartWithoutItsEnvironment(t *testing.T) {
	t.Parallel()
	p := launch(t, []string{"SIDEQUEST_CHAIN_ID=one"}, "serve")
	if err := p.wait(t); err == nil {
		t.Error("it starts")
	}
	for _, s := range []string{"SIDEQUEST_DATABASE_URL is missing", "SIDEQUEST_KEK_FILE is missing", "SIDEQUEST_CHAIN_ID is malformed"} {
		if !strings.Contains(p.said(), s) {
			t.Errorf("it does not say %q:\n%s", s, p.said())
		}
	}
}

func TestAnUnknownCommandIsAnsweredWithAllThereAre(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"start"}} {
		var out, help bytes.Buffer
		if err := dispatch(t.Context(), args, &out, &help); err == nil || out.Len() > 0 {
			t.Errorf("%v: error = %v, on stdout %q", args, err, &out)
		}
		for _, c := range commands() {
			if !strings.Contains(help.String(), c.name) || !strings.Contains(help.String(), c.help) {
				t.Errorf("%v: %s is not in the help:\n%s", args, c.name, &help)
			}
		}
	}
	for _, c := range commands() {
		for _, args := range [][]string{{c.name, "--help"}, {"help", c.name}} {
			if c.name == "testdb" || c.name == "demo" {
				continue // they hand their arguments on, or have none
			}
			var out, complaint bytes.Buffer
			err := dispatch(t.Context(), args, &out, &complaint)
			if err != nil && !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "usage: sidequest "+c.name) {
				t.Errorf("%v does something else than help: %v\n%s%s", args, err, &out, &complaint)
			}
		}
		if c.most < 0 {
			continue
		}
		for _, args := range [][]string{{"--now"}, make([]string, c.most+1)} {
			if err := dispatch(t.Context(), append([]string{c.name}, args...), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "usage:") {
				t.Errorf("%s %q: %v, want its usage", c.name, args, err)
			}
		}
	}
	var out bytes.Buffer
	if err := dispatch(t.Context(), []string{"version"}, &out, &out); err != nil || out.String() != mcp.Version+"\n" {
		t.Errorf("version: %v, %q", err, &out)
	}
}
