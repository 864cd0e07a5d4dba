package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const ms = time.Millisecond

// goodRecord is a drill in which everything went as it should.
func goodRecord() *record {
	r := &record{phases: threeStretches(), events: []event{opens(11, stateClosed, "consecutive"), sends(21), asks(21.5), closes(22)}}
	for phase := range 3 {
		for n := range 4 {
			r.calls = append(r.calls,
				call{phase: phase, fallback: true, stream: n%2 == 0, asked: 1, took: 200 * ms},
				call{phase: phase, stream: n%2 == 0, asked: 1, took: 200 * ms})
		}
	}
	return r
}

// bounded is the scenario to that record.
func bounded() *scenario {
	s := &scenario{Phases: append([]phase(nil), threePhases...)}
	for i := range s.Phases {
		s.Phases[i].Extra, s.Phases[i].Upstream = time.Second, 1.5
	}
	s.Phases[1].Opens, s.Phases[2].Closes = 2*time.Second, 3*time.Second
	return s
}

func TestASideIsAddedUp(t *testing.T) {
	t.Parallel()
	calls := []call{
		{fallback: true, asked: 1, took: 100 * ms},
		{fallback: true, stream: true, asked: 1, took: 300 * ms},
		{phase: 1, fallback: true, asked: 2, took: 350 * ms},
		{phase: 1, fallback: true, stream: true, asked: 2, took: 500 * ms},
		{phase: 1, fallback: true, end: refused, took: 2 * ms},
		{phase: 1, fallback: true, stream: true, end: failed, asked: 1, took: 80 * ms},
		{phase: 1, asked: 1, took: 9 * time.Second},
	}
	got := sideOf(calls, usualTimes(calls), func(c call) bool { return c.phase == 1 && c.fallback })
	want := side{calls: 4, refused: 1, failed: 2, usual: 500 * ms, extra: 250 * ms, failing: 80 * ms, upstream: 1.25}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(side{})); diff != "" {
		t.Errorf("side (-want +got):\n%s", diff)
	}
}

func TestBoundsAreJudged(t *testing.T) {
	t.Parallel()
	sickCalls := func(spoil func(*call)) func(*record, *scenario) {
		return func(r *record, _ *scenario) {
			for i := range r.calls {
				if c := &r.calls[i]; c.phase == 1 && c.fallback {
					spoil(c)
				}
			}
		}
	}
	for name, tt := range map[string]struct {
		spoil func(*record, *scenario)
		want  string
	}{
		"failures":         {sickCalls(func(c *call) { c.end = failed }), "sick: 4 of 4 calls with a fallback failed, 0 % may"},
		"slow answers":     {sickCalls(func(c *call) { c.took = 1500 * ms }), "sick: a call with a fallback took 1.3s longer than usual, 1s is the most"},
		"too many asked":   {sickCalls(func(c *call) { c.asked = 2 }), "sick: 2.00 upstream calls for each call with a fallback, 1.50 are the most"},
		"no calls":         {func(r *record, _ *scenario) { r.calls = nil }, "sick: no call was made"},
		"opens late":       {func(r *record, _ *scenario) { r.events[0].At = at(15) }, "sick: the circuit opened after 5s, it must within 2s"},
		"never opens":      {func(r *record, _ *scenario) { r.events = nil }, "sick: the circuit opened never, it must within 2s"},
		"closes late":      {func(r *record, _ *scenario) { r.events[3].At = at(29) }, "well again: the circuit closed after 9s, it must within 3s"},
		"never closes":     {func(r *record, _ *scenario) { r.events = r.events[:1] }, "well again: the circuit closed never, it must within 3s"},
		"opens when well":  {func(r *record, _ *scenario) { r.events = append(r.events, opens(25, stateClosed, "slow_rate")) }, "well again: the circuit opened 1 times while the provider was well"},
		"an event is lost": {func(r *record, _ *scenario) { r.events = r.events[1:] }, "well again: 1 transitions of the circuit were not told"},
		"nothing is wrong": {func(*record, *scenario) {}, ""},
		"some may fail": {func(r *record, s *scenario) {
			r.calls[9].end, r.calls[8].end, s.Phases[1].Failed = failed, failed, 0.25
		}, ""},
	} {
		r, s := goodRecord(), bounded()
		tt.spoil(r, s)
		err := errors.Join(newScorecard(s, r, true).broken...)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: broken %v, want %q", name, err, tt.want)
		}
		if broken := newScorecard(s, r, false).broken; broken != nil {
			t.Errorf("%s: without circuits %v is broken, want nothing judged", name, broken)
		}
	}
}

func TestTheReport(t *testing.T) {
	t.Parallel()
	r := goodRecord()
	r.calls[9].end, r.calls[9].asked, r.calls[9].took = refused, 0, 3*ms
	got := newScorecard(bounded(), r, true).report("A drill.", "0.10 0.20 0.30")
	for _, want := range []string{
		"A drill. Load of the machine before: 0.10 0.20 0.30.\n",
		"\n| well | 10 | 4 | 0 | 200 | 0 | 1.00 | 4 | 0 | 0 |  | 1.00 |\n",
		"\n| sick | 10 | 4 | 0 | 200 | 0 | 1.00 | 4 | 1 | 1 | 3 | 0.75 |\n",
		"\n| well | stays closed |  |  | 0 |  |  |\n",
		"\n| sick | opened after 1.0 s | 1 | consecutive |  |  | 2 |\n",
		"\n| well again | closed after 2.0 s |  |  | 0 | 1 | 2 |\n",
		"\n- Failed for callers with a fallback: 0 of 12; without: 1 of 12.\n",
		"\n- Openings while the provider was well: 0. Canaries: 1, calls spent on probes: 4. Transitions that were not told: 0.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, got)
		}
	}
}
