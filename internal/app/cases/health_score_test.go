package cases

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var healthScore = theme{
	"HEA_01": hitsAreNoSamples,
	"HEA_03": neutralOutcomesAreNoSamples,
}

func neutralOutcomesAreNoSamples(t *testing.T) {
	const each = 10
	filtered := apptest.JSON(400, `{"error":{"message":"filtered","type":null,"param":"prompt","code":"content_filter"}}`)
	a := apptest.NewUpstream(t, apptest.When("forbidden", filtered, apptest.OK()))
	g := apptest.Start(t, apptest.OneTarget(a, "health: {refresh: 50ms}"))

	for range each {
		equal(t, "status", g.Post(t, apptest.ChatBody).Status, 200)
		equal(t, "status", g.Post(t, `{"model":"chat","messages":[{"role":"user","content":"forbidden"}]}`).Status, 400)
	}
	a.SetScript(apptest.Hang())
	leaveOnce(t, g, a, each)
	g.Runs(t, 3*each)

	score := awaitScore(t, g, each)
	equal(t, "samples", score.Samples, each)
	equal(t, "success rate", *score.SuccessRate, 1)
}

// score is what health says of a provider.
type score struct {
	Provider    string
	Samples     int
	SuccessRate *float64 `json:"success_rate"`
	Targets     []struct {
		Samples      int
		LatencyP50Ms int `json:"latency_p50_ms"`
	}
}

// awaitScore waits until the only provider's score, reckoned after this call, is
// made of so many samples.
func awaitScore(t *testing.T, g *apptest.Gateway, samples int) score {
	t.Helper()
	begun := time.Now()
	var found score
	apptest.Eventually(t, func() string {
		var report struct {
			RefreshedAt time.Time `json:"refreshed_at"`
			Providers   []score
		}
		page := apptest.Get(t, g.AdminURL+"/api/v1/health/providers").Body
		if err := json.Unmarshal([]byte(page), &report); err != nil {
			return err.Error()
		}
		if len(report.Providers) != 1 || report.Providers[0].Samples < samples || report.RefreshedAt.Before(begun) {
			return fmt.Sprint("the score has not seen all calls: ", page)
		}
		found = report.Providers[0]
		return ""
	})
	return found
}

// hitsAreNoSamples: answers that are given again say nothing of a provider.
func hitsAreNoSamples(t *testing.T) {
	const takes, hits = 400 * time.Millisecond, 20
	a := apptest.NewUpstream(t, apptest.After(takes, apptest.OK()))
	g := apptest.Start(t, apptest.OneTarget(a, caching, "health: {refresh: 50ms}"))
	cached(t, g, apptest.ChatBody, "miss")
	cached(t, g, with(""), "miss")
	for range hits {
		cached(t, g, apptest.ChatBody, "hit")
	}
	g.Runs(t, 2+hits)
	slowest := 0
	for _, attempt := range g.Attempts(t, 2) {
		slowest = max(slowest, attempt["latency_ms"].(int))
	}

	got := awaitScore(t, g, 2)

	equal(t, "samples", []int{got.Samples, got.Targets[0].Samples}, []int{2, 2})
	if p50 := got.Targets[0].LatencyP50Ms; p50 < int(takes.Milliseconds()) || p50 > slowest {
		t.Errorf("the middle of what calls took is %d ms, want from %v to %d ms", p50, takes, slowest)
	}
	g.AwaitMetric(t, `breakwater_response_cache_total{result="hit"}`, fmt.Sprint(hits))
}
