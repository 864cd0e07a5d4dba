package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/usage"
)

// Usage reads what calls used.
type Usage interface {
	// Report returns the usage that is asked for, or usage.ErrTooLong.
	Report(ctx context.Context, q usage.Query) (usage.Report, error)
}

// getUsage serves GET /api/v1/usage.
func (a *admin) getUsage(c echo.Context) error {
	q := queryOf(c, "from", "to", "by", "format")
	format := q.oneOf("format", []string{"json", "csv"})
	if q.err != nil {
		return q.err
	}
	asked, err := usage.Asked(q.text("from"), q.text("to"), q.text("by"), time.Now().In(a.Zone()))
	var unclear *usage.Fault
	if errors.As(err, &unclear) {
		return invalidValue(unclear.Param, unclear.Text)
	}
	if err != nil {
		return err
	}
	report, err := a.Usage.Report(c.Request().Context(), asked)
	switch {
	case errors.Is(err, usage.ErrTooLong):
		return invalidValue("by", "The report would be longer than any reader can take; ask for fewer days or fewer dimensions.")
	case err != nil:
		return err
	case format == "csv":
		return sendCSV(c, report)
	}
	return sendJSON(c, http.StatusOK, report)
}

// sendCSV answers with a file that a browser saves under the days it is of.
func sendCSV(c echo.Context, report usage.Report) error {
	var file bytes.Buffer
	if err := report.WriteCSV(&file); err != nil {
		return err
	}
	name := "usage-" + report.From.Format(time.DateOnly) + "-" + report.To.Format(time.DateOnly) + ".csv"
	c.Response().Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	return sendWhole(c.Request().Context(), c.Response(), writeLimit, http.StatusOK, "text/csv; charset=utf-8", file.Bytes())
}
