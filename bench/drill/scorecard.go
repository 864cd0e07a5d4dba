package main

import (
	"fmt"
	"slices"
	"time"
)

// scorecard is what came of a drill, phase by phase.
type scorecard struct {
	judged bool // there are circuits to keep the bounds
	rows   []row
	wrong  int     // openings while the provider was well
	untold int     // transitions without an event
	broken []error // bounds
}

// row is one phase.
type row struct {
	phase
	took    time.Duration
	chat    side // callers with a second target
	alone   side // callers without
	circuit circuit
	probes  int // callers' calls that were spent on finding out
}

// side is what one half of the callers saw.
type side struct {
	calls, refused, failed int           // failed includes refused
	usual                  time.Duration // of what was served, the median
	extra                  time.Duration // how much longer than in the first phase the worst served call took
	failing                time.Duration // how long a failure took, the median
	upstream               float64       // upstream calls per call
}

func (s side) share() float64 {
	if s.calls == 0 {
		return 0
	}
	return float64(s.failed) / float64(s.calls)
}

// newScorecard adds up a record. The bounds are judged where there are circuits
// to keep them.
func newScorecard(s *scenario, r *record, judged bool) *scorecard {
	card := &scorecard{judged: judged}
	usual := usualTimes(r.calls)
	circuits := circuitsOf(s.Phases, r)
	before := 0
	for i, p := range s.Phases {
		at := r.phases[i]
		row := row{
			phase: p, took: at.ended.Sub(at.began), circuit: circuits[i],
			chat:   sideOf(r.calls, usual, func(c call) bool { return c.phase == i && c.fallback }),
			alone:  sideOf(r.calls, usual, func(c call) bool { return c.phase == i && !c.fallback }),
			probes: max(0, at.probes-before-circuits[i].canaries), // a canary may begin while a phase ends
		}
		before = at.probes
		card.rows = append(card.rows, row)
		card.wrong += row.circuit.wrong
		card.untold += row.circuit.untold
		if judged {
			card.broken = append(card.broken, row.judge()...)
		}
	}
	return card
}

// usualTimes is what a call takes in the first phase, whole or as a stream: the
// median of what was served.
func usualTimes(calls []call) map[bool]time.Duration {
	usual := map[bool]time.Duration{}
	for _, stream := range []bool{false, true} {
		usual[stream] = median(times(calls, func(c call) bool { return c.phase == 0 && c.stream == stream && c.end == served }))
	}
	return usual
}

func sideOf(calls []call, usual map[bool]time.Duration, mine func(call) bool) side {
	var s side
	asked := 0
	for _, c := range calls {
		if !mine(c) {
			continue
		}
		s.calls++
		asked += c.asked
		switch c.end {
		case served:
			s.extra = max(s.extra, c.took-usual[c.stream])
		case refused:
			s.refused++
			s.failed++
		default:
			s.failed++
		}
	}
	if s.calls > 0 {
		s.upstream = float64(asked) / float64(s.calls)
	}
	s.usual = median(times(calls, func(c call) bool { return mine(c) && c.end == served }))
	s.failing = median(times(calls, func(c call) bool { return mine(c) && c.end != served }))
	return s
}

func times(calls []call, mine func(call) bool) []time.Duration {
	var took []time.Duration
	for _, c := range calls {
		if mine(c) {
			took = append(took, c.took)
		}
	}
	return took
}

// median of nothing is 0.
func median(took []time.Duration) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// judge returns one error for each bound that the phase has broken.
func (r row) judge() []error {
	var broken []error
	bound := func(kept bool, format string, args ...any) {
		if !kept {
			broken = append(broken, fmt.Errorf("%s: %s", r.Name, fmt.Sprintf(format, args...)))
		}
	}
	bound(r.chat.calls > 0, "no call was made")
	bound(r.chat.share() <= r.Failed, "%d of %d calls with a fallback failed, %.0f %% may", r.chat.failed, r.chat.calls, 100*r.Failed)
	bound(r.Extra == 0 || r.chat.extra <= r.Extra, "a call with a fallback took %s longer than usual, %s is the most", tidy(r.chat.extra), r.Extra)
	bound(r.Upstream == 0 || r.chat.upstream <= r.Upstream, "%.2f upstream calls for each call with a fallback, %.2f are the most", r.chat.upstream, r.Upstream)
	bound(r.Opens == 0 || r.circuit.opened && r.circuit.after <= r.Opens, "the circuit opened %s, it must within %s", r.circuit.when(), r.Opens)
	bound(r.Closes == 0 || r.circuit.closed && r.circuit.after <= r.Closes, "the circuit closed %s, it must within %s", r.circuit.when(), r.Closes)
	bound(r.circuit.wrong == 0, "the circuit opened %d times while the provider was well", r.circuit.wrong)
	bound(r.circuit.untold == 0, "%d transitions of the circuit were not told", r.circuit.untold)
	return broken
}

func tidy(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
