package budget

import (
	"context"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Standing says how the limits of a scope stand now, in the order in which they
// are checked. What a dead gateway had reserved is spent in it as soon as its
// lease is over. Returns an *llm.Failure where what was spent is not known, or
// ctx's error.
func (l *Ledger) Standing(ctx context.Context, scope llm.Scope, limits llm.Limits) ([]State, error) {
	now := time.Now()
	s := seat{purse: l.purse(scope), caps: capsOf(limits), holding: holding{period: l.period(now)}}
	for {
		a, how, err := s.purse.ask(ctx, &s, request{step: stepLook, limits: s.caps, patient: true})
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, err
		}
		how.heeded()
		if a.code == codeDone {
			if !how.offline {
				s.purse.saw(s.period, a.numbers)
			}
			return a.numbers.states(how.caps, s.period, now), nil
		}
		if err := s.purse.learn(ctx, &s, a, how); err != nil {
			return nil, err
		}
	}
}
