package main

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// command runs a command of the program beside the market and returns what it says.
func (m *market) command(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t), args...)
	cmd.Env = append(cmd.Environ(), m.environment()...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// whoamiStatus calls a tool with a token until the answer has a status.
func whoamiStatus(t *testing.T, origin, bearer string, want int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, origin+"/api/whoami", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+bearer)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("whoami at %s = %d, want %d", origin, resp.StatusCode, want)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func publishedKeys(t *testing.T, origin string) int {
	t.Helper()
	resp, err := http.Get(origin + "/jwks")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var set struct {
		Keys []any `json:"keys"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&set); err != nil {
		t.Fatal(err)
	}
	return len(set.Keys)
}

func TestTheSigningKeyIsReplacedWhileReplicasRun(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	here, there := m.start(t), m.start(t)
	token := m.join(t, 1, "ann")[0].tokens[0]
	whoamiStatus(t, here.origin, token, http.StatusOK)

	m.command(t, "rotate-keys")
	deadline := time.Now().Add(time.Minute)
	for publishedKeys(t, here.origin) != 2 || publishedKeys(t, there.origin) != 2 {
		if time.Now().After(deadline) {
			t.Fatal("the new key is not published everywhere")
		}
		<-time.After(50 * time.Millisecond)
	}
	whoamiStatus(t, there.origin, token, http.StatusOK)

	m.command(t, "rotate-keys", "--compromised")
	whoamiStatus(t, here.origin, token, http.StatusUnauthorized)
	whoamiStatus(t, there.origin, token, http.StatusUnauthorized)
	fresh := m.join(t, 1, "ben")[0].tokens[0]
	whoamiStatus(t, there.origin, fresh, http.StatusOK)
}

func TestAClientCanBeRegisteredByThoseWhoRunTheDeployment(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	r := m.start(t)
	said := m.command(t, "client", "--secret", "Back office", "https://office.example/cb")
	id, secret, found := strings.Cut(strings.TrimPrefix(strings.TrimSpace(said), "client_id "), "\nclient_secret ")
	if !found {
		t.Fatalf("it said %q", said)
	}
	for password, want := range map[string]string{secret: "invalid_grant", "other": "invalid_client"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.origin+"/token", strings.NewReader("grant_type=refresh_token&refresh_token=x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.SetBasicAuth(id, password)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Error string `json:"error"`
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Error != want {
			t.Errorf("%d %s, %v; want %s", resp.StatusCode, answer.Error, err, want)
		}
		_ = resp.Body.Close()
	}
}
