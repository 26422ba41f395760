package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// beServer makes the test program be our server, as the benchmark's own program is.
const beServer = "-serve"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == beServer {
		main()
		return
	}
	os.Exit(m.Run())
}

// The figures of so short a run mean nothing. That the real lane answers does.
func TestTheBenchmarkStillRuns(t *testing.T) {
	t.Parallel()
	peer := filepath.Join(t.TempDir(), "peer")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", peer, ".")
	build.Dir = filepath.Join("..", "peers", "mcp")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the servers of others: %v: %s", err, out)
	}
	var said strings.Builder
	p := plan{rounds: 1, span: 100 * time.Millisecond, clients: 2, out: t.TempDir(), peer: peer}
	if err := run(t.Context(), p, &said); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CPU per call against go-sdk", "CPU per call against mcp-go"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no row %q in\n%s", want, said.String())
		}
	}
	if _, err := os.Stat(filepath.Join(p.out, "mcp.json")); err != nil {
		t.Error(err)
	}
}
