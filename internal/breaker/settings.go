package breaker

import (
	"errors"
	"fmt"
	"time"
)

// Values for the settings that no configuration names.
const (
	DefaultMaxNeutral = 10
	DefaultIdleTTL    = 15 * time.Minute
)

// Settings govern one circuit. A registry expects them to be valid.
type Settings struct {
	// Enabled false admits every call and records nothing.
	Enabled bool
	// Store says with whom the circuit is shared, where the registry has a store.
	Store Mode

	// FailureThreshold is the number of failures in a row that opens (T1); 0
	// means that no streak does.
	FailureThreshold int

	// FailureRate is the share of failures among the outcomes in Window that
	// opens (T2), once there are MinCalls; 0 means that no rate does. Window
	// is what is shown of a circuit all the same.
	FailureRate Rate
	RateTest    RateTest
	Window      Window
	MinCalls    int

	// SlowRate is the share of slow calls among the outcomes in Window that
	// opens (T3), by the same RateTest and MinCalls; 0 means that none does and
	// no call is slow. How long a call may take is said to its permit.
	SlowRate Rate
	// SlowCancels counts a call that its caller gave up (Outcome.GaveUp) after
	// it had become slow as a slow one (R16). Otherwise it is neutral.
	SlowCancels bool

	// The n-th re-opening lasts Cooldown·CooldownMultiplier^n, at most
	// MaxCooldown, plus up to CooldownJitter (a fraction) of itself (R30).
	Cooldown           time.Duration
	CooldownMultiplier float64
	MaxCooldown        time.Duration
	CooldownJitter     float64
	// StepDecay is how much healthy time takes one step off n again (R29).
	StepDecay time.Duration

	// MaxRetryAfter is the longest Outcome.OpenFor that is honoured (R32).
	MaxRetryAfter time.Duration

	// HalfOpenCalls is how many probes an episode hands out,
	// SuccessThreshold how many of them must succeed to close (R33).
	HalfOpenCalls, SuccessThreshold int
	// MaxHalfOpen is how long a circuit may stay half-open without a probe
	// under way (T17). A call that does not say how long it may take
	// (Permit.Within) has its lease renewed for as long as this.
	MaxHalfOpen time.Duration
	// Lease is how long a probe is believed in without a sign of life (R11).
	Lease time.Duration
	// MaxNeutral is how many neutral probes in a row end an episode (R35).
	MaxNeutral int

	// Canary sends a cheap call of our own, not a caller's, once the circuit has
	// been open for its time, where the registry has a prober (R36). Only when it
	// succeeded do calls probe, or, with CanaryCloses, is the circuit closed. None
	// is sent unless a call was refused in the last CanaryDemand.
	Canary, CanaryCloses bool
	CanaryDemand         time.Duration

	// RecoveryRamp is how long after a recovery only a growing share of the calls
	// is let through (R37); 0 means that all are at once.
	RecoveryRamp time.Duration
	// Throttle spares a target that answers few of its calls. It does not go
	// together with FailureRate.
	Throttle Throttle

	// MaxOpenPercent is how many of the siblings of a circuit (Config.Siblings),
	// itself included, may be open for it to open by what it counts (R40); 100, and
	// 0: all of them.
	MaxOpenPercent int
	// Rollup opens a whole group (Config.Group) when many of it are open.
	Rollup Rollup

	// IdleTTL is how long a circuit is kept that is closed, unused and has
	// nothing left to remember (R39).
	IdleTTL time.Duration
}

