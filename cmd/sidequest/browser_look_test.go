package main

import (
	"os"
	"path/filepath"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// screens is where a picture of every page is left for people to look at.
const screens = root + "bench/out/screens"

// A device is what a page is looked at with.
type device struct {
	name          string
	width, height int64
}

func devices() []device {
	return []device{{"desktop", 1200, 900}, {"phone", 360, 740}}
}

// looks checks the page that is open, in the light and in the dark, on a desk and
// on a phone, and leaves pictures of it.
func (b *tab) looks(name string) {
	b.t.Helper()
	for _, d := range devices() {
		b.do(chromedp.EmulateViewport(d.width, d.height))
		for _, scheme := range []string{"light", "dark"} {
			_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
			})
			if err != nil {
				b.t.Fatal(err)
			}
			where := name + "-" + d.name + "-" + scheme
			b.shoot(where)
			for _, fault := range append(b.accessible(), b.laidOut()...) {
				b.t.Errorf("%s: %s", where, fault)
			}
		}
	}
	// And as it would be in a language that is written from right to left.
	evaluate[string](b, `document.documentElement.dir = "rtl"`)
	b.shoot(name + "-phone-rtl")
	for _, fault := range b.laidOut() {
		b.t.Errorf("%s, right to left: %s", name, fault)
	}
	evaluate[string](b, `document.documentElement.dir = ""`)
	b.do(chromedp.EmulateViewport(1200, 900))
}

func (b *tab) shoot(name string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(screens, 0o750); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(screens, name+".png"), picture, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// accessible returns what axe finds fault with on the page.
func (b *tab) accessible() []string {
	b.t.Helper()
	axe, err := os.ReadFile(root + "interop/node_modules/axe-core/axe.min.js")
	if err != nil {
		b.t.Fatalf("axe-core is not there, `make interop/node_modules` brings it: %v", err)
	}
	b.do(chromedp.EvaluateAsDevTools[chromedp.Void](string(axe) + "; undefined"))
	faults, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](`
		axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(found =>
			found.violations.map(v => v.id + ": " + v.help + "\n" + v.nodes.map(n => n.html + "\n" + n.failureSummary).join("\n")))`,
		chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("run axe: %v", err)
	}
	return faults
}

// laidOut returns what is broken about the layout: text that is cut off or makes the
// page scroll sideways, and things to click on that are too small or lie on others.
// A link within a sentence is as small as its line.
func (b *tab) laidOut() []string {
	b.t.Helper()
	return evaluate[[]string](b, `(() => {
		const faults = [];
		const name = e => e.outerHTML.slice(0, 120);
		if (document.documentElement.scrollWidth > innerWidth) {
			faults.push("the page is " + document.documentElement.scrollWidth + " wide on a screen of " + innerWidth);
		}
		const shown = e => e.getClientRects().length > 0 && e.checkVisibility({visibilityProperty: true}) && !e.closest(".skip");
		const targets = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), textarea, summary, label.choice")].filter(shown);
		for (const e of targets) {
			const box = e.getBoundingClientRect();
			const inSentence = e.matches("p a, dd a, li a, td a, p button") && getComputedStyle(e).display.startsWith("inline");
			if ((box.width < 24 || box.height < 24) && !inSentence) faults.push("too small, " + box.width + " × " + box.height + ": " + name(e));
			if (box.left < 0 || box.right > innerWidth + 0.5) faults.push("beside the page: " + name(e));
			for (const o of targets) {
				if (o === e || o.contains(e) || e.contains(o)) continue;
				const other = o.getBoundingClientRect();
				const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
				const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
				if (wide > 1 && high > 1) faults.push("one lies on the other: " + name(e) + " and " + name(o));
			}
		}
		for (const e of document.querySelectorAll("main *")) {
			if (shown(e) && !e.closest(".out-of-sight, pre, textarea") && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && getComputedStyle(e).display !== "inline") {
				faults.push("cut off: " + name(e));
			}
		}
		return faults;
	})()`)
}
