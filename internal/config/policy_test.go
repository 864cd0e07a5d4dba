package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

const governed = `
auth: {mode: open}
database: {private: true}
circuit_breaker: {failure_threshold: 7}
breaker_profiles:
  fragile: {failure_threshold: 2, cooldown: 40s, window: {buckets: 30}}
breakers:
  - {match: "local/org/*/*", profile: llm, cooldown: 10s}
  - {match: "local/m[12]/eu-?", profile: fragile, cooldown: 20s, window: {size: 1m}}
  - {match: cloud/m1/default}
  - {match: "*/*/default", profile: fragile}
providers:
  local: {kind: simulated, region: eu-1, models: {org/deep/m: {}, m1: {}, m3: {}}}
  cloud: {kind: simulated, models: {m1: {}, m2: {}}}
`

// The first override that matches governs, over its profile, over the base; in
// the part of the model * matches slashes, in the others there are none.
func TestTheFirstOverrideThatMatchesGoverns(t *testing.T) {
	t.Parallel()
	c := mustParse(t, governed)
	fragile := func(s *config.CircuitBreaker) {
		s.FailureThreshold, s.Cooldown, s.Window.Buckets = 2, 40*time.Second, 30
	}
	tests := map[string]struct {
		key     string
		want    config.BreakerPolicy
		changes func(*config.CircuitBreaker)
	}{
		"the built-in profile and a key of its own": {"local/org/deep/m/eu-1", config.BreakerPolicy{Profile: "llm", Override: "local/org/*/*", Place: 0}, func(s *config.CircuitBreaker) {
			s.SlowRate, s.SlowCall = 500_000, config.SlowCall{Base: 12 * time.Second}
			s.FailureRate, s.RateTest, s.HalfOpenCalls, s.SuccessThreshold = 250_000, "at_least", 3, 3
			s.Window = config.Window{Type: "count", Size: config.WindowSize{Calls: 20}, Buckets: 10}
			s.Cooldown = 10 * time.Second
		}},
		"an override over its profile, down to one key of the window": {"local/m1/eu-1", config.BreakerPolicy{Profile: "fragile", Override: "local/m[12]/eu-?", Place: 1}, func(s *config.CircuitBreaker) {
			fragile(s)
			s.Cooldown, s.Window.Size.Span = 20*time.Second, time.Minute
		}},
		"an override that leaves all as it is": {"cloud/m1/default", config.BreakerPolicy{Override: "cloud/m1/default", Place: 2}, func(*config.CircuitBreaker) {}},
		"a profile alone":                      {"cloud/m2/default", config.BreakerPolicy{Profile: "fragile", Override: "*/*/default", Place: 3}, fragile},
		"none":                                 {"local/m3/eu-1", config.BreakerPolicy{Place: -1}, func(*config.CircuitBreaker) {}},
		"a target that is not declared":        {"gone/a/b/default", config.BreakerPolicy{Profile: "fragile", Override: "*/*/default", Place: 3}, fragile},
		"a longer region":                      {"local/m1/eu-10", config.BreakerPolicy{Place: -1}, func(*config.CircuitBreaker) {}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target, ok := llm.ParseTarget(tt.key)
			if !ok {
				t.Fatal("not a key")
			}
			tt.want.Settings = config.Default().CircuitBreaker
			tt.want.Settings.FailureThreshold, tt.want.Settings.Store = 7, config.StoreLocal
			tt.changes(&tt.want.Settings)
			if diff := cmp.Diff(tt.want, c.BreakerPolicy(target)); diff != "" {
				t.Errorf("governed otherwise (-want +got):\n%s", diff)
			}
		})
	}
}

