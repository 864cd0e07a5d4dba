package cases

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var healthScore = theme{
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

	var report struct {
		Providers []struct {
			Provider    string
			Samples     int
			SuccessRate *float64 `json:"success_rate"`
		}
	}
	apptest.Eventually(t, func() string {
		page := apptest.Get(t, g.AdminURL+"/api/v1/health/providers").Body
		if err := json.Unmarshal([]byte(page), &report); err != nil {
			return err.Error()
		}
		if len(report.Providers) != 1 || report.Providers[0].Samples < each {
			return fmt.Sprint("the score has not seen all calls: ", page)
		}
		return ""
	})
	equal(t, "samples", report.Providers[0].Samples, each)
	equal(t, "success rate", *report.Providers[0].SuccessRate, 1)
}
