package telemetry

import "github.com/prometheus/client_golang/prometheus"

// dropReason says why a row is in no table.
type dropReason string

const (
	dropFull     dropReason = "queue_full" // there was no room to wait in
	dropRefused  dropReason = "refused"    // the database will never accept it
	dropShutdown dropReason = "shutdown"   // the process ended before it was written
	dropPanic    dropReason = "panic"      // a fault of the gateway's came in between
)

// fates counts what becomes of rows.
type fates struct {
	written, dropped prometheus.Counter
	reasons          map[dropReason]prometheus.Counter
}

func newFates(f families) fates {
	rows := f.counter("telemetry_rows_total", "Runs, with their attempts, and circuit events, by their fate.", "result")
	drops := f.counter("telemetry_dropped_rows_total", "Runs, with their attempts, and circuit events that were dropped, by why.", "reason")
	fates := fates{
		written: rows.WithLabelValues("written"), dropped: rows.WithLabelValues("dropped"),
		reasons: map[dropReason]prometheus.Counter{},
	}
	for _, reason := range []dropReason{dropFull, dropRefused, dropShutdown, dropPanic} {
		fates.reasons[reason] = drops.WithLabelValues(string(reason))
	}
	return fates
}

func (f fates) drop(reason dropReason, rows int) {
	f.dropped.Add(float64(rows))
	f.reasons[reason].Add(float64(rows))
}
