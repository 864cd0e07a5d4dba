package usage

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAQuestionIsReadAsPeoplePutIt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 23, 30, 0, 0, time.FixedZone("", -2*60*60)) // the 15th in UTC
	tests := []struct {
		name, from, to, by string
		want               Query
	}{
		{"nothing", "", "", "", Query{day("2026-02-13"), day("2026-03-14"), []Dimension{ByDay}}},
		{"all", "2026-01-01", "2026-01-31", "model,key,day", Query{day("2026-01-01"), day("2026-01-31"), []Dimension{ByDay, ByKey, ByModel}}},
		{"one day", "2026-01-01", "2026-01-01", "provider", Query{day("2026-01-01"), day("2026-01-01"), []Dimension{ByProvider}}},
		{"an end alone", "", "2025-03-01", "configuration, key", Query{day("2025-01-31"), day("2025-03-01"), []Dimension{ByKey, ByConfiguration}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Asked(tt.from, tt.to, tt.by, now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAQuestionThatMakesNoSenseIsAFault(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, from, to, by, param, says string }{
		{"a date that is none", "2026-02-30", "", "", "from", `"2026-02-30" is none`},
		{"a time", "", "2026-02-01T00:00:00Z", "", "to", "2026-01-31"},
		{"the end before the beginning", "2026-02-02", "2026-02-01", "", "from", "after"},
		{"the beginning in the future", "2126-01-01", "", "", "from", "after"},
		{"an unknown dimension", "", "", "day,region", "by", `"region" is none`},
		{"an empty dimension", "", "", "day,", "by", `"" is none`},
		{"a dimension twice", "", "", "day,day", "by", "twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Asked(tt.from, tt.to, tt.by, time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC))
			var fault *Fault
			if !errors.As(err, &fault) {
				t.Fatalf("error %v, want a fault", err)
			}
			if fault.Param != tt.param || !strings.Contains(fault.Text, tt.says) {
				t.Errorf("%s: %s; want it about %s and to say %q", fault.Param, fault.Text, tt.param, tt.says)
			}
		})
	}
}

func report() Report {
	sum := Sum{Day: day("2026-03-14"), KeyID: "k-1", KeyName: `=cmd|' /C calc'!A0`, Configuration: "a, \"b\"\nc", Provider: "alpha", Model: "-1+2", Amounts: amounts(3, "0.0000000001")}
	sum.UnreportedTokens, sum.UnreportedUSD = 21, dollars("0.0000000003")
	return Report{Query: Query{From: day("2026-03-01"), To: day("2026-03-31"), By: Dimensions()}, Sums: []Sum{sum}, Total: sum.Amounts}
}

// RFC 4180: whatever is in a name, a reader gets it back; no spreadsheet takes
// it for a formula.
func TestCSVHoldsEveryNameAndNoFormula(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := report().WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"day", "key", "key_name", "configuration", "provider", "model", "requests", "attempts", "failures",
			"input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "cost_usd", "unpriced", "estimated", "unreported_tokens", "unreported_usd"},
		{"2026-03-14", "k-1", `'=cmd|' /C calc'!A0`, "a, \"b\"\nc", "alpha", "'-1+2", "3", "3", "0", "30", "0", "0", "6", "0", "0.0000000001", "0", "0", "21", "0.0000000003"},
	}
	got, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if lines := strings.Count(out.String(), "\r\n"); lines < 2 {
		t.Errorf("%d lines end as RFC 4180 has it, want every one: %q", lines, out.String())
	}
}

func TestJSONKeepsEveryDigit(t *testing.T) {
	t.Parallel()
	asked := report()
	asked.By, asked.Sums[0].Configuration = []Dimension{ByConfiguration}, ""
	got, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	numbers := `"attempts":3,"cache_write_tokens":0,"cached_tokens":0,`
	rest := `"cost_usd":0.0000000001,"estimated":0,"failures":0,"input_tokens":30,"output_tokens":6,"reasoning_tokens":0,"requests":3,"unpriced":0,"unreported_tokens":21,"unreported_usd":0.0000000003}`
	want := `{"by":["configuration"],"from":"2026-03-01","to":"2026-03-31","total":{` + numbers + rest +
		`,"usage":[{` + numbers + `"configuration":null,` + rest + `]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
