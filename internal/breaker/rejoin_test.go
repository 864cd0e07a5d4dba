package breaker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/cache"
)

// What a replica found and told while the store was away is not told again when
// the store finds it, too.
func TestAnOpeningThatWasToldAloneIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := cache.NewMemory(cache.MemoryConfig{})
		defer memory.Close()
		store := &frail{Store: memory}
		var told []string
		s := with(func(s *breaker.Settings) { s.FailureThreshold, s.Store, s.Cooldown = 2, breaker.Cached, time.Minute })
		r := breaker.New(breaker.Config{Settings: always(s), Store: store, OnEvent: func(e breaker.Event) {
			told = append(told, e.From.String()+" "+e.To.String()+" "+e.Reason)
		}})
		r.Start()
		t.Cleanup(func() { _ = r.Stop(context.Background()) })
		fail := func() { _ = r.Do(key, func(*breaker.Permit) breaker.Outcome { return outcome('F') }) }
		succeed := func() { _ = r.Do(key, func(*breaker.Permit) breaker.Outcome { return outcome('S') }) }

		store.now.Store(deaf)
		wait(5 * time.Second)
		fail()
		fail()
		wait(time.Second)
		store.now.Store(well)
		wait(5 * time.Second)
		if s, _ := r.Circuit(key); s.State != breaker.Open {
			t.Errorf("when the store is back it is %v, want open", s.State)
		}
		wait(2 * time.Minute)
		succeed()
		wait(time.Second)
		want := []string{"closed open consecutive", "open half_open half_open", "half_open closed probe_success"}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// R45: what was counted stays when a circuit that was kept by one replica alone
// is shared from then on, in windows of both kinds, and nothing of it is counted
// twice when that changes to and fro.
func TestCountsStayWhenACircuitIsShared(t *testing.T) {
	t.Parallel()
	for name, window := range map[string]breaker.Window{"time": {Span: time.Minute, Buckets: 6}, "calls": {Calls: 8}} {
		for _, mode := range []breaker.Mode{breaker.Cached, breaker.Strict} {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					memory := cache.NewMemory(cache.MemoryConfig{})
					defer memory.Close()
					settings := func(mode breaker.Mode) func(string) breaker.Settings {
						return always(with(func(s *breaker.Settings) {
							s.FailureThreshold, s.FailureRate, s.Window, s.MinCalls, s.Store = 0, breaker.All*7/10, window, 8, mode
						}))
					}
					r := breaker.New(breaker.Config{Settings: settings(breaker.Local), Store: memory})
					r.Start()
					t.Cleanup(func() { _ = r.Stop(context.Background()) })
					play := func(outcomes string) {
						for _, o := range outcomes {
							_ = r.Do(key, func(*breaker.Permit) breaker.Outcome { return outcome(byte(o)) })
						}
					}
					counts := func(want ...uint64) {
						t.Helper()
						wait(3 * time.Second)
						s, _ := r.Circuit(key)
						if diff := cmp.Diff(want, []uint64{s.Calls, s.Failures, uint64(s.ConsecutiveFailures)}); diff != "" {
							t.Errorf("calls, failures and failures in a row (-want +got):\n%s", diff)
						}
					}

					play("SFF")
					counts(3, 2, 2)
					r.Reconfigure(settings(mode))
					play("F") // before the store has answered
					counts(4, 3, 3)
					play("SF")
					counts(6, 4, 1)
					r.Reconfigure(settings(breaker.Local))
					counts(6, 4, 1)
					r.Reconfigure(settings(mode))
					counts(6, 4, 1)
					play("F")
					counts(7, 5, 2)
					if s, _ := r.Circuit(key); s.State != breaker.Closed {
						t.Errorf("it is %v, want closed", s.State)
					}
					play("F")
					wait(time.Second)
					if s, _ := r.Circuit(key); s.State != breaker.Open || s.Calls != 8 || s.Failures != 6 {
						t.Errorf("it is %v by %d of %d, want open by 6 of 8", s.State, s.Failures, s.Calls)
					}
				})
			})
		}
	}
}
