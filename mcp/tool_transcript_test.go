package mcp_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"sidequest/mcp"
)

// noon is when everything in the transcripts happens. Ids, hashes and cursors
// depend on who does what when, so they are the same in every run.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// TestToolTranscripts plays every testdata/transcripts/tools/*.txtar, each against
// a market of its own. Their form is that of the other transcripts; UPDATE=1
// rewrites the responses.
func TestToolTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/transcripts/tools/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			playToolTranscript(t, file)
		})
	}
}

func playToolTranscript(t *testing.T, file string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := open(t, func(tools *mcp.Market) { tools.Now = func() time.Time { return noon } })
	out := &txtar.Archive{Comment: archive.Comment}
	for _, section := range archive.Files {
		if section.Name != "-> request" {
			continue
		}
		m.settle(t)
		w := httptest.NewRecorder()
		m.main.ServeHTTP(w, mcp.ReadRequest(t, section.Data))
		w.Body = bytes.NewBuffer(onlyNames(t, w.Body.Bytes()))
		out.Files = append(out.Files, section, txtar.File{Name: "<- response", Data: mcp.WriteResponse(t, w)})
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

// onlyNames leaves out of tools/list what testdata/tools shows of each tool.
func onlyNames(t *testing.T, body []byte) []byte {
	t.Helper()
	if !bytes.Contains(body, []byte(`"inputSchema"`)) {
		return body
	}
	var list object
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatal(err)
	}
	for _, tool := range list["result"].(object)["tools"].([]any) {
		maps.DeleteFunc(tool.(object), func(member string, _ any) bool { return member != "name" })
	}
	short, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return short
}
