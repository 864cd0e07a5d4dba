package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// printCircuits prints one line for each circuit, or says that there is none.
func printCircuits(w io.Writer, all []circuit) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no circuit")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tSTATE\tWHY\tSINCE\tRETRY AFTER\tFAILURE RATE\tCALLS\tNOTE")
	for _, c := range all {
		cells := []string{c.Key, c.State, c.why(), instant(c.Since), c.retryAfter(), share(c.FailureRate), strconv.FormatUint(c.Calls, 10), c.remark()}
		for i, cell := range cells {
			cells[i] = plain(cell)
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// why is what brought the circuit into its state; who, where that was a person.
func (c circuit) why() string {
	switch {
	case c.Actor != "":
		return "set by " + c.Actor
	case c.Class != "":
		return c.Reason + " (" + c.Class + ")"
	default:
		return dash(c.Reason)
	}
}

// retryAfter is when a circuit that refuses calls will admit one.
func (c circuit) retryAfter() string {
	switch {
	case c.Eligible:
		return "due"
	case c.RetryAfterMS == 0:
		return "-"
	default:
		return (time.Duration(c.RetryAfterMS) * time.Millisecond).Round(time.Second / 10).String()
	}
}

// remark is what whoever set the state has written, and when it ends.
func (c circuit) remark() string {
	switch {
	case c.Until.IsZero():
		return dash(c.Note)
	case c.Note == "":
		return "until " + instant(c.Until)
	default:
		return c.Note + " (until " + instant(c.Until) + ")"
	}
}

// sentence says in one line what a circuit has become.
func (c circuit) sentence() string {
	said := c.Key + " is " + c.State
	if c.Actor != "" {
		said += ", set by " + c.Actor
	}
	if !c.Until.IsZero() {
		said += ", until " + instant(c.Until)
	}
	if c.Note != "" {
		said += ": " + c.Note
	}
	return plain(said)
}

func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func share(rate *float64) string {
	if rate == nil {
		return "-"
	}
	return strconv.FormatFloat(*rate*100, 'f', 1, 64) + "%"
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// plain replaces what would move the cursor or colour the terminal of whoever
// reads a text that somebody else wrote.
func plain(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return '?'
	}, s)
}

// printCircuitsJSON prints circuits as the gateway sent them, every member that
// it knows included.
func printCircuitsJSON(w io.Writer, all []circuit) error {
	list := struct {
		Circuits []json.RawMessage `json:"circuits"`
	}{Circuits: []json.RawMessage{}}
	for _, c := range all {
		list.Circuits = append(list.Circuits, c.whole)
	}
	return printJSON(w, list)
}

func printCircuitJSON(w io.Writer, c circuit) error { return printJSON(w, c.whole) }

func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
