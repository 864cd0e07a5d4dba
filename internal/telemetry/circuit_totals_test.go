package telemetry

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

const (
	rejectedAlpha = `circuit_rejected_calls_total{model="m1",provider="alpha",region="r1"}`
	probesAlpha   = `circuit_probes_total{model="m1",provider="alpha",region="r1"}`
)

// A circuit that is let go when it is idle takes no count with it.
func TestCountersOfCircuitsNeverGoBack(t *testing.T) {
	t.Parallel()
	m, reg := newMetrics(t)
	var circuits []breaker.Snapshot
	m.ReadFrom(Sources{Circuits: func() []breaker.Snapshot { return circuits }})

	for _, step := range []struct {
		name             string
		circuits         []breaker.Snapshot
		rejected, probes float64
	}{
		{"nobody has called", nil, 0, 0},
		{"its first circuit", []breaker.Snapshot{{Key: alpha.Key(), Rejected: 10, Probes: 2}}, 10, 2},
		{"which goes on", []breaker.Snapshot{{Key: alpha.Key(), Rejected: 13, Probes: 2}}, 13, 2},
		{"is let go", nil, 13, 2},
		{"and is not missed", nil, 13, 2},
		{"its second circuit", []breaker.Snapshot{{Key: alpha.Key(), Rejected: 1, Probes: 1}}, 14, 3},
		{"another target's beside it", []breaker.Snapshot{{Key: alpha.Key(), Rejected: 2, Probes: 1}, {Key: beta.Key(), Rejected: 50}}, 15, 3},
		// One counter that is less tells that all of them have begun anew.
		{"its third, unseen in between", []breaker.Snapshot{{Key: alpha.Key(), Rejected: 1, Probes: 1}}, 16, 4},
		{"let go again", []breaker.Snapshot{{Key: beta.Key(), Rejected: 50}}, 16, 4},
	} {
		circuits = step.circuits
		all := series(t, reg)
		if diff := cmp.Diff([]float64{step.rejected, step.probes}, []float64{all[rejectedAlpha], all[probesAlpha]}); diff != "" {
			t.Errorf("%s: rejected and probes (-want +got):\n%s", step.name, diff)
		}
	}
}

// A target that a reload takes away and another brings back counts on.
func TestATargetThatComesBackCountsOn(t *testing.T) {
	t.Parallel()
	m, reg := newMetrics(t)
	var circuits []breaker.Snapshot
	m.ReadFrom(Sources{Circuits: func() []breaker.Snapshot { return circuits }})
	circuits = []breaker.Snapshot{{Key: alpha.Key(), Rejected: 10}}
	series(t, reg)

	m.Learn(Known{Targets: []llm.Target{beta}})
	if _, shown := series(t, reg)[rejectedAlpha]; shown {
		t.Error("a target that is gone is still shown")
	}
	circuits = nil
	series(t, reg)
	circuits = []breaker.Snapshot{{Key: alpha.Key(), Rejected: 20}}
	m.Learn(known())
	if got := series(t, reg)[rejectedAlpha]; got != 30 {
		t.Errorf("rejected %v, want 30", got)
	}
}

// Scrapes at the same time must not take each other's figures for a new circuit.
func TestScrapesAtTheSameTimeAgree(t *testing.T) {
	t.Parallel()
	m, reg := newMetrics(t)
	var rejected atomic.Uint64
	m.ReadFrom(Sources{Circuits: func() []breaker.Snapshot {
		return []breaker.Snapshot{{Key: alpha.Key(), Rejected: rejected.Add(1)}}
	}})
	var scrapes sync.WaitGroup
	for range 8 {
		scrapes.Go(func() {
			for range 20 {
				_, _ = reg.Gather()
			}
		})
	}
	scrapes.Wait()
	if got, want := series(t, reg)[rejectedAlpha], float64(rejected.Load()); got != want {
		t.Errorf("rejected %v, want %v", got, want)
	}
}
