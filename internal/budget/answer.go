package budget

import (
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// errAnswer is a fault of the script's, or somebody else's key.
var errAnswer = errors.New("the ledger script answered what it never does")

// answer is what a step has come to.
type answer struct {
	code    string
	birth   string
	now     int64 // of the store, in milliseconds
	numbers numbers
	more    []string
}

// numbers are how a scope stands in a day and its month.
type numbers struct {
	live       int64
	day, month tally
	requests   int64 // begun within a minute
	tokens     int64
	// requestsGone and tokensGone are the times, in milliseconds from now, at which
	// none of these is in the window any more.
	requestsGone, tokensGone int64
	now                      int64
}

func read(r cache.Result) (answer, error) {
	if r.Err != nil {
		return answer{}, r.Err
	}
	if len(r.Values) < 3 {
		return answer{}, fmt.Errorf("%w: %q", errAnswer, r.Values)
	}
	in := packed{rest: r.Values[2]}
	a := answer{code: r.Values[0], birth: r.Values[1], now: in.number(), more: r.Values[3:]}
	if in.rest != "" {
		a.numbers = numbers{
			live:     in.number(),
			day:      tally{spent: in.sums(), reserved: in.sums()},
			month:    tally{spent: in.sums(), reserved: in.sums()},
			requests: in.number(), tokens: in.number(), requestsGone: in.number(), tokensGone: in.number(),
			now: a.now,
		}
	}
	if !in.done() {
		return answer{}, fmt.Errorf("%w: %q", errAnswer, r.Values)
	}
	return a, nil
}

// refusal reads what a refused reservation was told. Its time is from now.
func (a answer) refusal() (refusal, error) {
	if len(a.more) != 1 {
		return refusal{}, fmt.Errorf("%w: %q", errAnswer, a.more)
	}
	in := packed{rest: a.more[0]}
	r := refusal{limit: int(in.number()), spent: in.number(), reserved: in.number(), resets: in.number()}
	if !in.done() || r.limit >= limitCount {
		return refusal{}, fmt.Errorf("%w: %q", errAnswer, a.more)
	}
	if r.resets > 0 {
		r.resets = max(r.resets-a.now, 1)
	}
	return r, nil
}

// of is what was spent and is reserved of a limit.
func (n numbers) of(limit int) (spent, reserved int64) {
	t := n.day
	if limit >= atRequestsPerMonth {
		t = n.month
	}
	switch limit {
	case atConcurrent:
		return 0, n.live
	case atRequestsPerMinute:
		return n.requests, 0
	case atTokensPerMinute:
		return n.tokens, 0
	case atRequestsPerDay, atRequestsPerMonth:
		return t.spent.requests, t.reserved.requests
	case atTokensPerDay, atTokensPerMonth:
		return t.spent.tokens, t.reserved.tokens
	default:
		return t.spent.nano, t.reserved.nano
	}
}

// gone is how long it takes until nothing is in the window of a limit.
func (n numbers) gone(limit int) time.Duration {
	at := int64(0)
	switch limit {
	case atRequestsPerMinute:
		at = n.requestsGone
	case atTokensPerMinute:
		at = n.tokensGone
	}
	return time.Duration(max(at-n.now, 0)) * time.Millisecond
}

// standings adds how the rate limits stand.
func (n numbers) standings(to []llm.Standing, caps caps) []llm.Standing {
	rates := [...]llm.LimitName{llm.LimitConcurrent, llm.LimitRequestsPerMinute, llm.LimitTokensPerMinute}
	for i, name := range rates {
		if caps[i] == none {
			continue
		}
		if to == nil {
			to = make([]llm.Standing, 0, len(rates))
		}
		spent, reserved := n.of(i)
		to = append(to, llm.Standing{Limit: name, Allowed: caps[i], Remaining: max(caps[i]-spent-reserved, 0), Resets: n.gone(i)})
	}
	return to
}

// states are how all limits stand.
func (n numbers) states(caps caps, p Period, now time.Time) []State {
	var all []State
	for i, name := range llm.LimitNames() {
		if caps[i] == none {
			continue
		}
		spent, reserved := n.of(i)
		s := State{Limit: name, Allowed: inUnit(i, caps[i]), Spent: inUnit(i, spent), Reserved: inUnit(i, reserved)}
		switch {
		case !name.Rate():
			s.Resets = p.ends(i)
		case n.gone(i) > 0:
			s.Resets = now.Add(n.gone(i))
		}
		all = append(all, s)
	}
	return all
}
