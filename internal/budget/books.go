package budget

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Books is what the database knows of a scope. It is asked when the counters are
// lost, or were never begun.
type Books interface {
	// Spent returns what the calls that were received on days.Day have spent, and
	// those of the month days.From to days.To, both inclusive. written holds those
	// of the given runs that are counted in them already: both are read in one
	// snapshot.
	Spent(ctx context.Context, scope llm.Scope, days DayRange, runs []uuid.UUID) (day, month Spent, written map[uuid.UUID]bool, err error)
}

// DayRange is a day and the whole month that it belongs to, as local dates of
// the ledger's time zone: each is midnight UTC of the date.
type DayRange struct {
	Day      time.Time
	From, To time.Time // the first and the last day of the month
}

// Spent is what a scope has spent in a period.
type Spent struct {
	Requests int64
	Tokens   int64           // input and output together
	Cost     decimal.Decimal // USD
}

// State is how one limit stands. The amounts are in the limit's own unit:
// requests, tokens, or USD.
type State struct {
	Limit    llm.LimitName
	Allowed  decimal.Decimal
	Spent    decimal.Decimal
	Reserved decimal.Decimal // what calls under way may still use
	// Resets is when the limit begins anew, as in llm.Denial; for a limit of a
	// minute the moment from which all of it is there again.
	Resets time.Time
}

// Left is what may still be used; never below 0.
func (s State) Left() decimal.Decimal {
	return decimal.Max(s.Allowed.Sub(s.Spent).Sub(s.Reserved), decimal.Zero)
}
