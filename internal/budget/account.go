package budget

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Account is what one run may use, in each of the scopes that govern it. It
// belongs to the run's goroutine.
type Account struct {
	run     uuid.UUID
	seats   []seat
	settled bool
}

// seat is an account's part in one scope.
type seat struct {
	purse *purse
	caps  caps
	holding
	kept  holding // what the purse has of it, under its lock
	tries int     // names that were given up
}

// Reserve sets what the run may use, in every scope or in none. Asked again it
// replaces what was reserved; if that is refused, the old reservation stays. It
// returns how the rate limits stand, and an *llm.Failure of class budget_denied
// without a target that says which limit refused, or ctx's error, if there is one.
func (a *Account) Reserve(ctx context.Context, amount llm.Amount) ([]llm.Standing, error) {
	want := bound(amount)
	var standings []llm.Standing
	var few [2]holding
	old := few[:0]
	for i := range a.seats {
		s := &a.seats[i]
		old = append(old, s.holding)
		numbers, err := s.purse.reserve(ctx, s, want)
		if numbers.now > 0 {
			standings = numbers.standings(standings, s.caps)
		}
		if err != nil {
			a.restore(ctx, old[:i])
			return standings, err
		}
	}
	return standings, nil
}

// restore sets the first scopes back to what they held.
func (a *Account) restore(ctx context.Context, old []holding) {
	for i, h := range old {
		s := &a.seats[i]
		if h.granted {
			err := s.purse.resize(context.WithoutCancel(ctx), s, h.amount)
			s.purse.ledger.report("set a reservation back", err)
			continue
		}
		s.giveBack()
	}
}

// Settle replaces what was reserved by what was used, in every scope. A run that
// reached no upstream gives all back, its request too. It waits for no network.
// Nothing is settled twice.
func (a *Account) Settle(amount llm.Amount, reached bool) {
	if a.settled {
		return
	}
	a.settled = true
	used := truth(amount, reached)
	for i := range a.seats {
		if s := &a.seats[i]; s.granted {
			s.purse.settle(&s.holding, used)
			s.granted = false
		}
	}
}

// giveBack settles what a seat holds with nothing. It may be asked for again,
// under another name: what is under way about this one can harm no other.
func (s *seat) giveBack() {
	s.purse.settle(&s.holding, sums{})
	s.rename()
}

func (s *seat) rename() {
	s.tries++
	s.holding = holding{run: s.run, name: runName(s.run) + "~" + number(int64(s.tries)), period: s.period}
}

// refused is the failure of a limit.
func (s *seat) refused(r refusal, now time.Time, caps caps) error {
	name := llm.LimitNames()[r.limit]
	d := &llm.Denial{
		Scope: s.purse.scope, Limit: name,
		Allowed: inUnit(r.limit, caps[r.limit]), Spent: inUnit(r.limit, r.spent), Reserved: inUnit(r.limit, r.reserved),
		Asked: inUnit(r.limit, s.asked.of(r.limit)),
	}
	if caps[r.limit] < s.caps[r.limit] {
		d.Whole = inUnit(r.limit, s.caps[r.limit])
	}
	reason := llm.ReasonBudgetExceeded
	switch {
	case name.Rate():
		reason = llm.ReasonRateLimitExceeded
		if r.resets > 0 {
			d.Resets = now.Add(time.Duration(r.resets) * time.Millisecond)
		}
	default:
		d.Resets = s.period.ends(r.limit)
	}
	return &llm.Failure{Class: llm.ClassBudgetDenied, Reason: reason, Denial: d}
}

// of is what a run asks of a limit.
func (s sums) of(limit int) int64 {
	switch limit {
	case atTokensPerMinute, atTokensPerDay, atTokensPerMonth:
		return s.tokens
	case atCostPerDay, atCostPerMonth:
		return s.nano
	default:
		return 1
	}
}

// ends is when a limit of a day or a month begins anew.
func (p Period) ends(limit int) time.Time {
	if limit >= atRequestsPerMonth {
		return p.MonthEnds
	}
	return p.DayEnds
}
