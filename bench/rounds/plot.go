package rounds

import (
	"fmt"
	"math"
	"os"
	"strings"
)

// A Plot draws lines over a few values that stand at equal distances, such as
// numbers of writers, on a logarithmic scale.
type Plot struct {
	Title  string
	XLabel string
	YLabel string
	X      []string
	Lines  []Line
}

// A Line has one value for each X; zero for none.
type Line struct {
	Name string
	Y    []float64
}

// The picture's measures, in its own units, and its colours, which people who
// see no red or green can tell apart.
const (
	plotWidth, plotHeight           = 640, 360
	plotLeft, plotRight             = 70, 150
	plotTop, plotBottom             = 40, 50
	plotInnerWidth, plotInnerHeight = plotWidth - plotLeft - plotRight, plotHeight - plotTop - plotBottom
)

var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"}

// Save writes the plot as SVG.
func (p Plot) Save(path string) error {
	if err := os.WriteFile(path, []byte(p.svg()), 0o644); err != nil { //nolint:gosec // a picture is no secret
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}

func (p Plot) svg() string {
	low, high := p.decades()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	fmt.Fprintf(&b, `<text x="%d" y="22" font-size="15">%s</text>`+"\n", plotLeft, p.Title)
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", plotLeft+plotInnerWidth/2, plotHeight-10, p.XLabel)
	fmt.Fprintf(&b, `<text transform="translate(16 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", plotTop+plotInnerHeight/2, p.YLabel)
	for d := low; d <= high; d++ {
		y := height(math.Pow10(d), low, high)
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ccc"/>`+"\n", plotLeft, plotLeft+plotInnerWidth, y, y)
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", plotLeft-6, y+4, number(math.Pow10(d)))
	}
	for i, x := range p.X {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", p.column(i), plotTop+plotInnerHeight+18, x)
	}
	for i, l := range p.Lines {
		p.line(&b, l, colours[i%len(colours)], plotTop+10+i*18, low, high)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p Plot) line(b *strings.Builder, l Line, colour string, legend, low, high int) {
	var points []string
	for i, v := range l.Y {
		if v > 0 {
			points = append(points, fmt.Sprintf("%.1f,%.1f", p.column(i), height(v, low, high)))
		}
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colour)
	for i, v := range l.Y {
		if v > 0 {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s</title></circle>`+"\n", p.column(i), height(v, low, high), colour, number(v))
		}
	}
	x := plotLeft + plotInnerWidth + 14
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="12" height="4" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", x, legend-6, colour, x+18, legend, l.Name)
}

// column is where the i-th value of X stands.
func (p Plot) column(i int) float64 {
	return plotLeft + plotInnerWidth*(float64(i)+0.5)/float64(len(p.X))
}

// height is where a value stands between two powers of ten.
func height(v float64, low, high int) float64 {
	part := (math.Log10(v) - float64(low)) / float64(high-low)
	return plotTop + plotInnerHeight*(1-part)
}

// decades are the powers of ten that enclose all values.
func (p Plot) decades() (low, high int) {
	least, most := math.Inf(1), 0.0
	for _, l := range p.Lines {
		for _, v := range l.Y {
			if v > 0 {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	if most == 0 {
		return 0, 1
	}
	low, high = int(math.Floor(math.Log10(least))), int(math.Ceil(math.Log10(most)))
	return low, max(high, low+1)
}
