package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/runs"
)

var openCircuit = breaker.Snapshot{
	Key: "alpha/m1/r1", Enabled: true, State: breaker.Open, Reason: "consecutive", Cause: "server_error", Generation: 7,
	Since:      time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)),
	RetryAfter: 20*time.Second + time.Microsecond,
	Calls:      12, Failures: 9, Slow: 4, FailureRate: new(0.75), SlowRate: new(0.25), ConsecutiveFailures: 5, Rejected: 130,
}

const (
	openView = `"key":"alpha/m1/r1","provider":"alpha","model":"m1","region":"r1","state":"open","reason":"consecutive","class":"server_error",` +
		`"generation":7,"since":"2026-01-02T02:04:05Z","retry_after_ms":20001,"eligible":false,"calls":12,"failures":9,"slow":4,"failure_rate":0.75,"slow_call_rate":0.25,"consecutive_failures":5,"rejected":130,"policy":"default","policy_override":null,"note":null,"actor":null,"until":null`
	untouchedView = `"key":"beta/vendor/m2/r2","provider":"beta","model":"vendor/m2","region":"r2","state":"closed","reason":null,"class":null,` +
		`"generation":0,"since":null,"retry_after_ms":0,"eligible":false,"calls":0,"failures":0,"slow":0,"failure_rate":null,"slow_call_rate":null,"consecutive_failures":0,"rejected":0,"policy":"default","policy_override":null,"note":null,"actor":null,"until":null`
	removedView = `"key":"removed/m/r","provider":"removed","model":"m","region":"r","state":"closed","reason":null,"class":null,` +
		`"generation":1,"since":null,"retry_after_ms":0,"eligible":false,"calls":0,"failures":0,"slow":0,"failure_rate":null,"slow_call_rate":null,"consecutive_failures":0,"rejected":0,"policy":"default","policy_override":null,"note":null,"actor":null,"until":null`
)

// Targets that were never called are listed, too, and so is a circuit whose
// target a reload removed.
func TestCircuitsOfAllTargetsAreListed(t *testing.T) {
	t.Parallel()
	c := setupAdmin(t, func(a *api.Admin, _ *api.Snapshot) {
		a.Circuits = circuits{openCircuit.Key: openCircuit, "removed/m/r": {Key: "removed/m/r", Generation: 1}}
	})
	got := c.get(t, "/api/v1/circuits")
	want := `{"circuits":[{` + openView + `},{` + untouchedView + `},{` + removedView + `}]}` + "\n"
	if got.status != 200 || got.body != want {
		t.Errorf("status %d, body\n%s\nwant\n%s", got.status, got.body, want)
	}
}

// A circuit says which pattern chose its policy.
func TestACircuitSaysWhyItsPolicyGoverns(t *testing.T) {
	t.Parallel()
	c := setupAdmin(t, func(a *api.Admin, s *api.Snapshot) {
		a.Circuits = circuits{openCircuit.Key: openCircuit}
		s.Policy = func(key string) api.Policy {
			if key != openCircuit.Key {
				return api.Policy{Name: "circuit_breaker"}
			}
			return api.Policy{Name: "llm", Override: "alpha/*/*", Settings: policySettings, QuotaCooldown: time.Minute}
		}
	})
	for path, want := range map[string]string{
		"/api/v1/circuits":                         `"policy":"llm","policy_override":"alpha/*/*","note":null,"actor":null,"until":null},{"key":"beta/`,
		"/api/v1/circuits/alpha%2Fm1%2Fr1":         `"policy":"llm","policy_override":"alpha/*/*","note":null,"actor":null,"until":null,"policy_settings":{"enabled":true,`,
		"/api/v1/circuits/alpha%2Fm1%2Fr1?":        `"quota_cooldown_ms":60000`,
		"/api/v1/circuits/beta%2Fvendor%2Fm2%2Fr2": `"policy":"circuit_breaker","policy_override":null,"note":null,"actor":null,"until":null`,
	} {
		if got := c.get(t, path); got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%s: status %d, body\n%s\nwant in it\n%s", path, got.status, got.body, want)
		}
	}
}

func TestACircuitIsShownWithItsPolicyAndHistory(t *testing.T) {
	t.Parallel()
	const policy = `"policy_settings":{"enabled":true,"failure_threshold":5,"failure_rate_threshold":0.5,"rate_test":"above","slow_call_rate_threshold":0.5,"slow_call_duration":{"base_ms":2000,"per_1k_input_tokens_ms":200,"per_1k_output_tokens_ms":15000,"max_ms":60000},"count_slow_cancels":true,"window":{"type":"time","size_ms":30000,"buckets":10},"min_calls":10,"cooldown_ms":30000,"cooldown_multiplier":2,"max_cooldown_ms":300000,"cooldown_jitter":0.25,` +
		`"max_retry_after_ms":3600000,"quota_cooldown_ms":600000,"half_open_calls":1,"success_threshold":1,"max_half_open_ms":120000,"lease_ms":30000,"step_decay_ms":60000,"recovery_ramp_ms":0,"soft_throttle":null,"max_open_percent":0,"provider_rollup":null,"store":"local",` +
		`"probe":{"mode":"canary","prompt":"Say ok","timeout_ms":5000,"max_tokens":5,"demand_ms":300000,"closes":false}}`
	tests := map[string]struct {
		path    string
		history history
		want    string
	}{
		"in use": {
			"/api/v1/circuits/alpha%2Fm1%2Fr1", history{events: eventsDown(1)},
			"{" + openView + "," + policy + `,"events":[` + eventView(1) + `]}`,
		},
		"its target was never called": {
			"/api/v1/circuits/beta%2Fvendor%2Fm2%2Fr2", history{events: []runs.Event{}},
			"{" + untouchedView + "," + policy + `,"events":[]}`,
		},
		"the database is away": {
			"/api/v1/circuits/alpha%2Fm1%2Fr1", history{err: errAway},
			"{" + openView + "," + policy + `,"events":null}`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := setupAdmin(t, withCircuit(&tc.history)).get(t, tc.path)
			if got.status != 200 || got.body != tc.want+"\n" {
				t.Errorf("status %d, body\n%s\nwant\n%s", got.status, got.body, tc.want)
			}
		})
	}
}

func withCircuit(h *history) func(*api.Admin, *api.Snapshot) {
	return func(a *api.Admin, _ *api.Snapshot) {
		a.Circuits, a.Events, a.Writer = circuits{openCircuit.Key: openCircuit}, h, writer
	}
}
