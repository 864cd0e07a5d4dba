package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/usage"
)

func TestUsageIsPrintedWithItsTotal(t *testing.T) {
	t.Parallel()
	amounts := func(n int64, cost string) usage.Amounts {
		return usage.Amounts{Requests: n, Attempts: n + 1, Failures: 1, InputTokens: 10 * n, OutputTokens: 2 * n, CostUSD: decimal.RequireFromString(cost), Unpriced: 1, UnreportedTokens: n, UnreportedUSD: decimal.RequireFromString("0.25")}
	}
	march := time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC)
	report := usage.Report{
		Query: usage.Query{From: march, To: march, By: []usage.Dimension{usage.ByDay, usage.ByKey, usage.ByConfiguration}},
		Sums: []usage.Sum{
			{Day: march, Amounts: amounts(1, "0.1")},
			{Day: march, KeyID: "k-2", KeyName: "shop", Configuration: "chat", Amounts: amounts(12, "12.0000000001")},
		},
		Total: amounts(1, "0.1").Plus(amounts(12, "12.0000000001")),
	}
	var out strings.Builder
	if err := printUsage(&out, report); err != nil {
		t.Fatal(err)
	}
	want := `DAY         KEY   CONFIGURATION  REQUESTS  ATTEMPTS  FAILURES  INPUT  OUTPUT  COST USD       UNPRICED
2026-03-14  -     -              1         2         1         10     2       0.1            1
2026-03-14  shop  chat           12        13        1         120    24      12.0000000001  1
total                            13        15        2         130    26      12.1000000001  2
limits have counted up to 13 more tokens and 0.5 USD, of attempts whose provider reported no usage
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