// Validate returns every fault, joined, each with the name of its setting as a
// configuration file spells it (R45). Settings that are not Enabled are not
// looked at.
func (s Settings) Validate() error {
	if !s.Enabled {
		return nil
	}
	return errors.Join(
		atLeast("failure_threshold", s.FailureThreshold, 0),
		check(s.FailureThreshold != 0 || s.FailureRate != 0 || s.SlowRate != 0, "failure_threshold: is 0, and so are failure_rate_threshold and slow_call_rate_threshold: no circuit could ever open"),
		check(s.FailureRate <= All, "failure_rate_threshold: must be at most 1, is %d millionths", s.FailureRate),
		check(s.SlowRate <= All, "slow_call_rate_threshold: must be at most 1, is %d millionths", s.SlowRate),
		s.Window.validate(),
		atLeast("min_calls", s.MinCalls, 1),
		positive("cooldown", s.Cooldown),
		// Written so that NaN, which compares as false, is refused too.
		check(s.CooldownMultiplier >= 1 && s.CooldownMultiplier <= maxMultiplier, "cooldown_multiplier: must be from 1 to %v, is %v", maxMultiplier, s.CooldownMultiplier),
		check(s.MaxCooldown >= s.Cooldown, "max_cooldown: must be at least cooldown (%v), is %v", s.Cooldown, s.MaxCooldown),
		check(s.CooldownJitter >= 0 && s.CooldownJitter <= 1, "cooldown_jitter: must be from 0 to 1, is %v", s.CooldownJitter),
		positive("step_decay", s.StepDecay),
		positive("max_retry_after", s.MaxRetryAfter),
		check(s.HalfOpenCalls >= 1 && s.HalfOpenCalls <= maxHalfOpenCalls, "half_open_calls: must be from 1 to %d, is %d", maxHalfOpenCalls, s.HalfOpenCalls),
		check(s.SuccessThreshold >= 1 && s.SuccessThreshold <= s.HalfOpenCalls, "success_threshold: must be from 1 to half_open_calls (%d), is %d", s.HalfOpenCalls, s.SuccessThreshold),
		positive("max_half_open", s.MaxHalfOpen),
		positive("lease", s.Lease),
		atLeast("max_neutral", s.MaxNeutral, 1),
		check(!s.Canary || s.CanaryDemand > 0, "probe.demand: must be above 0, is %v", s.CanaryDemand),
		check(s.RecoveryRamp >= 0, "recovery_ramp: must not be below 0, is %v", s.RecoveryRamp),
		s.Throttle.validate(s.FailureRate),
		check(s.MaxOpenPercent >= 0 && s.MaxOpenPercent <= 100, "max_open_percent: must be from 0 to 100, is %d", s.MaxOpenPercent),
		check(s.Rollup.Percent >= 0 && s.Rollup.Percent <= 100, "provider_rollup.percent: must be from 0 to 100, is %d", s.Rollup.Percent),
		check(s.Rollup.Percent == 0 || s.Rollup.MinOpen >= 1, "provider_rollup.min_open: must be at least 1, is %d", s.Rollup.MinOpen),
		positive("idle_ttl", s.IdleTTL),
	)
}

// Bounds beyond which a number is a slip of the pen.
const (
	maxMultiplier    = 1000.0
	maxHalfOpenCalls = 1000
	maxWindowCalls   = 100_000
	maxBuckets       = 1000
	minBucket        = 10 * time.Millisecond
)

func (w Window) validate() error {
	if w.Calls != 0 {
		return check(w.Calls > 0 && w.Calls <= maxWindowCalls, "window.size: must be from 1 to %d calls, is %d", maxWindowCalls, w.Calls)
	}
	if w.Buckets < 1 || w.Buckets > maxBuckets {
		return check(false, "window.buckets: must be from 1 to %d, is %d", maxBuckets, w.Buckets)
	}
	return check(w.Span/time.Duration(w.Buckets) >= minBucket, "window.size: must be at least %v for each of its %d buckets, is %v", minBucket, w.Buckets, w.Span)
}

func (t Throttle) validate(rate Rate) error {
	if t.K == 0 {
		return nil
	}
	return errors.Join(
		check(t.K >= 1 && t.K <= maxMultiplier, "soft_throttle.k: must be from 1 to %v, is %v", maxMultiplier, t.K),
		check(t.Window >= time.Second, "soft_throttle.window: must be at least 1s, is %v", t.Window),
		check(rate == 0, "soft_throttle: does not go together with failure_rate_threshold, which must be 0"),
	)
}

func positive(name string, d time.Duration) error {
	return check(d > 0, "%s: must be above 0, is %v", name, d)
}

func atLeast(name string, n, least int) error {
	return check(n >= least, "%s: must be at least %d, is %d", name, least, n)
}

func check(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}
