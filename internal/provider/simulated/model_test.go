package simulated_test

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider"
	"github.com/breakwater-llm/breakwater/internal/provider/providertest"
	"github.com/breakwater-llm/breakwater/internal/provider/simulated"
)

// send makes one call and returns its result, its stream and its failure.
func send(t *testing.T, client provider.Client, body string) (*llm.Result, string, *llm.Failure) {
	t.Helper()
	var log providertest.Log
	result, err := client.Send(t.Context(), providertest.Call(t, body), log.Emit)
	var f *llm.Failure
	if err != nil && !errors.As(err, &f) {
		t.Fatalf("error %v, want an *llm.Failure", err)
	}
	return result, log.Raw.String(), f
}

func TestTheSwitch(t *testing.T) {
	t.Parallel()
	model := simulated.NewModel(simulated.State{Mode: simulated.ModeOK, Status: 503})
	client := open(t, model, llm.Timeouts{})
	if _, _, f := send(t, client, providertest.Plain); f != nil {
		t.Fatal(f)
	}
	down := simulated.State{Mode: simulated.ModeError, Status: 500, RetryAfter: 1500 * time.Millisecond}
	if err := model.Set(down); err != nil {
		t.Fatal(err)
	}
	providertest.Equal(t, "state", down, model.Get())
	_, _, f := send(t, client, providertest.Plain)
	if f == nil || f.Status != http.StatusInternalServerError || f.RetryAfter != 1500*time.Millisecond {
		t.Errorf("got %v, want a 500 with a wait of 1.5s", f)
	}
	if err := model.Set(simulated.State{Mode: "away", Status: 503}); err == nil {
		t.Error("a mode that does not exist was set")
	}
	providertest.Equal(t, "state after a refused one", down, model.Get())
}

// Whether a simulated provider is there follows the switch as calls do.
func TestTheSwitchIsSeenByHealthChecks(t *testing.T) {
	t.Parallel()
	for mode, want := range map[simulated.Mode]int{simulated.ModeOK: 0, simulated.ModeError: 503, simulated.ModeRateLimit: 429} {
		model := simulated.NewModel(simulated.State{Mode: mode, Status: 503})
		call := &llm.Call{Operation: llm.OperationHealthCheck, Target: llm.HealthTarget("alpha", "r1"), Signals: &llm.Signals{}}
		_, err := open(t, model, llm.Timeouts{}).Send(t.Context(), call, nil)
		got := 0
		if f := llm.AsFailure(err); f != nil {
			got = f.Status
		}
		if got != want {
			t.Errorf("mode %s: status of the failure %d, want %d", mode, got, want)
		}
	}
}

func TestRateLimitMode(t *testing.T) {
	t.Parallel()
	model := simulated.NewModel(simulated.State{Mode: simulated.ModeRateLimit, Status: 503, RetryAfter: 30 * time.Second})
	_, _, f := send(t, open(t, model, llm.Timeouts{}), providertest.Plain)
	if f == nil || f.Class != llm.ClassRateLimit || f.RetryAfter != 30*time.Second {
		t.Errorf("got %v, want a rate limit of 30s", f)
	}
}

func TestFailureRateIsSpreadEvenly(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		state simulated.State
		want  string // of eight calls, x failed
	}{
		"none":                 {simulated.State{Mode: simulated.ModeOK, Status: 503}, "........"},
		"a quarter":            {simulated.State{Mode: simulated.ModeOK, Status: 503, FailureRate: 0.25}, "...x...x"},
		"three quarters":       {simulated.State{Mode: simulated.ModeOK, Status: 503, FailureRate: 0.75}, ".xxx.xxx"},
		"all":                  {simulated.State{Mode: simulated.ModeOK, Status: 503, FailureRate: 1}, "xxxxxxxx"},
		"an error without one": {simulated.State{Mode: simulated.ModeError, Status: 503}, "xxxxxxxx"},
		"half of the resets":   {simulated.State{Mode: simulated.ModeReset, Status: 503, FailureRate: 0.5}, ".x.x.x.x"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := open(t, simulated.NewModel(tt.state), llm.Timeouts{})
			var got strings.Builder
			for range 8 {
				mark := "."
				if _, _, f := send(t, client, providertest.Plain); f != nil {
					mark = "x"
				}
				got.WriteString(mark)
			}
			providertest.Equal(t, "outcomes", tt.want, got.String())
		})
	}
}

