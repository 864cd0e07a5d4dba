package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// Times short enough that minutes see thousands of episodes.
const (
	maxCooldown   = time.Second
	jitter        = 0.25
	maxRetryAfter = 2 * time.Second
	lease         = 200 * time.Millisecond
	maxHalfOpen   = 500 * time.Millisecond
	probingWait   = 5 * time.Second // the longest that a prober is waited for (R31)
	coldTTL       = 5 * time.Second
	coldPeriod    = 140 * time.Second // between two times of the cold keys
)

// longestOpen is the longest that a circuit opens for by itself.
const longestOpen = max(maxRetryAfter, time.Duration(float64(maxCooldown)*(1+jitter)))

// temper is how the circuit of a key is treated.
type temper int

const (
	hot    temper = iota // called all the time
	fickle               // the same, and turned off and on with the settings
	cold                 // left alone for so long that it is let go, now and then
)

func temperOf(i, keys int) temper {
	switch {
	case i >= keys-keys/10:
		return cold
	case i%50 == 7:
		return fickle
	default:
		return hot
	}
}

// slots is how many probes an episode of a circuit hands out. It never changes
// for those that are not fickle, so that it can be held to.
func slots(i int) int { return 1 + i%3 }

// settingsOf returns the settings of every key in one round of reconfiguring.
func settingsOf(round, keys int) func(string) breaker.Settings {
	return func(key string) breaker.Settings {
		i := indexOf(key)
		s := breaker.Settings{
			Enabled: true, FailureThreshold: 5 + round%3,
			FailureRate: breaker.All / 2, Window: breaker.Window{Span: 2 * time.Second, Buckets: 10}, MinCalls: 20,
			SlowCancels: round%2 == 0,
			Cooldown:    time.Duration(100+50*(round%4)) * time.Millisecond, CooldownMultiplier: 2,
			MaxCooldown: maxCooldown, CooldownJitter: jitter, StepDecay: maxCooldown / 2, MaxRetryAfter: maxRetryAfter,
			HalfOpenCalls: slots(i), SuccessThreshold: 1 + (round+i)%slots(i),
			MaxHalfOpen: maxHalfOpen, Lease: lease, MaxNeutral: 3, IdleTTL: breaker.DefaultIdleTTL,
		}
		if i%4 == 1 && round%4 != 3 {
			s.SlowRate = breaker.All / 2
		}
		if i%5 == 0 && round%5 == 4 {
			s.Window = breaker.Window{Calls: 50}
		}
		switch temperOf(i, keys) {
		case fickle:
			s.Enabled, s.HalfOpenCalls, s.SuccessThreshold = round%3 != 2, 1+round%3, 1
		case cold:
			s.IdleTTL = coldTTL
		}
		return s
	}
}

// rounds is after how many rounds of reconfiguring the settings repeat.
const rounds = 3 * 4 * 5

// checkSettings finds what the soak itself got wrong.
func checkSettings(keys int) error {
	for round := range rounds {
		for i := range keys {
			if err := settingsOf(round, keys)(nameOf(i)).Validate(); err != nil {
				return fmt.Errorf("settings of %s in round %d: %w", nameOf(i), round, err)
			}
		}
	}
	return nil
}

func nameOf(i int) string { return fmt.Sprintf("provider/model/%d", i) }

func indexOf(key string) int {
	i, _ := strconv.Atoi(key[strings.LastIndexByte(key, '/')+1:])
	return i
}