// The checks of a provider are governed by circuit_breaker alone, whose window is
// made long enough for checks that are rare; nothing probes them but themselves.
func TestHealthChecksAreGovernedByTheBase(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
auth: {mode: open}
database: {private: true}
circuit_breaker: {failure_threshold: 7, min_calls: 4, probe: {mode: canary}}
breakers: [{match: "*/*/*", failure_threshold: 1}]
configurations: {chat: {targets: [{provider: often, model: m}], context: {address: "127.0.0.1:1"}}}
providers:
  often: {kind: simulated, health_check: {interval: 1s}, models: {m: {}}}
  rarely: {kind: simulated, health_check: {interval: 1m}, models: {m: {}}}
  never: {kind: simulated, models: {m: {}}}
`)
	checks := []llm.Target{llm.HealthTarget("often", "default"), llm.HealthTarget("rarely", "default")}
	if diff := cmp.Diff(checks, c.HealthChecks()); diff != "" {
		t.Errorf("checked (-want +got):\n%s", diff)
	}
	for i, span := range []time.Duration{30 * time.Second, 4 * time.Minute} {
		want := c.CircuitBreaker
		want.Probe.Mode, want.Window.Size.Span, want.Store = config.ProbeTraffic, span, config.StoreLocal
		if diff := cmp.Diff(config.BreakerPolicy{Place: -1, Settings: want}, c.BreakerPolicy(checks[i])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", checks[i].Key(), diff)
		}
	}
	if got := c.BreakerPolicy(config.ContextCircuit("chat")).Settings; got.FailureThreshold != 1 || got.Probe.Mode != config.ProbeTraffic {
		t.Errorf("a context assembler, which canaries cannot ask, is governed by %+v", got)
	}
	var shown strings.Builder
	if err := c.ShowCircuit(&shown, "rarely/@health/default"); err != nil || !strings.Contains(shown.String(), "size: 4m") {
		t.Errorf("it is shown as %v\n%s", err, shown.String())
	}
	if err := c.ShowCircuit(&shown, "never/@health/default"); err == nil {
		t.Error("a circuit is shown that does not exist")
	}
}

// Every key of circuit_breaker can be changed for some circuits, under the name
// it has there.
func TestEveryKeyOfTheBreakerCanBeChanged(t *testing.T) {
	t.Parallel()
	var differ func(at string, whole, part reflect.Type)
	differ = func(at string, whole, part reflect.Type) {
		if whole.NumField() != part.NumField() {
			t.Errorf("%s has %d keys, of which %d can be changed", at, whole.NumField(), part.NumField())
		}
		for i := range whole.NumField() {
			field := whole.Field(i)
			changed, ok := part.FieldByName(field.Name)
			key := field.Tag.Get("yaml")
			switch {
			case !ok:
				t.Errorf("%s.%s cannot be changed", at, key)
			case changed.Tag.Get("yaml") != key+",omitempty":
				t.Errorf("%s.%s is changed as %s", at, key, changed.Tag.Get("yaml"))
			case field.Type.Kind() == reflect.Struct && changed.Type.Elem() != field.Type: // a section of its own
				differ(at+"."+key, field.Type, changed.Type.Elem())
			case changed.Type != reflect.PointerTo(field.Type):
				t.Errorf("%s.%s is a %s and changed by a %s", at, key, field.Type, changed.Type)
			}
		}
	}
	differ("circuit_breaker", reflect.TypeFor[config.CircuitBreaker](), reflect.TypeFor[config.BreakerChanges]())
}

func TestACircuitIsShownWithWhatGovernsIt(t *testing.T) {
	t.Parallel()
	c := mustParse(t, governed)
	for key, begins := range map[string]string{
		"local/m1/eu-1":         "circuit: local/m1/eu-1\nmatch: local/m[12]/eu-?\ngoverned_by:\n- breakers[1]\n- breaker_profiles.fragile\n- circuit_breaker\ncircuit_breaker:\n  enabled: true\n  failure_threshold: 2\n",
		"cloud/m1/default":      "circuit: cloud/m1/default\nmatch: cloud/m1/default\ngoverned_by:\n- breakers[2]\n- circuit_breaker\ncircuit_breaker:\n  enabled: true\n  failure_threshold: 7\n",
		"local/m3/eu-1":         "circuit: local/m3/eu-1\ngoverned_by:\n- circuit_breaker\ncircuit_breaker:\n  enabled: true\n  failure_threshold: 7\n",
		"local/org/deep/m/eu-1": "circuit: local/org/deep/m/eu-1\nmatch: local/org/*/*\ngoverned_by:\n- breakers[0]\n- breaker_profiles.llm\n- circuit_breaker\n",
	} {
		var out strings.Builder
		if err := c.ShowCircuit(&out, key); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(out.String(), begins) || !strings.Contains(out.String(), "\n  quota_cooldown: 10m\n") {
			t.Errorf("%s is shown as\n%s\nwant it to begin with\n%s", key, out.String(), begins)
		}
	}
	for key, want := range map[string]string{
		"local/m1":        `"local/m1" is not the key of a circuit: write provider/model/region`,
		"local/m1/eu-2":   `no target has the circuit "local/m1/eu-2": did you mean "local/m1/eu-1"?`,
		"other/thing/far": `no target has the circuit "other/thing/far": known here: cloud/m1/default, cloud/m2/default, local/m1/eu-1, local/m3/eu-1, local/org/deep/m/eu-1`,
	} {
		if err := c.ShowCircuit(new(strings.Builder), key); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", key, err, want)
		}
	}
}

// Values that a file gives the built-in profile are those of that file alone.
func TestTheBuiltInProfileIsNotSharedBetweenConfigurations(t *testing.T) {
	t.Parallel()
	changed := mustParse(t, "auth: {mode: open}\ndatabase: {private: true}\nbreaker_profiles: {llm: {half_open_calls: 9, window: {size: 99}}}\n")
	if got := *changed.BreakerProfiles["llm"].HalfOpenCalls; got != 9 {
		t.Errorf("the file's own value is %d, want 9", got)
	}
	if got := config.Default().BreakerProfiles["llm"]; *got.HalfOpenCalls != 3 || got.Window.Size.Calls != 20 {
		t.Errorf("the built-in profile became %d probes, %d calls", *got.HalfOpenCalls, got.Window.Size.Calls)
	}
}
