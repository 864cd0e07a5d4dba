package usage

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// defaultDays is how many days a report covers unless it is told.
const defaultDays = 30

// Fault is a question that cannot be answered as it is put.
type Fault struct {
	Param string // from, to or by
	Text  string // a sentence that says what to do instead
}

func (f *Fault) Error() string { return f.Text }

// Asked reads a question as people put it: two dates and the dimensions with
// commas between them. Without dates it is about the thirty days until today,
// which is the date of now in its own time zone; an end alone has the 29
// days before it. Without dimensions it is about days. The error is a *Fault.
func Asked(from, to, by string, now time.Time) (Query, error) {
	var q Query
	var err error
	if q.To, err = date("to", to, dateOf(now)); err != nil {
		return Query{}, err
	}
	if q.From, err = date("from", from, q.To.AddDate(0, 0, 1-defaultDays)); err != nil {
		return Query{}, err
	}
	if q.From.After(q.To) {
		return Query{}, &Fault{"from", fmt.Sprintf("from %s is after to %s; the first day comes first, and both count.",
			q.From.Format(time.DateOnly), q.To.Format(time.DateOnly))}
	}
	if q.By, err = dimensions(by); err != nil {
		return Query{}, err
	}
	return q, nil
}

// dateOf is the date of a moment in its own zone, as midnight UTC.
func dateOf(at time.Time) time.Time {
	year, month, day := at.Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

func date(param, text string, otherwise time.Time) (time.Time, error) {
	if text == "" {
		return otherwise, nil
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil || day.Year() < 1 {
		return time.Time{}, &Fault{param, fmt.Sprintf("%s must be a date such as 2026-01-31; %q is none.", param, text)}
	}
	return day, nil
}

// dimensions puts what is asked for into the order of a report.
func dimensions(text string) ([]Dimension, error) {
	if text == "" {
		return []Dimension{ByDay}, nil
	}
	var asked []Dimension
	for word := range strings.SplitSeq(text, ",") {
		d := Dimension(strings.TrimSpace(word))
		switch {
		case !slices.Contains(Dimensions(), d):
			return nil, &Fault{"by", fmt.Sprintf("by names what usage is told apart by, with commas: %s; %q is none of them.", words(), word)}
		case slices.Contains(asked, d):
			return nil, &Fault{"by", fmt.Sprintf("by names %s twice; once is enough.", d)}
		}
		asked = append(asked, d)
	}
	return slices.DeleteFunc(Dimensions(), func(d Dimension) bool { return !slices.Contains(asked, d) }), nil
}

func words() string {
	all := make([]string, 0, len(Dimensions()))
	for _, d := range Dimensions() {
		all = append(all, string(d))
	}
	return strings.Join(all, ", ")
}
