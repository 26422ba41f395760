package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What a page writes where it means a deployment, and what servers of the tests
// believe to be reached by.
const (
	exampleHost   = "sidequest.example"
	exampleOrigin = "https://" + exampleHost
	testHost      = "127.0.0.1:8080"
	testOrigin    = "http://" + testHost
)

// A page is played from top to bottom against a server: every http block
// that is a request is sent, and every block that is an answer must be the one
// that came, but for what no two runs have in common. With UPDATE set, answers
// that differ are written anew.
func TestWhatPagesSayIsTrue(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"first-deal", "connect"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			playPage(t, root+"docs/"+page+".md")
		})
	}
}

func playPage(t *testing.T, file string) {
	t.Helper()
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := newDeal(t)
	fence := regexp.MustCompile("(?ms)^```http\n(.*?)^```\n")
	here := strings.NewReplacer(exampleOrigin, testOrigin, exampleHost, testHost).Replace(string(doc))
	played := fence.ReplaceAllStringFunc(here, func(block string) string {
		text := fence.FindStringSubmatch(block)[1]
		return "```http\n" + d.play(t, text) + "```\n"
	})
	if !strings.Contains(string(doc), testOrigin) {
		played = strings.NewReplacer(testOrigin, exampleOrigin, testHost, exampleHost).Replace(played)
	}
	if os.Getenv("UPDATE") == "" || t.Failed() || played == string(doc) {
		return
	}
	if err := os.WriteFile(file, []byte(played), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A deal is the document being played.
type deal struct {
	origin string            // where the server really listens
	actual map[string]string // what this run has where the document has another value
	answer *http.Response    // of the last request
	stream *http.Response    // the last answer that was a stream, still open
	frames *bufio.Reader     // of that stream
}

func newDeal(t *testing.T) *deal {
	t.Helper()
	m := openMarket(t)
	d := &deal{origin: m.start(t).origin, actual: map[string]string{}}
	t.Cleanup(d.hangUp)
	d.actual["TOKEN_OF_HANNA"] = strings.TrimSpace(m.printed(t, "--agent", "hanna", "--scope", "hire"))
	d.actual["TOKEN_OF_WANDA"] = strings.TrimSpace(m.printed(t, "--agent", "wanda", "--scope", "work"))
	return d
}

// awaitViews waits until the views show all that was written, by whomever: the
// readers of the document type slower than that.
func (d *deal) awaitViews(t *testing.T) {
	t.Helper()
	eventually(t, "the views have caught up", func() bool {
		var report healthReport
		_, body := fetch(t, http.MethodGet, d.origin+"/health", "", "")
		if err := json.Unmarshal([]byte(body), &report); err != nil {
			t.Fatal(err)
		}
		return report.Postgres.OK && report.behind() == 0
	})
}

// behind is how far the last of the consumers is behind the log.
func (r healthReport) behind() int64 {
	var most int64
	for _, lag := range r.Consumers {
		most = max(most, lag)
	}
	return most
}

// play sends a request, or compares an answer; it returns the block as it should be.
func (d *deal) play(t *testing.T, block string) string {
	t.Helper()
	var got string
	switch {
	case strings.HasPrefix(block, "HTTP/1.1"):
		got = d.received(t, block)
	case strings.HasPrefix(block, "data: "):
		got = d.nextFrames(t, strings.Count(block, "data: "))
	default:
		d.awaitViews(t)
		d.send(t, block)
		return block
	}
	d.learn(block, got)
	diff := cmp.Diff(essence(t, block), essence(t, got))
	if diff != "" && os.Getenv("UPDATE") != "" {
		return d.inItsWords(got)
	}
	if diff != "" {
		t.Fatalf("the document and the server differ (-document +server):\n%s", diff)
	}
	return block
}

// send sends a request block: request line, headers, an empty line, the body.
func (d *deal) send(t *testing.T, block string) {
	t.Helper()
	for document, actual := range d.actual {
		block = strings.ReplaceAll(block, document, actual)
	}
	head, body, _ := strings.Cut(block, "\n\n")
	lines := strings.Split(head, "\n")
	method, path, _ := strings.Cut(strings.TrimSuffix(lines[0], " HTTP/1.1"), " ")
	r, err := http.NewRequestWithContext(t.Context(), method, d.origin+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	r.Host = r.Header.Get("Host")
	if d.answer, err = http.DefaultClient.Do(r); err != nil { //nolint:bodyclose // whoever reads the answer closes it, and hangUp a stream
		t.Fatal(err)
	}
	if d.answer.Header.Get("Content-Type") == "text/event-stream" {
		d.hangUp()
		d.stream, d.frames = d.answer, bufio.NewReader(d.answer.Body)
	}
}

// hangUp loses the connection of the open stream.
func (d *deal) hangUp() {
	if d.stream != nil {
		_ = d.stream.Body.Close()
	}
}

// received returns the answer in the form of a block, with the headers that the
// document shows, and as many frames as it shows if it is a stream.
func (d *deal) received(t *testing.T, block string) string {
	t.Helper()
	head, body, _ := strings.Cut(block, "\n\n")
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %s\n", d.answer.Status)
	for _, line := range strings.Split(head, "\n")[1:] {
		name, _, _ := strings.Cut(line, ": ")
		fmt.Fprintf(&b, "%s: %s\n", name, d.answer.Header.Get(name))
	}
	b.WriteString("\n")
	if d.answer == d.stream {
		return b.String() + d.nextFrames(t, max(1, strings.Count(body, "data: ")))
	}
	raw, err := io.ReadAll(d.answer.Body)
	_ = d.answer.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, bytes.TrimSpace(raw), "", "  "); err != nil {
		t.Fatalf("the answer is no JSON: %s", raw)
	}
	return b.String() + pretty.String() + "\n"
}

// nextFrames reads n frames of the open stream.
func (d *deal) nextFrames(t *testing.T, n int) string {
	t.Helper()
	stuck := time.AfterFunc(20*time.Second, d.hangUp)
	defer stuck.Stop()
	var frames []string
	for len(frames) < n {
		line, err := d.frames.ReadString('\n')
		if err != nil {
			t.Fatalf("frame %d of %d: %v", len(frames)+1, n, err)
		}
		if strings.HasPrefix(line, "data: ") {
			frames = append(frames, line)
		}
	}
	return strings.Join(frames, "\n")
}

// cursors are what a later request of the document may repeat.
var cursors = regexp.MustCompile(`c1\.[A-Za-z0-9_-]+`)

// learn notes which cursor of this run stands for which of the document.
func (d *deal) learn(block, got string) {
	documented, actual := cursors.FindAllString(block, -1), cursors.FindAllString(got, -1)
	if len(documented) != len(actual) {
		return // the block is written anew, or refused
	}
	for i, cursor := range documented {
		d.actual[cursor] = actual[i]
	}
}

// inItsWords returns what came, with the document's own cursors where it has them, so
// that requests further down go on repeating them.
func (d *deal) inItsWords(got string) string {
	for document, actual := range d.actual {
		got = strings.ReplaceAll(got, actual, document)
	}
	return got
}

// differing is what no two runs have in common: cursors, times, hashes, wallets and
// the ids that depend on times.
var differing = regexp.MustCompile(strings.Join([]string{
	cursors.String(),
	`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?`,
	`0x[0-9a-fA-F]{40,64}`,
	`\b[0-9a-f]{64}\b`,
	`fr_[0-9a-z]{20}`,
	`\b01[0-9A-Z]{24}\b`,
}, "|"))

var unixTime = regexp.MustCompile(`("occurredAt": ?)\d+`)

// essence returns the head of a block and its JSON, decoded, without what differs
// in any case.
func essence(t *testing.T, block string) []any {
	t.Helper()
	head, body := "", unixTime.ReplaceAllString(differing.ReplaceAllString(block, "~"), "${1}0")
	if strings.HasPrefix(body, "HTTP/1.1") {
		head, body, _ = strings.Cut(body, "\n\n")
	}
	all := []any{head}
	decoder := json.NewDecoder(strings.NewReader(strings.ReplaceAll("\n"+body, "\ndata: ", "\n")))
	for {
		var v any
		err := decoder.Decode(&v)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("no JSON: %v in %s", err, body)
		}
		all = append(all, v)
	}
}
