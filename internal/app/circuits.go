package app

import (
	"slices"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// declaredCircuits shows operators the circuits of the targets that the running
// configuration declares. That of a target which a reload has removed stays in
// the registry: should the target come back, it is found as it was.
type declaredCircuits struct{ g *gateway }

// Circuits returns a snapshot of each that is in use, ordered by key.
func (d declaredCircuits) Circuits() []breaker.Snapshot {
	declared := d.g.runtime.Load().declared
	return slices.DeleteFunc(d.g.circuits.Circuits(), func(s breaker.Snapshot) bool { return !declared[s.Key] })
}

// Circuit returns the snapshot of one, or false when it is not in use.
func (d declaredCircuits) Circuit(key string) (breaker.Snapshot, bool) {
	if !d.g.runtime.Load().declared[key] {
		return breaker.Snapshot{}, false
	}
	return d.g.circuits.Circuit(key)
}
