package templates

import "time"

// Frame is what every page carries around its content.
type Frame struct {
	Title   string
	Section string // of the navigation, the one that the page belongs to
	Assets  Assets
	Stream  string // URL of the events that keep the page live; empty for a page that is not
}

// Assets are the URLs of what a page loads.
type Assets struct {
	Style, Icon     string
	HTMX, SSE, Live string
}

// navigation is every section of the interface.
var navigation = []struct{ name, url string }{
	{SectionOverview, "/"},
	{SectionLimits, "/limits"},
	{SectionUsage, "/usage"},
}

// SectionOverview is the section that says how the gateway is doing now.
const SectionOverview = "Overview"

// SectionUsage is the section that says what calls used and cost.
const SectionUsage = "Usage"

// Tone is how much something should draw the eye. It is always shown by shape
// and word, too.
type Tone string

// The tones, from the loudest.
const (
	Bad     Tone = "bad"
	Caution Tone = "caution"
	Good    Tone = "good"
	Quiet   Tone = "quiet"
)

// Shape is a sign beside the word of a state that is told by more than its
// tone.
type Shape string

// The shapes; the empty one is that of the tone.
const (
	Lock   Shape = "lock"   // nothing goes through
	Bypass Shape = "bypass" // everything goes around
	Eye    Shape = "eye"    // only watched
)

// Mark is a state in one word with its tone.
type Mark struct {
	Tone  Tone
	Shape Shape
	Text  string
}

// Moment is a point in time. The zero value is none.
type Moment struct {
	At   time.Time // UTC, for machines and as the tooltip
	Text string    // for people
}

// None reports whether there is no such moment.
func (m Moment) None() bool { return m.At.IsZero() }

func (m Moment) machine() string { return m.At.UTC().Format(time.RFC3339) }

func (m Moment) full() string { return m.At.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// Fact is one named value of a list. Value is shown before the moment, when
// there are both.
type Fact struct {
	Name   string
	Value  string
	Moment Moment
	Code   bool // an identifier, which is set as such
}

// ErrorPage says what went wrong, and what to do.
type ErrorPage struct {
	Frame     Frame
	Status    int
	Heading   string
	Text      string
	RequestID string // under which the log knows more; may be empty
}
