package admin

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/usage"
)

// bill is scripted usage that notes what it was asked for.
type bill struct {
	sums  []usage.Sum
	err   error
	asked usage.Query
}

func (b *bill) Report(_ context.Context, q usage.Query) (usage.Report, error) {
	b.asked = q
	report := usage.Report{Query: q, Sums: b.sums}
	for _, s := range b.sums {
		report.Total = report.Total.Plus(s.Amounts)
	}
	return report, b.err
}

func withBill(b *bill) func(*Deps) {
	return func(deps *Deps) { deps.Usage, deps.Zone = b, func() *time.Location { return time.UTC } }
}

func billed(configuration, model string, requests int64, cost string) usage.Sum {
	return usage.Sum{Configuration: configuration, Model: model, Amounts: usage.Amounts{
		Requests: requests, Attempts: requests, InputTokens: 1000 * requests, OutputTokens: requests, CostUSD: decimal.RequireFromString(cost),
	}}
}

func spaced(s *goquery.Selection) []string {
	return s.Map(func(_ int, s *goquery.Selection) string { return strings.Join(strings.Fields(s.Text()), " ") })
}

func TestUsageIsShownWithItsTotalAndAChart(t *testing.T) {
	t.Parallel()
	b := &bill{sums: []usage.Sum{billed("", "m1", 1, "0.25"), billed("chat", "<b>m2</b>", 2000, "0.75")}}
	b.sums[1].Unpriced = 3
	page := document(t, serve(t, new(world).pages(withBill(b))), "/usage?from=2026-03-01&to=2026-03-31&by=model&by=configuration")

	wantAsked := usage.Query{From: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC), By: []usage.Dimension{usage.ByConfiguration, usage.ByModel}}
	if diff := cmp.Diff(wantAsked, b.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	want := []string{
		"Configuration Model Requests Attempts Failures Tokens in Tokens out Cost Unpriced",
		"- m1 1 1 0 1,000 1 $0.2500 0",
		"chat <b>m2</b> 2,000 2,000 0 2,000,000 2,000 $0.7500 3",
		"Total 2,001 2,001 0 2,001,000 2,001 $1.0000 3",
	}
	var rows []string
	page.Find("table tr").Each(func(_ int, row *goquery.Selection) {
		rows = append(rows, strings.Join(spaced(row.Find("th, td")), " "))
	})
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"chat, <b>m2</b>: $0.7500", "-, m1: $0.2500"}, spaced(page.Find("svg text"))); diff != "" {
		t.Errorf("chart (-want +got):\n%s", diff)
	}
	lengths := page.Find("svg rect").Map(func(_ int, bar *goquery.Selection) string { return bar.AttrOr("width", "") })
	if diff := cmp.Diff([]string{"600", "198"}, lengths); diff != "" {
		t.Errorf("lengths of bars (-want +got):\n%s", diff)
	}
	chosen := page.Find("input[name=by][checked]").Map(func(_ int, box *goquery.Selection) string { return box.AttrOr("value", "") })
	if diff := cmp.Diff([]string{"configuration", "model"}, chosen); diff != "" {
		t.Errorf("boxes ticked (-want +got):\n%s", diff)
	}
	link := page.Find("main a[href^='/api/v1/usage']").AttrOr("href", "")
	if want := "/api/v1/usage?by=configuration%2Cmodel&format=csv&from=2026-03-01&to=2026-03-31"; link != want {
		t.Errorf("the file is at %q, want %q", link, want)
	}
	if got := page.Find("nav a[aria-current=page]").Text(); got != "Usage" {
		t.Errorf("the navigation is at %q, want Usage", got)
	}
}

// What limits counted beyond any report has columns of its own, where there is any.
func TestWhatNobodyReportedIsShown(t *testing.T) {
	t.Parallel()
	b := &bill{sums: []usage.Sum{billed("chat", "m1", 1, "0.25"), billed("chat", "m2", 2, "0.75")}}
	b.sums[0].UnreportedTokens, b.sums[0].UnreportedUSD = 4096, decimal.RequireFromString("0.02")
	page := document(t, serve(t, new(world).pages(withBill(b))), "/usage?by=model")

	var ends []string
	page.Find("table tr").Each(func(_ int, row *goquery.Selection) {
		ends = append(ends, strings.Join(spaced(row.Find("th, td").Slice(-2, goquery.ToEnd)), ", "))
	})
	if diff := cmp.Diff([]string{"Unreported tokens, Unreported cost", "4,096, $0.0200", "0, $0.0000", "4,096, $0.0200"}, ends); diff != "" {
		t.Errorf("last columns (-want +got):\n%s", diff)
	}
	if note := page.Find("section .note").Text(); !strings.Contains(note, "what limits have counted") {
		t.Errorf("the note says %q", note)
	}
}

func TestAQuestionForUsageThatCannotBeAnsweredSaysWhy(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		query  string
		err    error
		status int
		says   string
	}{
		"a bad date":              {"?from=yesterday", nil, http.StatusUnprocessableEntity, "2026-01-31"},
		"too much":                {"?by=day", usage.ErrTooLong, http.StatusUnprocessableEntity, "fewer days"},
		"a database that is away": {"", context.DeadlineExceeded, http.StatusServiceUnavailable, "counted all the same"},
		"nothing was used":        {"", nil, http.StatusOK, "Nothing was used"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response, body := get(t, serve(t, new(world).pages(withBill(&bill{err: tt.err}))), "/usage"+tt.query)
			if response.StatusCode != tt.status || !strings.Contains(body, tt.says) {
				t.Errorf("status %d, want %d, and a page that says %q:\n%s", response.StatusCode, tt.status, tt.says, body)
			}
			if !strings.Contains(body, `name="from"`) {
				t.Error("the form is gone, so nobody can ask otherwise")
			}
		})
	}
}
