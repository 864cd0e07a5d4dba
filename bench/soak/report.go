package main

import (
	"fmt"
	"strings"
	"time"
)

// report writes everything as Markdown.
func (s *soak) report() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Soaked %s to %s UTC, %d calls at up to %d per second.\n", s.began.UTC().Format("2006-01-02 15:04"),
		s.ended.UTC().Format("15:04"), s.ledger.sent(), s.Rate)
	s.writeEnds(&text)
	s.writeFigures(&text)
	s.writeDeeds(&text)
	s.writePromises(&text)
	return text.String()
}

func (s *soak) writeEnds(text *strings.Builder) {
	text.WriteString("\n| calls |")
	for _, e := range allEnds() {
		fmt.Fprintf(text, " %s |", e)
	}
	text.WriteString("\n|---|" + strings.Repeat("--:|", len(allEnds())) + "\n")
	for _, k := range kinds() {
		fmt.Fprintf(text, "| %s |", k.name)
		for _, e := range allEnds() {
			text.WriteString(" " + count(s.ledger.ends[k.name][e]) + " |")
		}
		text.WriteString("\n")
	}
	text.WriteString("| all |")
	for _, e := range allEnds() {
		text.WriteString(" " + count(s.ledger.total(e)) + " |")
	}
	text.WriteString("\n")
}

// count leaves a cell empty when there is nothing to count.
func count(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func (s *soak) writeFigures(text *strings.Builder) {
	text.WriteString("\n| the gateway's | before | 2nd quarter (median) | last quarter (median) | due at most | highest | after |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, f := range figures() {
		second, _ := s.quarter(f, 1)
		last, _ := s.quarter(f, 3)
		fmt.Fprintf(text, "| %s |", f.name)
		for _, value := range []float64{s.base[f.series], second, last, f.mayReach(second), s.samples.highest(f.series), s.after[f.series]} {
			fmt.Fprintf(text, " %.1f |", value/f.unit)
		}
		text.WriteString("\n")
	}
}

func (s *soak) writeDeeds(text *strings.Builder) {
	during, well := s.ledger.between(s.away)
	before, wellBefore := s.ledger.between(s.away.before())
	fmt.Fprintf(text, "\n- Records: %d runs, %d attempts with %d sends (the upstream saw %d), %d circuit events; %.0f rows dropped.\n",
		s.written.runs, s.written.attempts, s.written.sends, s.upstream.received.Load(), s.written.events,
		s.after.Sum("breakwater_telemetry_rows_total", `result="dropped"`))
	fmt.Fprintf(text, "- Circuits: opened %.0f times, closed %.0f times, %.0f calls not admitted.\n",
		s.after.Sum("breakwater_circuit_transitions_total", `to_state="open"`),
		s.after.Sum("breakwater_circuit_transitions_total", `to_state="closed"`),
		s.after.Sum("breakwater_circuit_rejected_calls_total"))
	fmt.Fprintf(text, "- Without the database for %s: %d of %d calls served, %d of %d in the same time before; up to %.0f rows waited.\n",
		s.away.length().Round(time.Second), well, during, wellBefore, before, s.samples.highest("breakwater_telemetry_queue_length"))
	fmt.Fprintf(text, "- Configurations offered: %d, right %d. Looks of operators: %d, right %d.\n",
		s.reloaded.done, s.reloaded.well, s.looks.done, s.looks.well)
}

func (s *soak) writePromises(text *strings.Builder) {
	text.WriteString("\n| promise | |\n|---|---|\n")
	for _, p := range allPromises() {
		verdict := "kept"
		if times, _ := s.of(p); times > 0 {
			verdict = fmt.Sprintf("**broken** (%d)", times)
		}
		fmt.Fprintf(text, "| %s | %s |\n", p, verdict)
	}
}