func TestAnswersAreTheSameEveryTime(t *testing.T) {
	t.Parallel()
	client := open(t, simulated.NewModel(simulated.State{Mode: simulated.ModeOK, Status: 503}), llm.Timeouts{})
	first, _, _ := send(t, client, providertest.Plain)
	second, _, _ := send(t, client, providertest.Plain)
	providertest.Equal(t, "body", string(first.Body), string(second.Body))
	if !strings.Contains(string(first.Body), `"model":"m1"`) {
		t.Errorf("body %s, want the target's model in it", first.Body)
	}
}

func TestTheOutputLimitHolds(t *testing.T) {
	t.Parallel()
	client := open(t, simulated.NewModel(simulated.State{Mode: simulated.ModeOK, Status: 503}), llm.Timeouts{})
	for _, stream := range []string{"false", "true"} {
		result, raw, f := send(t, client, `{"model":"chat","stream":`+stream+`,"max_tokens":3,"messages":[{"role":"user","content":"Hi, you there"}]}`)
		if f != nil {
			t.Fatal(f)
		}
		providertest.Equal(t, "usage", llm.Usage{Input: llm.Tokens(3), Output: llm.Tokens(3)}, result.Usage)
		if !strings.Contains(raw+string(result.Body), `"finish_reason":"length"`) {
			t.Errorf("answer %s%s, want one that was cut by its limit", raw, result.Body)
		}
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	const three = `"max_tokens":3,"messages":[]}`
	tests := map[string]struct {
		mode          simulated.Mode
		body          string
		first, latest time.Duration
	}{
		"stream":      {simulated.ModeOK, `{"model":"chat","stream":true,` + three, 100 * time.Millisecond, 350 * time.Millisecond},
		"whole":       {simulated.ModeOK, `{"model":"chat",` + three, 0, 200 * time.Millisecond},
		"slow stream": {simulated.ModeSlow, `{"model":"chat","stream":true,` + three, time.Second, 3500 * time.Millisecond},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				state := simulated.State{Mode: tt.mode, Status: 503, Latency: 100 * time.Millisecond, TokensPerSecond: 20}
				result, _, f := send(t, open(t, simulated.NewModel(state), llm.Timeouts{}), tt.body)
				if f != nil {
					t.Fatal(f)
				}
				providertest.Equal(t, "first token", tt.first, result.FirstToken)
				providertest.Equal(t, "latency", tt.latest, result.Latency)
			})
		})
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	if err := simulated.DefaultState().Validate(); err != nil {
		t.Errorf("the default state is refused: %v", err)
	}
	for name, spoil := range map[string]func(*simulated.State){
		"mode":                    func(s *simulated.State) { s.Mode = "" },
		"status of success":       func(s *simulated.State) { s.Status = 200 },
		"status out of range":     func(s *simulated.State) { s.Status = 600 },
		"negative wait":           func(s *simulated.State) { s.RetryAfter = -1 },
		"negative latency":        func(s *simulated.State) { s.Latency = -1 },
		"negative speed":          func(s *simulated.State) { s.TokensPerSecond = -1 },
		"infinite speed":          func(s *simulated.State) { s.TokensPerSecond = math.Inf(1) },
		"rate above one":          func(s *simulated.State) { s.FailureRate = 1.1 },
		"rate that is no number":  func(s *simulated.State) { s.FailureRate = math.NaN() },
		"speed that is no number": func(s *simulated.State) { s.TokensPerSecond = math.NaN() },
	} {
		state := simulated.DefaultState()
		spoil(&state)
		if state.Validate() == nil {
			t.Errorf("%s: accepted %+v", name, state)
		}
	}
}
