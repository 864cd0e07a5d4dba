package admin

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/web/templates"
)

// count writes a number with its unit, in singular or plural: "1 call".
func count[N ~int | ~int32 | ~int64 | ~uint64](n N, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return grouped(n) + " " + unit + "s"
}

// grouped writes a number with a comma between the thousands.
func grouped[N ~int | ~int32 | ~int64 | ~uint64](n N) string {
	digits := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// size writes a number of bytes in the unit that suits it.
func size(n int64) string {
	const step = 1024
	if n < step {
		return count(n, "byte")
	}
	amount, unit := float64(n), -1
	for amount >= step && unit < 3 {
		amount, unit = amount/step, unit+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(amount, 'f', 1, 64), ".0") + " " + []string{"KiB", "MiB", "GiB", "TiB"}[unit]
}

// span writes a duration as a person says it: whole seconds, the two largest
// units, rounded up so that it is never shown as over before it is.
func span(d time.Duration) string {
	s := int64((d + time.Second - 1) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", max(s, 0))
	case s < 3600:
		return units(s/60, "min", s%60, "s")
	case s < 86400:
		return units(s/3600, "h", s%3600/60, "min")
	default:
		return units(s/86400, "d", s%86400/3600, "h")
	}
}

func units(n int64, unit string, rest int64, smaller string) string {
	if rest == 0 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%d %s %d %s", n, unit, rest, smaller)
}

// ago writes how long ago something was, in its largest unit only: it is read
// beside the exact time, and a page should not change for a second more.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	default:
		return fmt.Sprintf("%d d ago", d/(24*time.Hour))
	}
}

// clock is a moment as a time of day, with its date unless that is today's.
func clock(at, now time.Time) templates.Moment {
	at = at.UTC()
	layout := "15:04:05 UTC"
	if at.Format(time.DateOnly) != now.UTC().Format(time.DateOnly) {
		layout = "2006-01-02 15:04:05 UTC"
	}
	return templates.Moment{At: at, Text: at.Format(layout)}
}

// since is a moment in the past and how long ago it was.
func since(at, now time.Time) templates.Moment {
	m := clock(at, now)
	m.Text += ", " + ago(now.Sub(at))
	return m
}

// millis writes a latency in the unit that suits it.
func millis(ms int64) string {
	if ms < 10_000 {
		return grouped(ms) + " ms"
	}
	return strconv.FormatFloat(float64(ms)/1000, 'f', 1, 64) + " s"
}

// micros writes a short duration in milliseconds.
func micros(us int64) string {
	return strconv.FormatFloat(float64(us)/1000, 'f', 2, 64) + " ms"
}

// percent writes a fraction. What is not quite everything or nothing is not
// rounded to it.
func percent(share float64) string {
	switch p := share * 100; {
	case share > 0 && p < 0.1:
		return "< 0.1 %"
	case share < 1 && p > 99.9:
		return "> 99.9 %"
	default:
		return strings.TrimSuffix(strconv.FormatFloat(p, 'f', 1, 64), ".0") + " %"
	}
}

// fraction writes a score.
func fraction(score float64) string { return strconv.FormatFloat(score, 'f', 2, 64) }

// cost writes what something cost; empty when that is not known.
func cost(usd *decimal.Decimal, unpriced bool) string {
	if usd == nil && unpriced {
		return "unpriced"
	}
	return optional(usd, dollars)
}

// dollars writes an amount with as many digits as it takes to see it.
func dollars(usd decimal.Decimal) string {
	places := int32(4)
	if !usd.IsZero() && usd.Abs().LessThan(decimal.New(1, -3)) {
		places = 7
	}
	return "$" + usd.StringFixed(places)
}

// tokens writes what went in and what came out; empty when neither is known.
func tokens(input, output *int64) string {
	if input == nil && output == nil {
		return ""
	}
	side := func(n *int64) string { return cmp.Or(optional(n, grouped), "?") }
	return side(input) + " in, " + side(output) + " out"
}

func estimated(yes bool) string {
	if yes {
		return ", estimated"
	}
	return ""
}

func streamed(yes bool) string {
	if yes {
		return ", streamed"
	}
	return ""
}

// sentence gives a word the capital that begins a sentence.
func sentence(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

// optional is the number that a pointer leads to, written; empty for none.
func optional[N any](n *N, write func(N) string) string {
	if n == nil {
		return ""
	}
	return write(*n)
}

// word is the text that a pointer leads to; empty for none.
func word(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
