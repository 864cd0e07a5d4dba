package web

import (
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Contrast that WCAG 2 asks for at level AA: of text, and of the shapes that
// tell states and controls apart.
const (
	textContrast  = 4.5
	shapeContrast = 3
)

func TestColoursKeepTheirContrast(t *testing.T) {
	t.Parallel()
	css, err := static.ReadFile("static/admin.css")
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(css), "@media (prefers-color-scheme: dark)")
	if !found {
		t.Fatal("the style sheet knows no dark scheme")
	}
	light := colours(before)
	dark := maps.Clone(light)
	maps.Copy(dark, colours(after))

	for scheme, palette := range map[string]map[string]string{"light": light, "dark": dark} {
		check := func(front, back string, least float64) {
			t.Helper()
			if got := contrast(t, palette[front], palette[back]); got < least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, want %.1f", scheme, front, back, got, least)
			}
		}
		for _, back := range []string{"page", "panel"} {
			for _, front := range []string{"text", "muted", "accent", "bad", "caution", "good"} {
				check(front, back, textContrast)
			}
		}
		for _, tone := range []string{"bad", "caution", "good"} {
			check("text", tone+"-wash", textContrast)
			check(tone, tone+"-wash", shapeContrast)
			check("on-mark", tone, shapeContrast)
		}
	}
	if light["page"] == dark["page"] {
		t.Error("dark is as light")
	}
}

// colours returns the colours that a piece of the style sheet names.
func colours(css string) map[string]string {
	named := map[string]string{}
	for _, match := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(css, -1) {
		named[match[1]] = match[2]
	}
	return named
}

// contrast is the ratio of two luminances, as WCAG 2 defines it.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	rgb, err := strconv.ParseUint(strings.TrimPrefix(colour, "#"), 16, 24)
	if err != nil {
		t.Fatalf("no colour: %q", colour)
	}
	channel := func(shift uint) float64 {
		c := float64(rgb>>shift&0xff) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*channel(16) + 0.7152*channel(8) + 0.0722*channel(0)
}
