package deploy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the tests of rules and dashboard rest on: that they would notice.
func TestAQueryThatAsksForWhatNobodySaysHasFaults(t *testing.T) {
	t.Parallel()
	v := vocabulary{}
	v.add(`calls_total{provider="a",outcome="success"} 0`)
	v.add(`calls_total{provider="a",outcome="failure"} 0`)
	v.add("state 0")
	tests := []struct {
		name, expr string
		want       []string
	}{
		{"nothing", `sum by (provider) (rate(calls_total{outcome=~"success|failure",provider=~".*"}[5m])) > 0.5 or state == bool 1`, nil},
		{"metric", `rate(call_total[5m])`, []string{"there is no metric call_total"}},
		{"label", `calls_total{model="m"}`, []string{"calls_total has no label model"}},
		{"value", `calls_total{outcome!="succes"}`, []string{`outcome is never "succes" of calls_total`}},
		{"one of several values", `calls_total{outcome=~"success|lost"}`, []string{`outcome is never "lost" of calls_total`}},
		{"group", `sum by (job, model) (calls_total)`, []string{"none of [calls_total] has a label model"}},
		{"second metric", `state and on (job) stat`, []string{"there is no metric stat"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q, err := parse(tt.expr)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, q.faults(v)); diff != "" {
				t.Errorf("faults of %s (-want +got):\n%s", tt.expr, diff)
			}
		})
	}
	for _, expr := range []string{"sum without (job) (state)", "1 > 0"} {
		if _, err := parse(expr); err == nil {
			t.Errorf("parse(%q) takes what it does not understand", expr)
		}
	}
}
