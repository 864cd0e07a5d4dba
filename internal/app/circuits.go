package app

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// declaredCircuits shows operators the circuits of the targets that the running
// configuration declares. That of a target which a reload has removed stays in
// the registry: should the target come back, it is found as it was. What an
// operator has set is shown all the same, so that somebody can end it.
type declaredCircuits struct{ g *gateway }

// Circuits returns a snapshot of each that is in use and of those that stand
// for no target, ordered by key.
func (d declaredCircuits) Circuits() []breaker.Snapshot {
	used := slices.DeleteFunc(d.g.circuits.Circuits(), func(s breaker.Snapshot) bool { return !d.shown(s) })
	all := append(used, d.unasked(used)...)
	slices.SortFunc(all, func(a, b breaker.Snapshot) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

// Circuit returns the snapshot of one, or false when it is none of them.
func (d declaredCircuits) Circuit(key string) (breaker.Snapshot, bool) {
	if s, ok := d.g.circuits.Circuit(key); ok && d.shown(s) {
		return s, true
	}
	for _, s := range d.unasked(nil) {
		if s.Key == key {
			return s, true
		}
	}
	return breaker.Snapshot{}, false
}

func (d declaredCircuits) shown(s breaker.Snapshot) bool {
	return d.g.runtime.Load().declared[s.Key] || slices.Contains(operatorStates(), s.State)
}

// operatorStates are those that only a person sets.
func operatorStates() []breaker.State {
	return []breaker.State{breaker.ForcedOpen, breaker.Disabled, breaker.Shadow}
}

// circuitChanged records a transition, tells it and logs it, once.
func (g *gateway) circuitChanged(e breaker.Event) {
	g.recordsOf(g.runtime.Load().cfg).CircuitEvent(e)
	g.feed.CircuitEvent(e)
	g.pages.CircuitEvent(e)
	level, message := slog.LevelInfo, "circuit changed"
	switch {
	case e.From == breaker.Shadow && e.To == breaker.Shadow:
		message = "shadow circuit would have opened"
	case e.To == breaker.Open, e.To == breaker.ForcedOpen:
		level = slog.LevelWarn
	}
	g.log.Log(context.Background(), level, message, "circuit", e.Key, "from_state", e.From.String(), "to_state", e.To.String(),
		"reason", e.Reason, "exceeded", e.Exceeded, "open_for", e.OpenFor, "actor", e.Actor)
}
