package mcp

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
)

// ours are the texts of answers that Sidequest writes and that no pattern, format
// or list of values describes: where they are, and what they hold. Whatever is
// neither here nor labelled as foreign fails the test below.
var ours = map[string]string{
	"/code":                           "one of the documented codes",
	"/message":                        "a sentence of ours",
	"/reason":                         "a class of refusals",
	"/field":                          "a pointer to an argument of the caller's own",
	"/scope":                          "names of scopes",
	"/role":                           "the name of a role",
	"/next/tool":                      "the name of a tool",
	"/operationId":                    "an id",
	"/approveUrl":                     "an address of ours",
	"/untrusted/notice":               "a sentence of ours",
	"/untrusted/at/*/path":            "a pointer",
	"/result/boardId":                 "a slug",
	"/result/profile/image":           "an address of ours",
	"/result/resource":                "an address of ours",
	"/result/stacks/*":                "names of contracts of ours",
	"/result/boards/*/boardId":        "a slug",
	"/result/boards/*/resource":       "an address of ours",
	"/result/boards/*/stacks/*":       "names of contracts of ours",
	"/result/approvals/*/approveUrl":  "an address of ours",
	"/result/approveUrl":              "an address of ours",
	"/result/operator":                "an id",
	"/result/message":                 "a sentence of ours",
	"/result/scopes/*":                "names of scopes",
	"/result/roles/*":                 "names of roles",
	"/result/board/boardId":           "a slug",
	"/result/explorer":                "an address of ours",
	"/result/x402":                    "the name of a network",
	"/result/howTo/*":                 "sentences of ours",
	"/result/nextCursor":              "opaque",
	"/result/cursor":                  "opaque",
	"/result/requestHash":             "hex digits",
	"/result/requests/*/work/tags/*":  "the documented tags",
	"/result/events/*/eventId":        "an id",
	"/result/events/*/name":           "the name of a feed",
	"/result/events/*/timestamp":      "a time",
	"/result/events/*/cursor":         "opaque",
	"/result/id":                      "an id",
	"/result/tool":                    "the name of a tool",
	"/result/receipt/facts/*/eventId": "an id",
	"/result/receipt/facts/*/type":    "the type of an event",
	"/result/receipt/facts/*/hash":    "hex digits",
	"/result/refusal/code":            "one of the documented codes",
	"/result/refusal/message":         "a sentence of ours",
	"/result/refusal/reason":          "a class of refusals",
	"/result/refusal/field":           "a pointer to an argument of the caller's own",
	"/result/refusal/scope":           "names of scopes",
	"/result/refusal/role":            "the name of a role",
	"/result/refusal/next/tool":       "the name of a tool",
	"/result/instructions":            "a guide of ours",
	"/result/uri":                     "an address of ours",
	"/result/results/*/htmlUrl":       "an address of ours",
	"/result/results/*/markdownUrl":   "an address of ours",
	"/result/results/*/section":       "a page of ours",
	"/result/results/*/slug":          "a page of ours",
	"/result/results/*/snippet":       "a page of ours",
	"/result/results/*/title":         "a page of ours",
	"/result/results/*/uri":           "an address of ours",
}

func TestEveryTextOfEveryAnswerIsOursOrLabelledAsForeign(t *testing.T) {
	t.Parallel()
	everyTool(t, func(t *testing.T, tool Tool, d node) {
		var foreign []foreignPlace
		eachText("", d["outputSchema"].(node), func(path string, s node) {
			description, _ := s["description"].(string)
			if strings.HasPrefix(description, foreignNotice) || strings.HasPrefix(description, foreignInside) {
				most, _ := s["maxLength"].(float64)
				if most == 0 && s["type"] == "string" {
					t.Errorf("%s is foreign text without end: give it a maxLength", path)
				}
				foreign = append(foreign, foreignPlace{path, uint64(most)})
				return
			}
			if ours[path] == "" && s["type"] == "string" {
				t.Errorf("who writes %s? If others do, make its type domain.Foreign with a maxLength; if we do, give it a pattern, a format or an enum, or a line in the list ours", path)
			}
		})
		var said struct {
			Untrusted untrusted `json:"untrusted"`
		}
		if err := json.Unmarshal(tool.Out.marked([]byte(granted+"}")), &said); err != nil {
			t.Fatal(err)
		}
		byPath := func(a, b foreignPlace) int { return strings.Compare(a.Path, b.Path) }
		if diff := cmp.Diff(slices.SortedFunc(slices.Values(foreign), byPath), slices.SortedFunc(slices.Values(said.Untrusted.At), byPath)); diff != "" {
			t.Errorf("the schema says (-), answers say (+) what is foreign:\n%s", diff)
		}
	})
}

func TestWhatATooltakesIsTheCallersOwnAndNotLabelled(t *testing.T) {
	t.Parallel()
	everyTool(t, func(t *testing.T, tool Tool, _ node) {
		if s := string(tool.In.JSON); strings.Contains(s, foreignNotice) || strings.Contains(s, `"`+foreignKey+`"`) {
			t.Errorf("got %s", s)
		}
		if s := string(tool.Out.JSON); strings.Contains(s, `"`+foreignKey+`"`) {
			t.Errorf("a mark of ours is published: %s", s)
		}
	})
}

