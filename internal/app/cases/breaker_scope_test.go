package cases

import (
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var breakerScope = theme{
	"SCO_01": rateLimitOfOneModelLeavesOthersAlone,
	"SCO_03": limitOfOneKeyLeavesOthersServing,
}

func rateLimitOfOneModelLeavesOthersAlone(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.When(`"m1"`, apptest.Status(429, "Retry-After", "30"), apptest.OK()))
	g := apptest.Start(t, apptest.OneTarget(a))

	refused(t, g.Post(t, `{"model":"alpha/m1","messages":[]}`), 429, "rate_limit_error", "upstream_rate_limited")
	served(t, g.Post(t, `{"model":"alpha/m2","messages":[]}`), "alpha/m2/r1")

	equal(t, "state of m1", g.Circuit(t, circuitA).State, "open")
	untroubled(t, g, "alpha/m2/r1")
}
