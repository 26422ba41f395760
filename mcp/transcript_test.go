package mcp

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// TestTranscripts plays every testdata/transcripts/*.txtar. A section
// "-> request" has a request line, headers, an empty line and a body, which is
// sent as it stands; "<- response" has the status, the headers that clients act
// on, an empty line and the body. UPDATE=1 rewrites the responses.
//
// A request comes from an agent who may do everything and accepts JSON, unless
// it says otherwise; a header without a value is not sent. STATE stands for the
// requestState of the last answer that had one.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/transcripts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			playTranscript(t, file)
		})
	}
}

func playTranscript(t *testing.T, file string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := &txtar.Archive{Comment: archive.Comment}
	var state []byte // what the last question came with
	for _, section := range archive.Files {
		if section.Name != "-> request" {
			continue
		}
		w := httptest.NewRecorder()
		newServer(t).ServeHTTP(w, readRequest(t, bytes.ReplaceAll(section.Data, []byte("STATE"), state)))
		if found := requestState.FindSubmatch(w.Body.Bytes()); found != nil {
			state = found[1]
		}
		out.Files = append(out.Files, section, txtar.File{Name: "<- response", Data: writeResponse(t, w)})
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(txtar.Format(archive)), string(txtar.Format(out))); diff != "" {
		t.Errorf("the transcript differs (UPDATE=1 rewrites it):\n%s", diff)
	}
}

func readRequest(t *testing.T, section []byte) *http.Request {
	t.Helper()
	head, body, _ := strings.Cut(string(section), "\n\n")
	lines := bufio.NewScanner(strings.NewReader(head))
	lines.Scan()
	method, path, _ := strings.Cut(lines.Text(), " ")
	r := httptest.NewRequest(method, path, strings.NewReader(strings.TrimSuffix(body, "\n")))
	r.Header.Set("Authorization", "Bearer agent")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	seen := map[string]bool{}
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if !seen[name] {
			r.Header.Del(name)
		}
		seen[name] = true
		if value != "" {
			r.Header.Add(name, strings.TrimPrefix(value, " "))
		}
	}
	return r
}

// told are the headers a transcript shows.
var told = []string{
	"Content-Type", "Cache-Control", "X-Accel-Buffering", "Allow", "WWW-Authenticate", "Retry-After",
	"Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers",
	"Access-Control-Expose-Headers", "Mcp-Session-Id",
}

// requestState is what a question comes with. It is different each time.
var requestState = regexp.MustCompile(`"requestState": ?"([A-Za-z0-9_-]{10,})"`)

// What changes with every page that is edited, and with every fault.
var (
	errorIDs = regexp.MustCompile(`"errorId": ?"[0-9a-f]{12}"`)
	sizes    = regexp.MustCompile(`"size": ?[0-9]+`)
	digests  = regexp.MustCompile(`sha256:[0-9a-f]{64}`)
)

func writeResponse(t *testing.T, w *httptest.ResponseRecorder) []byte {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintln(&b, w.Code)
	for _, name := range told {
		for _, value := range w.Header().Values(name) {
			if name != "Cache-Control" || value != "no-store" {
				fmt.Fprintf(&b, "%s: %s\n", name, value)
			}
		}
	}
	body := jsontext.Value(w.Body.Bytes())
	if w.Header().Get("Content-Type") == "application/json" {
		if err := body.Indent(jsontext.WithIndent("  ")); err != nil {
			t.Fatalf("%v: %s", err, w.Body)
		}
	}
	body = requestState.ReplaceAll(body, []byte(`"requestState": "…"`))
	body = errorIDs.ReplaceAll(body, []byte(`"errorId": "…"`))
	body = digests.ReplaceAll(sizes.ReplaceAll(body, []byte(`"size": 0`)), []byte("sha256:…"))
	body = bytes.ReplaceAll(body, instructionsJSON(t), []byte(`"…"`))
	if len(body) > 0 {
		fmt.Fprintf(&b, "\n%s\n", bytes.TrimSpace(body))
	}
	return b.Bytes()
}

func instructionsJSON(t *testing.T) []byte {
	t.Helper()
	b, err := jsontext.AppendQuote(nil, Instructions("https://sidequest.example"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
