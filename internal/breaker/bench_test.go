package breaker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

func benchSettings(string) breaker.Settings {
	return breaker.Settings{
		Enabled: true, FailureThreshold: 5,
		FailureRate: breaker.All / 2, Window: breaker.Window{Span: 30 * time.Second, Buckets: 10}, MinCalls: 10,
		Cooldown: 30 * time.Second, CooldownMultiplier: 2, MaxCooldown: 5 * time.Minute, CooldownJitter: 0.25,
		MaxRetryAfter: time.Hour, HalfOpenCalls: 1, SuccessThreshold: 1,
		MaxHalfOpen: 2 * time.Minute, Lease: 30 * time.Second, StepDecay: time.Minute,
		MaxNeutral: breaker.DefaultMaxNeutral, IdleTTL: breaker.DefaultIdleTTL,
	}
}

func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("provider-%03d/some-model-name/region-%d", i, i%7)
	}
	return keys
}

func BenchmarkClosedSuccess(b *testing.B) {
	r := breaker.New(breaker.Config{Settings: benchSettings})
	key := benchKeys(1)[0]
	b.ReportAllocs()
	for b.Loop() {
		var p breaker.Permit
		if r.Acquire(key, &p) == nil {
			p.Done(breaker.Outcome{Kind: breaker.Success})
		}
	}
}

// The caller has read the clock for itself.
func BenchmarkClosedSuccessAt(b *testing.B) {
	r := breaker.New(breaker.Config{Settings: benchSettings})
	key := benchKeys(1)[0]
	at := r.Now()
	b.ReportAllocs()
	for b.Loop() {
		var p breaker.Permit
		if r.Acquire(key, &p) == nil {
			p.Done(breaker.Outcome{Kind: breaker.Success, At: at})
		}
	}
}

func BenchmarkClosedSuccessInACountWindow(b *testing.B) {
	r := breaker.New(breaker.Config{Settings: func(key string) breaker.Settings {
		s := benchSettings(key)
		s.Window = breaker.Window{Calls: 20}
		return s
	}})
	key := benchKeys(1)[0]
	b.ReportAllocs()
	for b.Loop() {
		var p breaker.Permit
		if r.Acquire(key, &p) == nil {
			p.Done(breaker.Outcome{Kind: breaker.Success})
		}
	}
}

// One call in a hundred fails, so that the window always shows failures.
func BenchmarkClosedFewFailures(b *testing.B) {
	r := breaker.New(breaker.Config{Settings: benchSettings})
	key := benchKeys(1)[0]
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		o := breaker.Outcome{Kind: breaker.Success}
		if i%100 == 99 {
			o = breaker.Outcome{Kind: breaker.Failure, Cause: "server_error"}
		}
		var p breaker.Permit
		if r.Acquire(key, &p) == nil {
			p.Done(o)
		}
	}
}

func BenchmarkClosedSuccessParallel(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			r := breaker.New(breaker.Config{Settings: benchSettings})
			keys := benchKeys(n)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					var p breaker.Permit
					if r.Acquire(keys[i%n], &p) == nil {
						p.Done(breaker.Outcome{Kind: breaker.Success})
					}
				}
			})
		})
	}
}

func BenchmarkFailureBelowThreshold(b *testing.B) {
	r := breaker.New(breaker.Config{Settings: func(key string) breaker.Settings {
		s := benchSettings(key)
		s.FailureThreshold, s.FailureRate = 1<<40, 0
		return s
	}})
	key := benchKeys(1)[0]
	b.ReportAllocs()
	for b.Loop() {
		var p breaker.Permit
		if r.Acquire(key, &p) == nil {
			p.Done(breaker.Outcome{Kind: breaker.Failure, Cause: "server_error"})
		}
	}
}

func BenchmarkRefusedWhileOpen(b *testing.B) {
	r := breaker.New(breaker.Config{Settings: benchSettings})
	key := benchKeys(1)[0]
	var p breaker.Permit
	if err := r.Acquire(key, &p); err != nil {
		b.Fatal(err)
	}
	p.Done(breaker.Outcome{Kind: breaker.Failure, OpenFor: time.Hour})
	b.ReportAllocs()
	for b.Loop() {
		if r.Acquire(key, &p) == nil {
			b.Fatal("an open circuit admitted a call")
		}
	}
}

func BenchmarkNewCircuit(b *testing.B) {
	r := breaker.New(breaker.Config{Settings: benchSettings})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		var p breaker.Permit
		if err := r.Acquire(fmt.Sprint(i), &p); err != nil {
			b.Fatal(err)
		}
	}
}
