package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/usage"
	"github.com/breakwater-llm/breakwater/web/templates"
)

const (
	// usageRows is how many sums the page shows; the file has them all.
	usageRows = 500
	// usageBars is how many of them the chart shows.
	usageBars = 12
)

// Usage reads what calls used.
type Usage interface {
	// Report returns the usage that is asked for, or usage.ErrTooLong.
	Report(ctx context.Context, q usage.Query) (usage.Report, error)
}

// usage serves GET /usage: a question about days, and its answer. One that makes
// no sense is shown again with what is wrong with it.
func (p *Pages) usage(c echo.Context) error {
	from, to, by := c.QueryParam("from"), c.QueryParam("to"), strings.Join(c.QueryParams()["by"], ",")
	page := templates.UsagePage{Frame: p.frame("Usage", templates.SectionUsage), From: from, To: to}
	asked, err := usage.Asked(from, to, by, time.Now().In(p.Zone()))
	if err != nil {
		page.Trouble, page.By = sentence(err.Error()), choices(nil)
		return send(c, http.StatusUnprocessableEntity, templates.UsageReport(page))
	}
	page.From, page.To, page.By = asked.From.Format(time.DateOnly), asked.To.Format(time.DateOnly), choices(asked.By)

	ctx, cancel := context.WithTimeout(c.Request().Context(), readTimeout)
	defer cancel()
	report, err := p.Usage.Report(ctx, asked)
	switch {
	case errors.Is(err, usage.ErrTooLong):
		page.Trouble = "That is more than a page can show. Ask for fewer days or tell less apart."
		return send(c, http.StatusUnprocessableEntity, templates.UsageReport(page))
	case err != nil:
		p.Log.Debug("usage cannot be read", "error", err)
		page.Trouble = "Usage cannot be read right now: the database does not answer. Calls are served and counted all the same."
		return send(c, http.StatusServiceUnavailable, templates.UsageReport(page))
	}
	answer(&page, report)
	return send(c, http.StatusOK, templates.UsageReport(page))
}

func choices(by []usage.Dimension) []templates.UsageChoice {
	var all []templates.UsageChoice
	for _, d := range usage.Dimensions() {
		all = append(all, templates.UsageChoice{Name: string(d), Label: sentence(string(d)), Chosen: slices.Contains(by, d)})
	}
	return all
}

func answer(page *templates.UsagePage, report usage.Report) {
	page.Summary = usageInWords(report)
	page.CSV = csvOf(report.Query)
	page.Bars = bars(report)
	page.Unreported = report.Total.UnreportedTokens != 0 || !report.Total.UnreportedUSD.IsZero()
	page.Total = amountsInWords(report.Total, page.Unreported)
	for _, d := range report.By {
		page.Names = append(page.Names, sentence(string(d)))
	}
	for _, s := range report.Sums[:min(len(report.Sums), usageRows)] {
		page.Rows = append(page.Rows, templates.UsageRow{Names: names(s, report.By), Figures: amountsInWords(s.Amounts, page.Unreported)})
	}
}

func usageInWords(report usage.Report) string {
	if len(report.Sums) == 0 {
		return "Nothing was used on these days."
	}
	text := fmt.Sprintf("%s requests for %s.", grouped(report.Total.Requests), dollars(report.Total.CostUSD))
	if n := report.Total.Unpriced; n > 0 {
		text += fmt.Sprintf(" The tokens of %s attempts have no price and are not in it.", grouped(n))
	}
	if n := len(report.Sums); n > usageRows {
		text += fmt.Sprintf(" Of %s sums the first %d are shown.", grouped(n), usageRows)
	}
	return text
}

// csvOf is where the same question is answered with a file.
func csvOf(q usage.Query) string {
	var by []string
	for _, d := range q.By {
		by = append(by, string(d))
	}
	query := url.Values{"from": {q.From.Format(time.DateOnly)}, "to": {q.To.Format(time.DateOnly)}, "by": {strings.Join(by, ",")}, "format": {"csv"}}
	return "/api/v1/usage?" + query.Encode()
}

func names(s usage.Sum, by []usage.Dimension) []string {
	all := make([]string, len(by))
	for i, d := range by {
		all[i] = s.Name(d)
	}
	return all
}

// amountsInWords are the figures of a line, in the order of the table's columns.
func amountsInWords(a usage.Amounts, unreported bool) []string {
	figures := []string{
		grouped(a.Requests), grouped(a.Attempts), grouped(a.Failures),
		grouped(a.InputTokens), grouped(a.OutputTokens), dollars(a.CostUSD), grouped(a.Unpriced),
	}
	if unreported {
		figures = append(figures, grouped(a.UnreportedTokens), dollars(a.UnreportedUSD))
	}
	return figures
}

// bars are the largest sums by cost, or by requests where nothing has a price.
func bars(report usage.Report) []templates.UsageBar {
	priced := report.Total.CostUSD.IsPositive()
	size := func(s usage.Sum) float64 {
		if priced {
			return s.CostUSD.InexactFloat64()
		}
		return float64(s.Requests)
	}
	largest := slices.Clone(report.Sums)
	slices.SortStableFunc(largest, func(a, b usage.Sum) int { return cmp.Compare(size(b), size(a)) })
	largest = largest[:min(len(largest), usageBars)]
	var drawn []templates.UsageBar
	for _, s := range largest {
		bar := templates.UsageBar{Name: strings.Join(names(s, report.By), ", "), Text: grouped(s.Requests) + " requests"}
		if priced {
			bar.Text = dollars(s.CostUSD)
		}
		if most := size(largest[0]); most > 0 {
			bar.Percent = int(100 * size(s) / most)
		}
		drawn = append(drawn, bar)
	}
	return drawn
}
