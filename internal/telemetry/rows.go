package telemetry

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// notMeasured stands for NULL on the way into the database, where every
// measured number is zero or more.
const notMeasured = -1

// The longest strings that a row keeps, in bytes. What a client may choose
// freely is cut, never a reason to lose the row.
const (
	maxName = 256  // models, configurations, keys
	maxID   = 128  // correlation and trace ids
	maxNote = 2000 // what operators say of what they did
)

// maxCost is the largest cost that the cost_usd columns are given, in USD.
var maxCost = decimal.New(9_999_999_999, 0)

// totals are what the attempts of a run sum up to.
type totals struct {
	reached  int
	usage    llm.Usage
	cost     decimal.Decimal // notMeasured when no attempt has a cost
	unpriced bool            // some attempt used tokens that have no price, so cost is not all of it
}

// totalsOf are those of a run. One that was given an answer which was there already
// has cost nothing, which is measured.
func totalsOf(run *llm.Run) totals {
	t := sum(run.Attempts)
	if (run.IdempotentReplay || run.CacheHit) && t.cost.IsNegative() {
		t.cost = decimal.Zero
	}
	return t
}

func sum(attempts []llm.Attempt) totals {
	t := totals{cost: decimal.NewFromInt(notMeasured)}
	for i := range attempts {
		a := &attempts[i]
		if a.Reached {
			t.reached++
		}
		t.usage = t.usage.Add(a.Usage)
		t.unpriced = t.unpriced || a.Unpriced
		if a.Cost == nil {
			continue
		}
		if t.cost.IsNegative() {
			t.cost = decimal.Zero
		}
		t.cost = decimal.Min(t.cost.Add(*a.Cost), maxCost)
	}
	return t
}

// fallbacks counts the targets that a run moved past.
func fallbacks(attempts []llm.Attempt) int { return max(0, len(attempts)-1) }

// millis returns whole milliseconds, as they had passed. Less than one is a
// measured zero.
func millis(d time.Duration) int64 { return max(0, d.Milliseconds()) }

func millisOrNull(d *time.Duration) int64 {
	if d == nil {
		return notMeasured
	}
	return millis(*d)
}

func countOrNull(c llm.Count) int64 {
	if !c.Known {
		return notMeasured
	}
	return max(0, c.N)
}

func costOrNull(cost *decimal.Decimal) decimal.Decimal {
	if cost == nil {
		return decimal.NewFromInt(notMeasured)
	}
	return decimal.Min(*cost, maxCost)
}

// clean makes a string that a client may have chosen fit for a text column:
// valid UTF-8, no NUL, and at most limit bytes, cut between two characters.
func clean(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", "")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// generationOrNull is NULL where no circuit was asked.
func generationOrNull(a *llm.Attempt) int64 {
	if a.CircuitState == "" {
		return notMeasured
	}
	return int64(a.CircuitGeneration)
}

// openForOrNull is NULL for a transition that opened nothing.
func openForOrNull(d time.Duration) int64 {
	if d <= 0 {
		return notMeasured
	}
	return millis(d)
}
