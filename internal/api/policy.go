package api

import (
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// Policy is what governs a circuit.
type Policy struct {
	Name          string // of the profile
	Override      string // the pattern that chose it for this circuit; empty: none did
	Settings      breaker.Settings
	QuotaCooldown time.Duration // how long "no credit left" opens it
	SlowCall      SlowCall
	Probe         Probe
}

// Probe is who finds out whether the target of an open circuit is well again.
type Probe struct {
	Mode      string // "traffic" or "canary"
	Prompt    string // of a canary
	Expect    string // in its answer; empty = any will do
	Timeout   time.Duration
	MaxTokens int
	Demand    time.Duration // within which a call must have been refused
	Closes    bool          // its success closes the circuit
}

// SlowCall is how long a call may take until it is slow.
type SlowCall struct {
	Base                    time.Duration
	Per1kInput, Per1kOutput time.Duration // for each thousand tokens
	Max                     time.Duration // 0 = no limit
}

// policyView are a circuit's settings under the names of the configuration,
// durations in milliseconds.
type policyView struct {
	Enabled            bool          `json:"enabled"`
	FailureThreshold   int           `json:"failure_threshold"`
	FailureRate        float64       `json:"failure_rate_threshold"`
	RateTest           string        `json:"rate_test"`
	SlowRate           float64       `json:"slow_call_rate_threshold"`
	SlowCall           slowCallView  `json:"slow_call_duration"`
	CountSlowCancels   bool          `json:"count_slow_cancels"`
	Window             windowView    `json:"window"`
	MinCalls           int           `json:"min_calls"`
	CooldownMS         int64         `json:"cooldown_ms"`
	CooldownMultiplier float64       `json:"cooldown_multiplier"`
	MaxCooldownMS      int64         `json:"max_cooldown_ms"`
	CooldownJitter     float64       `json:"cooldown_jitter"`
	MaxRetryAfterMS    int64         `json:"max_retry_after_ms"`
	QuotaCooldownMS    int64         `json:"quota_cooldown_ms"`
	HalfOpenCalls      int           `json:"half_open_calls"`
	SuccessThreshold   int           `json:"success_threshold"`
	MaxHalfOpenMS      int64         `json:"max_half_open_ms"`
	LeaseMS            int64         `json:"lease_ms"`
	StepDecayMS        int64         `json:"step_decay_ms"`
	RecoveryRampMS     int64         `json:"recovery_ramp_ms"`
	SoftThrottle       *throttleView `json:"soft_throttle"` // null = off
	MaxOpenPercent     int           `json:"max_open_percent"`
	ProviderRollup     *rollupView   `json:"provider_rollup"` // null = off
	Store              string        `json:"store"`           // with whom the circuit is shared: local, cached or strict
	Probe              probeView     `json:"probe"`
}

type throttleView struct {
	K        float64 `json:"k"`
	WindowMS int64   `json:"window_ms"`
}

func viewThrottle(t breaker.Throttle) *throttleView {
	if t.K == 0 {
		return nil
	}
	return &throttleView{K: t.K, WindowMS: t.Window.Milliseconds()}
}

type rollupView struct {
	Percent int `json:"percent"`
	MinOpen int `json:"min_open"`
}

func viewRollup(r breaker.Rollup) *rollupView {
	if r.Percent == 0 {
		return nil
	}
	return &rollupView{Percent: r.Percent, MinOpen: r.MinOpen}
}

// probeView has nothing but its mode where calls probe.
type probeView struct {
	Mode      string `json:"mode"` // traffic or canary
	Prompt    string `json:"prompt,omitempty"`
	Expect    string `json:"expect,omitempty"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
	MaxTokens int    `json:"max_tokens,omitempty"`
	DemandMS  int64  `json:"demand_ms,omitempty"`
	Closes    *bool  `json:"closes,omitempty"`
}

func viewProbe(p Probe) probeView {
	if p.Mode != "canary" {
		return probeView{Mode: p.Mode}
	}
	return probeView{
		Mode: p.Mode, Prompt: p.Prompt, Expect: p.Expect, MaxTokens: p.MaxTokens,
		TimeoutMS: p.Timeout.Milliseconds(), DemandMS: p.Demand.Milliseconds(), Closes: &p.Closes,
	}
}

type slowCallView struct {
	BaseMS        int64  `json:"base_ms"`
	Per1kInputMS  int64  `json:"per_1k_input_tokens_ms"`
	Per1kOutputMS int64  `json:"per_1k_output_tokens_ms"`
	MaxMS         *int64 `json:"max_ms"` // null = no limit
}

func viewSlowCall(s SlowCall) slowCallView {
	view := slowCallView{BaseMS: s.Base.Milliseconds(), Per1kInputMS: s.Per1kInput.Milliseconds(), Per1kOutputMS: s.Per1kOutput.Milliseconds()}
	if s.Max > 0 {
		view.MaxMS = new(s.Max.Milliseconds())
	}
	return view
}

// windowView is a window of one type or the other.
type windowView struct {
	Type    string `json:"type"`
	Size    int    `json:"size,omitempty"` // calls
	SizeMS  int64  `json:"size_ms,omitempty"`
	Buckets int    `json:"buckets,omitempty"`
}

func viewWindow(w breaker.Window) windowView {
	if w.Calls > 0 {
		return windowView{Type: "count", Size: w.Calls}
	}
	return windowView{Type: "time", SizeMS: w.Span.Milliseconds(), Buckets: w.Buckets}
}

func viewPolicy(p Policy) policyView {
	s := p.Settings
	return policyView{
		Enabled: s.Enabled, FailureThreshold: s.FailureThreshold,
		FailureRate: float64(s.FailureRate) / float64(breaker.All), RateTest: s.RateTest.String(),
		SlowRate: float64(s.SlowRate) / float64(breaker.All), SlowCall: viewSlowCall(p.SlowCall), CountSlowCancels: s.SlowCancels,
		Window: viewWindow(s.Window), MinCalls: s.MinCalls,
		CooldownMS: s.Cooldown.Milliseconds(), CooldownMultiplier: s.CooldownMultiplier,
		MaxCooldownMS: s.MaxCooldown.Milliseconds(), CooldownJitter: s.CooldownJitter,
		MaxRetryAfterMS: s.MaxRetryAfter.Milliseconds(), QuotaCooldownMS: p.QuotaCooldown.Milliseconds(),
		HalfOpenCalls: s.HalfOpenCalls, SuccessThreshold: s.SuccessThreshold,
		MaxHalfOpenMS: s.MaxHalfOpen.Milliseconds(), LeaseMS: s.Lease.Milliseconds(), StepDecayMS: s.StepDecay.Milliseconds(),
		RecoveryRampMS: s.RecoveryRamp.Milliseconds(), SoftThrottle: viewThrottle(s.Throttle),
		MaxOpenPercent: s.MaxOpenPercent, ProviderRollup: viewRollup(s.Rollup),
		Store: s.Store.String(), Probe: viewProbe(p.Probe),
	}
}