// eachText calls visit with every schema of a text that anything may stand in, and
// with every labelled object.
func eachText(path string, s node, visit func(path string, s node)) {
	description, _ := s["description"].(string)
	for _, keyword := range []string{"enum", "const", "pattern", "format"} {
		if s[keyword] != nil {
			return
		}
	}
	if s["type"] == "string" || s["type"] == "object" && strings.HasPrefix(description, foreignInside) {
		visit(path, s)
		return
	}
	if properties, ok := s["properties"].(node); ok {
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			eachText(path+"/"+name, properties[name].(node), visit)
		}
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if inner, ok := s[keyword].(node); ok {
			eachText(path+"/*", inner, visit)
		}
	}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		alternatives, _ := s[keyword].([]any)
		for _, alternative := range alternatives {
			eachText(path, alternative.(node), visit)
		}
	}
}

func TestForeignTextIsFoundWhereverItStands(t *testing.T) {
	t.Parallel()
	type inner struct {
		Text domain.Foreign `json:"text" jsonschema:"maxLength=7" jsonschema_description:"A text."`
	}
	type outer struct {
		List   []domain.Foreign          `json:"list" jsonschema:"maxLength=1"`
		Maybe  *domain.Foreign           `json:"maybe" jsonschema:"nullable,maxLength=2"`
		Named  map[string]domain.Foreign `json:"named"`
		Deep   []inner                   `json:"deep"`
		Opaque json.RawMessage           `json:"opaque" jsonschema_extras:"foreign=true"`
		Ours   string                    `json:"ours"`
	}
	row := NewRead[noArguments, outer](Tool{Name: "probe"}, nil)
	var got struct {
		Untrusted untrusted `json:"untrusted"`
	}
	if err := json.Unmarshal(row.Out.marked([]byte(granted+"}")), &got); err != nil {
		t.Fatal(err)
	}
	paths := map[string]uint64{}
	for _, place := range got.Untrusted.At {
		paths[place.Path] = place.MaxLength
	}
	want := map[string]uint64{
		"/result/list/*": 1, "/result/maybe": 2, "/result/named/*": 0, "/result/deep/*/text": 7, "/result/opaque": 0,
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

func TestWhatIsNotSeenIsWrittenAsAnEscapeAndStaysTheSame(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain": `"plain"`,
		"grüße, 你好, שלום, नमस्ते": `"grüße, 你好, שלום, नमस्ते"`,
		"e\u0301e\u0301":                    `"e` + "\u0301" + `e` + "\u0301" + `"`,
		"\U000e0069\U000e0067":              `"\udb40\udc69\udb40\udc67"`,     // tags
		"a\u202eb\u2066c\u2069":             `"a\u202eb\u2066c\u2069"`,        // bidi
		"a\u200bb\u200dc\ufeffd\u2060":      `"a\u200bb\u200dc\ufeffd\u2060"`, // zero width
		"a\u00ad\u034f\u3164\u2800\u115f":   `"a\u00ad\u034f\u3164\u2800\u115f"`,
		"\u2028\u2029\u0085\u009b31m\u007f": `"\u2028\u2029\u0085\u009b31m\u007f"`,
		"\u001b[2J\u0000":                   `"\u001b[2J\u0000"`,
		"❤\ufe0f":                           `"❤\ufe0f"`,
		"\ue000\U000f0000\ufffe\u0378":      `"\ue000\udb80\udc00\ufffe\u0378"`,
		"\u0301start":                       `"\u0301start"`,  // would sit on the quote
		"line\n\u0301":                      `"line\n\u0301"`, // would sit on the n of the escape
		"z\u0300\u0301\u0302\u0303\u0304":   "\"z\u0300\u0301\u0302" + `\u0303\u0304"`,
	} {
		got := encodeText(t, text)
		if got != want {
			t.Errorf("%q is written %s, want %s", text, got, want)
		}
		var back string
		if err := json.Unmarshal([]byte(got), &back); err != nil || back != text {
			t.Errorf("%q is read back as %q: %v", text, back, err)
		}
	}
}

func encodeText(tb testing.TB, text string) string {
	tb.Helper()
	b, err := encodeAnswer(text)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"", "a", "\u202e", "é\u0301\u0301\u0301\u0301", "\"\u0301", "\U000e0041", "\\u202e", "\x7f", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		got := encodeText(t, text)
		var back string
		if err := json.Unmarshal([]byte(got), &back); err != nil || back != text {
			t.Fatalf("%q is written %s and read back as %q: %v", text, got, back, err)
		}
		if again := string(visible([]byte(got))); again != got {
			t.Errorf("%s is written anew as %s", got, again)
		}
		if strings.ContainsFunc(got, unseen) {
			t.Errorf("%s holds what is not seen", got)
		}
	})
}
