package apptest

import (
	"encoding/csv"
	"strings"
	"testing"
)

// AwaitUsage waits until the usage told apart by dimensions is as want says: one
// line per sum, of the values of the columns named, in the operator API's order.
func (g *Gateway) AwaitUsage(t testing.TB, by string, columns []string, want ...string) {
	t.Helper()
	Eventually(t, func() string {
		answer := Get(t, g.AdminURL+"/api/v1/usage?format=csv&by="+by)
		lines, err := csv.NewReader(strings.NewReader(answer.Body)).ReadAll()
		if err != nil || len(lines) == 0 {
			return "usage is no CSV: " + answer.Body
		}
		var got []string
		for _, line := range lines[1:] {
			got = append(got, strings.Join(pick(lines[0], line, columns), " "))
		}
		if strings.Join(got, "\n") == strings.Join(want, "\n") {
			return ""
		}
		return "usage by " + by + ":\n" + strings.Join(got, "\n") + "\nwant:\n" + strings.Join(want, "\n")
	})
}

// pick returns the values of some columns.
func pick(header, line, columns []string) []string {
	var values []string
	for _, column := range columns {
		for i, name := range header {
			if name == column {
				values = append(values, line[i])
			}
		}
	}
	return values
}
