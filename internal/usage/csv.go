package usage

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// WriteCSV writes the report as RFC 4180 has it, with a header. What people or
// clients named cannot become a formula in a spreadsheet.
func (r Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	if err := out.Write(r.header()); err != nil {
		return fmt.Errorf("write usage: %w", err)
	}
	for _, s := range r.Sums {
		if err := out.Write(s.record(r.By)); err != nil {
			return fmt.Errorf("write usage: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write usage: %w", err)
	}
	return nil
}

func (r Report) header() []string {
	var names []string
	for _, d := range r.By {
		names = append(names, string(d))
		if d == ByKey {
			names = append(names, "key_name")
		}
	}
	return append(names, "requests", "attempts", "failures",
		"input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens",
		"cost_usd", "unpriced", "estimated", "unreported_tokens", "unreported_usd")
}

func (s Sum) record(by []Dimension) []string {
	var record []string
	for _, d := range by {
		switch d {
		case ByDay:
			record = append(record, s.Day.Format(time.DateOnly))
		case ByKey:
			record = append(record, harmless(s.KeyID), harmless(s.KeyName))
		case ByConfiguration:
			record = append(record, harmless(s.Configuration))
		case ByProvider:
			record = append(record, harmless(s.Provider))
		case ByModel:
			record = append(record, harmless(s.Model))
		}
	}
	for _, n := range []int64{s.Requests, s.Attempts, s.Failures, s.InputTokens, s.CachedTokens, s.CacheWriteTokens, s.OutputTokens, s.ReasoningTokens} {
		record = append(record, strconv.FormatInt(n, 10))
	}
	return append(record, s.CostUSD.String(), strconv.FormatInt(s.Unpriced, 10), strconv.FormatInt(s.Estimated, 10),
		strconv.FormatInt(s.UnreportedTokens, 10), s.UnreportedUSD.String())
}

// harmless makes a text that a spreadsheet would take for a formula a mere text,
// by the apostrophe that spreadsheets have for it.
func harmless(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}
