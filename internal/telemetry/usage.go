package telemetry

import (
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// maxUsageTokens is the most that one attempt adds to a sum of tokens. No call is
// as large; a report that says so must not spoil the sums of others.
const maxUsageTokens = 1_000_000_000_000

// WithoutRows is where runs go while telemetry is off: they count in the metrics
// and in usage_daily, and leave no row.
type WithoutRows struct{ recorder *Recorder }

// WithoutRows returns a way to the same writer that keeps usage alone.
func (r *Recorder) WithoutRows() WithoutRows { return WithoutRows{r} }

// Record counts a run in the metrics and queues what it used, if it reached an
// upstream. It never blocks.
func (w WithoutRows) Record(run llm.Run) {
	w.recorder.metrics.observe(&run)
	if lastReached(&run) >= 0 {
		w.recorder.keep(w.recorder.usage, &run)
	}
}

// Lost counts a run that a panic has kept from being recorded.
func (w WithoutRows) Lost(runID uuid.UUID, panicked any, stack []byte) {
	w.recorder.metrics.Lost(runID, panicked, stack)
}

// CircuitEvent counts a transition of a circuit.
func (w WithoutRows) CircuitEvent(event breaker.Event) { w.recorder.metrics.CircuitEvent(event) }

// lastReached is the attempt at which a run counts as one request: the last that
// reached an upstream. It is -1 for a run that counts nowhere, since none did or
// since the gateway made it on its own account.
func lastReached(run *llm.Run) int {
	if run.Operation.Own() {
		return -1
	}
	for i := len(run.Attempts) - 1; i >= 0; i-- {
		if run.Attempts[i].Reached {
			return i
		}
	}
	return -1
}

// counted calls add for every attempt that counts in usage_daily, with the number
// of requests that it stands for.
func counted(runs []*llm.Run, add func(run *llm.Run, seq int, requests int32)) {
	for _, run := range runs {
		last := lastReached(run)
		for i := 0; i <= last; i++ {
			if run.Attempts[i].Reached {
				add(run, i+1, one(i == last))
			}
		}
	}
}

// usageDay is the day that a run counts for.
func usageDay(run *llm.Run, zone *time.Location) time.Time {
	if !run.UsageDay.IsZero() {
		return run.UsageDay
	}
	return localDay(run.StartedAt, zone)
}

// localDay is the day in zone, as the date that the database takes from a time.
func localDay(at time.Time, zone *time.Location) time.Time {
	year, month, day := at.In(zone).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

func usageTokens(c llm.Count) int64 { return min(max(0, c.N), maxUsageTokens) }

func costOrZero(cost *decimal.Decimal) decimal.Decimal {
	if cost == nil {
		return decimal.Zero
	}
	return decimal.Min(*cost, maxCost)
}

// unreported is what limits have counted of an attempt beyond its report, as far as
// a sum is given it.
func unreported(a *llm.Attempt) (tokens int64, cost decimal.Decimal) {
	return min(max(0, a.Unreported.Tokens), maxUsageTokens), decimal.Min(a.Unreported.Cost, maxCost)
}

func one(yes bool) int32 {
	if yes {
		return 1
	}
	return 0
}
