package admin

import (
	"cmp"
	"slices"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/health"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
)

// reading is what the gateway knew at one moment, without asking the database.
type reading struct {
	now      time.Time
	report   health.Report
	all      []target // by key
	callers  Callers
	alarms   []telemetry.Alarm
	database Database
	// cacheAway: this gateway decides about circuits by itself, which it should
	// do together with others.
	cacheAway bool
	refused   *Refusal
}

// target is one target with its circuit and its health.
type target struct {
	llm.Target
	circuit breaker.Snapshot // zero while nobody has called it
	policy  Policy
	health  health.TargetReport
}

// look takes a reading.
func (p *Pages) look(now time.Time) reading {
	report := p.Health.Report()
	all := merge(report, p.Circuits.Circuits())
	for i := range all {
		all[i].policy = p.Policy(all[i].Key())
	}
	var refused *Refusal
	if p.Refused != nil {
		refused = p.Refused()
	}
	return reading{
		now: now.UTC(), report: report, refused: refused,
		all:      all,
		callers:  p.Callers(),
		alarms:   p.Alarms.Alarms(),
		database: p.Database(), cacheAway: p.CacheAway != nil && p.CacheAway(),
	}
}

// merge joins the declared targets with the circuits. A circuit may be there
// without a declared target, when a reload has removed it, and the other way
// round, when nobody has called it for a while.
func merge(report health.Report, circuits []breaker.Snapshot) []target {
	found := map[llm.Target]target{}
	for _, provider := range report.Providers {
		for _, t := range provider.Targets {
			name := llm.Target{Provider: provider.Provider, Model: t.Model, Region: t.Region}
			found[name] = target{Target: name, health: t}
		}
	}
	for _, circuit := range circuits {
		name, ok := llm.ParseTarget(circuit.Key)
		if !ok {
			name = llm.Target{Model: circuit.Key} // shown by what name it has
		}
		t := found[name]
		t.Target, t.circuit = name, circuit
		found[name] = t
	}
	return sorted(found)
}

func sorted(found map[llm.Target]target) []target {
	all := make([]target, 0, len(found))
	for _, t := range found {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b target) int { return cmp.Compare(a.Key(), b.Key()) })
	return all
}

// inState returns the targets whose circuit is in a state.
func (r reading) inState(state breaker.State) []target {
	return r.those(func(c breaker.Snapshot) bool { return c.State == state })
}

// refusing returns the targets whose open circuit lets no call through.
func (r reading) refusing() []target {
	return r.those(func(c breaker.Snapshot) bool { return c.State == breaker.Open && !c.Eligible })
}

// held returns the targets whose circuit is in a state that an operator has set.
func (r reading) held() []target {
	return slices.DeleteFunc(slices.Clone(r.all), func(t target) bool { return !t.held() })
}

// due returns the targets whose cooldown is over and which only wait for a call
// to be probed by: no call suffers from them.
func (r reading) due() []target {
	return r.those(func(c breaker.Snapshot) bool { return c.State == breaker.Open && c.Eligible })
}

func (r reading) those(are func(breaker.Snapshot) bool) []target {
	var some []target
	for _, t := range r.all {
		if are(t.circuit) {
			some = append(some, t)
		}
	}
	return some
}
