package keys_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/keys"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

func TestLimitsAreReadByTheirNames(t *testing.T) {
	t.Parallel()
	var got llm.Limits
	for i, name := range llm.LimitNames() {
		if err := keys.SetLimit(&got, string(name), decimal.NewFromInt(int64(i)).String()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	want := llm.Limits{
		Concurrent: new(int64(0)), RequestsPerMinute: new(int64(1)), TokensPerMinute: new(int64(2)),
		RequestsPerDay: new(int64(3)), TokensPerDay: new(int64(4)), CostPerDay: new(decimal.NewFromInt(5)),
		RequestsPerMonth: new(int64(6)), TokensPerMonth: new(int64(7)), CostPerMonth: new(decimal.NewFromInt(8)),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	for i, name := range llm.LimitNames() {
		if allowed, limited := got.Of(name); !limited || !allowed.Equal(decimal.NewFromInt(int64(i))) {
			t.Errorf("%s is %s, %t, want %d", name, allowed, limited, i)
		}
	}
}

func TestNumbersThatALimitMayHave(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, value string
		ok          bool
	}{
		{"requests_per_day", "9000000000000000", true},
		{"requests_per_day", "1e3", true},
		{"requests_per_day", "2.0", true},
		{"requests_per_day", "9000000000000001", false},
		{"requests_per_day", "1.5", false},
		{"requests_per_day", "-1", false},
		{"requests_per_day", "", false},
		{"requests_per_day", "many", false},
		{"requests_per_day", "1e999999999", false},
		{"cost_per_day", "9000000", true},
		{"cost_per_day", "0.000000001", true},
		{"cost_per_day", "0.1000000000000", true},
		{"cost_per_day", "9000000.000000001", false},
		{"cost_per_day", "0.0000000001", false},
		{"cost_per_day", "-0.1", false},
		{"cost_per_day", "1e-999999999", false},
		{"cost_per_day", "NaN", false},
		{"cost_per_day", "2.50", true},
		{"cost_per_week", "1", false},
		{"", "1", false},
	} {
		var limits llm.Limits
		err := keys.SetLimit(&limits, tc.name, tc.value)
		if (err == nil) != tc.ok || err != nil && !strings.Contains(err.Error(), tc.name) {
			t.Errorf("%s=%s: %v, want ok %t", tc.name, tc.value, err, tc.ok)
		}
		if err == nil && keys.CheckLimits(limits) != nil {
			t.Errorf("%s=%s is read and then refused", tc.name, tc.value)
		}
	}
}
