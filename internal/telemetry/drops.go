package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-llm/breakwater/internal/telemetry/spool"
)

// dropReason says why a row is in no table.
type dropReason string

const (
	dropFull     dropReason = "queue_full" // there was no room to wait in, and none in the spool
	dropRefused  dropReason = "refused"    // the database will never accept it
	dropShutdown dropReason = "shutdown"   // the process ended before it was written
	dropPanic    dropReason = "panic"      // a fault of the gateway's came in between
)

// fates counts what becomes of rows.
type fates struct {
	written, spooled, dropped prometheus.Counter
	reasons                   map[dropReason]prometheus.Counter
	damages                   map[spool.Damage]prometheus.Counter
}

func newFates(f families) fates {
	rows := f.counter("telemetry_rows_total", "Runs, with their attempts, and circuit events, by their fate; those that were spooled count again when they are written.", "result")
	drops := f.counter("telemetry_dropped_rows_total", "Runs, with their attempts, and circuit events that were dropped, by why.", "reason")
	damages := f.counter("telemetry_spool_damage_total", "Places in the spool that could not be read, torn by a crash or corrupt.", "kind")
	fates := fates{
		written: rows.WithLabelValues("written"), spooled: rows.WithLabelValues("spooled"), dropped: rows.WithLabelValues("dropped"),
		reasons: map[dropReason]prometheus.Counter{},
		damages: map[spool.Damage]prometheus.Counter{},
	}
	for _, damage := range spool.Damages() {
		fates.damages[damage] = damages.WithLabelValues(string(damage))
	}
	for _, reason := range []dropReason{dropFull, dropRefused, dropShutdown, dropPanic} {
		fates.reasons[reason] = drops.WithLabelValues(string(reason))
	}
	return fates
}

// SpoolDamaged counts a place in the spool that cannot be read.
func (m *Metrics) SpoolDamaged(damage spool.Damage) { m.damages[damage].Inc() }

func (f fates) drop(reason dropReason, rows int) {
	f.dropped.Add(float64(rows))
	f.reasons[reason].Add(float64(rows))
}
