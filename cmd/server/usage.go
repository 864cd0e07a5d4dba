package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/usage"
)

type usageCmd struct {
	configFlag
	From   string `placeholder:"2026-01-01" help:"The first day, by budget.time_zone; without it, 29 days before the last, which makes thirty."`
	To     string `placeholder:"2026-01-31" help:"The last day, which counts; without it, today."`
	By     string `default:"day" placeholder:"key,configuration,model" help:"What usage is told apart by, with commas: day, key, configuration, provider, model."`
	Format string `default:"table" enum:"table,csv,json" help:"How it is printed: table, csv or json."`
}

// Run prints what calls used, as the database has it.
func (c usageCmd) Run(ctx context.Context, std streams) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	asked, err := usage.Asked(c.From, c.To, c.By, time.Now().In(cfg.Budget.Location()))
	if err != nil {
		return usageError{err}
	}
	return withPool(ctx, cfg, std, func(pool *postgres.Pool) error {
		report, err := usage.NewRepository(pool).Report(ctx, asked)
		if errors.Is(err, usage.ErrTooLong) {
			return fmt.Errorf("%w: ask for fewer days, or for fewer dimensions in --by", err)
		}
		if err != nil {
			return err
		}
		return c.print(std.Out, report)
	})
}

func (c usageCmd) print(w io.Writer, report usage.Report) error {
	switch c.Format {
	case "csv":
		return report.WriteCSV(w)
	case "json":
		text, err := json.MarshalIndent(report, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", text)
		return err
	default:
		return printUsage(w, report)
	}
}

// printUsage prints a line per sum and one for all of them.
func printUsage(w io.Writer, report usage.Report) error {
	if len(report.Sums) == 0 {
		_, err := fmt.Fprintf(w, "no usage from %s to %s\n", report.From.Format(time.DateOnly), report.To.Format(time.DateOnly))
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var head, blank string
	for i, d := range report.By {
		head += strings.ToUpper(string(d)) + "\t"
		if i == 0 {
			blank += "total"
		}
		blank += "\t"
	}
	fmt.Fprintf(table, "%sREQUESTS\tATTEMPTS\tFAILURES\tINPUT\tOUTPUT\tCOST USD\tUNPRICED\n", head)
	for _, s := range report.Sums {
		fmt.Fprintf(table, "%s%s\n", named(s, report.By), inColumns(s.Amounts))
	}
	fmt.Fprintf(table, "%s%s\n", blank, inColumns(report.Total))
	if err := table.Flush(); err != nil {
		return err
	}
	return printUnreported(w, report.Total)
}

// printUnreported says what limits have counted that the table does not.
func printUnreported(w io.Writer, total usage.Amounts) error {
	if total.UnreportedTokens == 0 && total.UnreportedUSD.IsZero() {
		return nil
	}
	_, err := fmt.Fprintf(w, "limits have counted up to %d more tokens and %s USD, of attempts whose provider reported no usage\n", total.UnreportedTokens, total.UnreportedUSD)
	return err
}

// named is the cells that say what a sum is of.
func named(s usage.Sum, by []usage.Dimension) string {
	var cells strings.Builder
	for _, d := range by {
		cells.WriteString(s.Name(d))
		cells.WriteByte('\t')
	}
	return cells.String()
}

func inColumns(a usage.Amounts) string {
	return fmt.Sprintf("%d\t%d\t%d\t%d\t%d\t%s\t%d", a.Requests, a.Attempts, a.Failures, a.InputTokens, a.OutputTokens, a.CostUSD, a.Unpriced)
}
