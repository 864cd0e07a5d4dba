package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// at is so many seconds into a test's drill.
func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// Well for ten seconds, sick for ten, well for ten.
var threePhases = []phase{{Name: "well"}, {Name: "sick", Set: map[string]any{"mode": "error"}}, {Name: "well again"}}

func threeStretches() []stretch {
	return []stretch{{began: at(0), ended: at(10)}, {began: at(10), ended: at(20), probes: 2}, {began: at(20), ended: at(30), probes: 5}}
}

func opens(seconds float64, from, reason string) event {
	return event{At: at(seconds), From: from, To: stateOpen, Reason: reason}
}

func probes(seconds float64) event {
	return event{At: at(seconds), From: stateOpen, To: stateHalfOpen, Reason: "half_open"}
}

// sends is probes where a canary goes first.
func sends(seconds float64) event {
	return event{At: at(seconds), From: stateOpen, To: stateHalfOpen, Reason: reasonCanary}
}

// asks is what follows when a canary has done well: callers' calls probe.
func asks(seconds float64) event {
	return event{At: at(seconds), From: stateHalfOpen, To: stateHalfOpen, Reason: "canary_success"}
}

func closes(seconds float64) event {
	return event{At: at(seconds), From: stateHalfOpen, To: stateClosed, Reason: "probe_success"}
}

func TestWhatTheCircuitDid(t *testing.T) {
	t.Parallel()
	quiet := circuit{closed: true}
	for name, tt := range map[string]struct {
		events []event
		want   []circuit
	}{
		"nothing": {nil, []circuit{quiet, {}, quiet}},
		"as it should": {
			[]event{opens(11, stateClosed, "consecutive"), probes(13), opens(13.5, stateHalfOpen, "probe_failure"), probes(21), closes(21.5)},
			[]circuit{quiet, {openings: 2, reason: "consecutive", opened: true, after: time.Second}, {closed: true, after: 1500 * time.Millisecond}},
		},
		"canaries go first": {
			[]event{opens(11, stateClosed, "consecutive"), sends(13), opens(13.5, stateHalfOpen, "canary_failure"), sends(21), asks(21.2), closes(21.5)},
			[]circuit{quiet, {openings: 2, reason: "consecutive", opened: true, after: time.Second, canaries: 1}, {closed: true, after: 1500 * time.Millisecond, canaries: 1}},
		},
		"a probe of the sick time fails afterwards": {
			[]event{opens(11, stateClosed, "consecutive"), probes(19), opens(21, stateHalfOpen, "probe_failure"), probes(22), closes(23)},
			[]circuit{quiet, {openings: 1, reason: "consecutive", opened: true, after: time.Second}, {openings: 1, reason: "probe_failure", closed: true, after: 3 * time.Second}},
		},
		"calls of the sick time end afterwards": {
			[]event{opens(21, stateClosed, "failure_rate"), probes(22), closes(23)},
			[]circuit{quiet, {}, {openings: 1, reason: "failure_rate", closed: true, after: 3 * time.Second}},
		},
		"a healthy target is shut out": {
			[]event{opens(5, stateClosed, "slow_rate")},
			[]circuit{{openings: 1, reason: "slow_rate", wrong: 1}, {opened: true}, {}},
		},
		"a probe of the well time fails": {
			[]event{opens(11, stateClosed, "consecutive"), probes(21), opens(22, stateHalfOpen, "probe_failure"), probes(23), closes(24)},
			[]circuit{quiet, {openings: 1, reason: "consecutive", opened: true, after: time.Second}, {openings: 1, reason: "probe_failure", closed: true, after: 4 * time.Second, wrong: 1}},
		},
		"it opens again after it has closed": {
			[]event{opens(11, stateClosed, "consecutive"), probes(21), closes(21.5), opens(22, stateClosed, "failure_rate")},
			[]circuit{quiet, {openings: 1, reason: "consecutive", opened: true, after: time.Second}, {openings: 1, reason: "failure_rate", after: 1500 * time.Millisecond, wrong: 1}},
		},
		"too late to be of the sick time": {
			[]event{opens(28, stateClosed, "failure_rate"), probes(29), closes(29.5)},
			[]circuit{quiet, {}, {openings: 1, reason: "failure_rate", closed: true, after: 9500 * time.Millisecond, wrong: 1}},
		},
	} {
		got := circuitsOf(threePhases, &record{phases: threeStretches(), events: tt.events})
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(circuit{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
