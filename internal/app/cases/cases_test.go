// Package cases holds real failures of systems like this one as tests, each
// named by its id, at the level a user sees: scripted upstreams, the whole
// gateway, a real client, then the rows, the metrics and the circuit.
package cases

import (
	"maps"
	"slices"
	"testing"
)

// theme is the cases of one kind of failure, by id.
type theme map[string]func(*testing.T)

// themes lists them all; each stands in the file of its name.
var themes = []theme{
	serverSentEvents,
	streamEnd,
	disconnect,
	rateLimit,
	errorClass,
	badBody,
	transport,
	retryFallback,
	circuitBreaker,
	sparing,
	breakerScope,
	sharedState,
	sharedCircuits,
	secrets,
	adminSecurity,
	cost,
	responseCache,
	budgets,
	idempotency,
	healthScore,
	lifecycle,
	telemetryDB,
	conformance,
	configuration,
	hostile,
}

func TestCases(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, cases := range themes {
		for _, id := range slices.Sorted(maps.Keys(cases)) {
			if seen[id] {
				t.Fatalf("case %s stands in two themes", id)
			}
			seen[id] = true
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				cases[id](t)
			})
		}
	}
}
