package templates

import "strconv"

// UsagePage is what calls used, as a question and its answer.
type UsagePage struct {
	Frame
	From, To string // the days asked for, as they were written
	By       []UsageChoice
	Trouble  string // why there is no answer; empty when there is one
	Summary  string // the answer in one sentence
	CSV      string // URL of the same as a file
	Names    []string
	Rows     []UsageRow
	Total    []string
	Bars     []UsageBar
	// Unreported: limits have counted more than was reported, which has columns of
	// its own.
	Unreported bool
}

// UsageChoice is something that usage can be told apart by.
type UsageChoice struct {
	Name, Label string
	Chosen      bool
}

// UsageRow is one line of the table: what it is of, and the figures.
type UsageRow struct{ Names, Figures []string }

// UsageBar is one bar of the chart: what it is of, how much, and its length in
// hundredths of the longest.
type UsageBar struct {
	Name, Text string
	Percent    int
}

// figures heads the columns of figures.
func (v UsagePage) figures() []string {
	heads := []string{"Requests", "Attempts", "Failures", "Tokens in", "Tokens out", "Cost", "Unpriced"}
	if v.Unreported {
		heads = append(heads, "Unreported tokens", "Unreported cost")
	}
	return heads
}

// barHeight is the room that one bar has in the chart, with its words.
const barHeight = 40

func (v UsagePage) chartBox() string { return "0 0 600 " + strconv.Itoa(len(v.Bars)*barHeight) }

// length is how long a bar is drawn; what is not nothing can be seen.
func (b UsageBar) length() string { return strconv.Itoa(max(b.Percent*6, min(b.Percent, 1), 2)) }

func barAt(i, down int) string { return strconv.Itoa(i*barHeight + down) }
