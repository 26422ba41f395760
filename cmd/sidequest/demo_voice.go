package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A voice tells a story on a terminal. On anything else it keeps its wording but
// leaves out colours and pauses.
type voice struct {
	out    io.Writer
	colour bool
	pause  time.Duration // before each chapter, for people who read along

	mu      sync.Mutex
	chapter int
}

// The colours of a voice, as terminals know them.
const (
	bold    = "1"
	dim     = "2"
	green   = "32"
	magenta = "35"
	cyan    = "36"
)

func newVoice(out io.Writer) *voice {
	v := &voice{out: out}
	if f, ok := out.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			v.colour, v.pause = os.Getenv("NO_COLOR") == "", 900*time.Millisecond
		}
	}
	return v
}

// begin opens a chapter.
func (v *voice) begin(title string) {
	<-time.After(v.pause)
	v.chapter++
	v.linef("", "")
	v.linef(bold, "%d. %s", v.chapter, title)
}

// tellf says something in plain words.
func (v *voice) tellf(format string, args ...any) { v.linef(dim, "   "+format, args...) }

// holdsf confirms what was to be shown.
func (v *voice) holdsf(format string, args ...any) { v.linef(green, "   ✓ "+format, args...) }

// call shows a call and its answer.
func (v *voice) call(who, what string) { v.linef(cyan, "   → %-6s %s", who, what) }

// hears shows what arrives on a stream. Streams speak while others do.
func (v *voice) hears(who, what string) { v.linef(magenta, "   ◀ %-6s hears %s", who, what) }

func (v *voice) linef(colour, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if v.colour && colour != "" {
		text = "\x1b[" + colour + "m" + text + "\x1b[0m"
	}
	fmt.Fprintln(v.out, text)
}
