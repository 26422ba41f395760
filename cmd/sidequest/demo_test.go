package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestTheDemoPlaysTheWholeStory(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	addr := freeAddress(t)
	m.Issuer = "http://" + addr
	m.start(t, func(c *config) { c.Addr = addr })
	for range 2 { // it brings fresh agents each time
		var out bytes.Buffer
		if err := playDemo(t.Context(), m.development, quiet, nil, &out, &out); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		for _, told := range []string{
			"7. What each of them has in its inbox",
			"worker hears request.opened", "hirer  hears quote.received", "worker hears request.picked",
			"Refused with key-conflict", "Nothing was lost and nothing came twice.", "What to try next",
		} {
			if !strings.Contains(out.String(), told) {
				t.Errorf("the demo does not tell %q:\n%s", told, &out)
			}
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Error("the demo uses colours where there is no terminal")
		}
	}
}

func TestTheDemoFailsWhereAStepDoesNotHold(t *testing.T) {
	t.Parallel()
	m := openMarket(t)
	addr := freeAddress(t)
	m.Issuer = "http://" + addr
	var out bytes.Buffer
	err := playDemo(t.Context(), m.development, quiet, nil, &out, &out)
	if err == nil || !strings.Contains(err.Error(), "make run") {
		t.Errorf("without a server: %v", err)
	}
	m.start(t, func(c *config) {
		c.Addr = addr
		c.Limits.PerAgent = 1
	})
	err = playDemo(t.Context(), m.development, quiet, nil, &out, &out)
	if err == nil || !strings.Contains(err.Error(), "does not hold") {
		t.Errorf("where the hirer cannot pick: %v", err)
	}
}
