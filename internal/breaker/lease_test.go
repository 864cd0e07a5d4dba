package breaker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// started runs a registry inside the bubble, on the bubble's clock, and stops it
// at the end of the test. What it tells goes to the returned function.
func started(t *testing.T, s breaker.Settings) (*rig, func() []string) {
	t.Helper()
	var told []string
	g := &rig{t: t, permits: map[string]*breaker.Permit{}}
	g.Registry = breaker.New(breaker.Config{
		Settings: always(s),
		OnEvent:  func(e breaker.Event) { told = append(told, e.Reason) },
		Jitter:   func() float64 { return 0 },
	})
	g.Start()
	t.Cleanup(func() {
		if err := g.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return g, func() []string {
		synctest.Wait()
		return told
	}
}

// X01: where nobody renews the lease, a probe that never reports is given up at
// the end of it; its late result is stale.
func TestProbeThatNeverReports(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	g.play("F +30s a1 +29s x half_open +1s x open lost=1 +29s x +1s a2 half_open")
	if got := g.permits["1"].Done(outcome('S')); got != breaker.Stale {
		t.Errorf("the late result is %v, want stale", got)
	}
	g.play("half_open stale=1 S2 closed")
}

// T16: the result itself may be what shows that the lease is over.
func TestProbeThatReportsAfterItsLease(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	g.play("F +30s a1 +31s half_open")
	if got := g.permits["1"].Done(outcome('S')); got != breaker.Expired {
		t.Errorf("the late result is %v, want expired", got)
	}
	g.play("open lost=1 stale=0 n=0")
	if s := g.snapshot(); s.Reason != breaker.ReasonProbeLost || s.RetryAfter != 30*time.Second {
		t.Errorf("got %s for %v, want probe_lost for the same 30 s", s.Reason, s.RetryAfter)
	}
}

// A verdict that comes after another probe was lost is stale.
func TestVerdictAfterAnotherProbeWasLost(t *testing.T) {
	t.Parallel()
	g := setup(t, with(halfOpen(2, 2)))
	g.play("F +30s a1 +20s a2 +15s")
	if got := g.permits["2"].Done(outcome('S')); got != breaker.Stale {
		t.Errorf("got %v, want stale", got)
	}
	g.play("open lost=1")
}

// R11: the process that holds a probe renews its lease while the call is inside
// its own time, however slow it is.
func TestLeaseIsRenewedWhileTheCallMayLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, told := started(t, with(threshold(1)))
		g.play("F")
		time.Sleep(30 * time.Second)
		probe := g.acquire()
		probe.Within(10 * time.Minute)
		time.Sleep(9*time.Minute + 59*time.Second)
		g.play("half_open x")
		if got := probe.Done(outcome('S')); got != breaker.Applied {
			t.Errorf("the slow probe is %v, want applied", got)
		}
		g.play("closed")
		if diff := cmp.Diff([]string{"consecutive", "half_open", "probe_success"}, told()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// R12: a probe that its holder forgot is given up although the process lives:
// at most a lease after the time it was allowed.
func TestForgottenProbeIsGivenUp(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		within time.Duration // 0: not said, so max_half_open
		most   time.Duration
	}{
		{"of a call that said how long it may take", 10 * time.Second, 40 * time.Second},
		{"of a call that did not", 0, 2*time.Minute + 30*time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g, told := started(t, with(threshold(1)))
				g.play("F")
				time.Sleep(30 * time.Second)
				if probe := g.acquire(); tt.within > 0 {
					probe.Within(tt.within)
				}
				time.Sleep(tt.most - 30*time.Second)
				g.play("half_open")
				time.Sleep(30*time.Second + 10*time.Second) // the lease, and one beat
				g.play("open lost=1")
				time.Sleep(30 * time.Second)
				g.play("S closed")
				want := []string{"consecutive", "half_open", "probe_lost", "half_open", "probe_success"}
				if diff := cmp.Diff(want, told()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// An old probe has no say in the leases of a new episode.
func TestOldProbeDoesNotExtendANewLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, told := started(t, with(halfOpen(2, 2)))
		g.play("F")
		time.Sleep(30 * time.Second)
		g.play("a1 a2 F2 open")
		time.Sleep(time.Minute)
		g.acquire().Within(time.Second)
		g.permits["1"].Within(10 * time.Hour)
		time.Sleep(time.Minute)
		g.play("open lost=1")
		want := []string{"consecutive", "half_open", "probe_failure", "half_open", "probe_lost"}
		if diff := cmp.Diff(want, told()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// T17, C27: the time without a probe under way adds up, that with one does not
// count, and the ticker ends it without traffic.
func TestHalfOpenTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, told := started(t, with(threshold(1)))
		g.play("F")
		time.Sleep(30 * time.Second)
		g.play("E half_open")
		time.Sleep(time.Minute)
		probe := g.acquire()
		time.Sleep(90 * time.Second)
		probe.Done(outcome('E'))
		time.Sleep(59 * time.Second)
		g.play("half_open")
		time.Sleep(11 * time.Second)
		g.play("open")
		if s := g.snapshot(); s.Reason != breaker.ReasonHalfOpenTimeout || s.RetryAfter < 20*time.Second {
			t.Errorf("got %s with %v left, want half_open_timeout with the same cooldown", s.Reason, s.RetryAfter)
		}
		if diff := cmp.Diff([]string{"consecutive", "half_open", "half_open_timeout"}, told()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// T16, T17: what is not known to have failed does not lengthen the cooldown.
func TestLostProbesDoNotGrowTheCooldown(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	g.play("F")
	for range 5 {
		g.play("+30s a1 +30s x open")
		if got, want := g.snapshot().RetryAfter, 30*time.Second; got != want {
			t.Fatalf("cooldown: got %v, want %v", got, want)
		}
	}
	g.play("+30s F open")
	if got, want := g.snapshot().RetryAfter, 60*time.Second; got != want {
		t.Errorf("cooldown after a probe that failed: got %v, want %v", got, want)
	}
}

// A hint is obeyed once: a probe that is lost after it costs a cooldown, not the
// hint again.
func TestLostProbeAfterAHintCostsACooldown(t *testing.T) {
	t.Parallel()
	g := setup(t, defaults())
	g.play("F(50m) +50m a1 +30s x open")
	if got, want := g.snapshot().RetryAfter, 30*time.Second; got != want {
		t.Errorf("open for %v, want %v", got, want)
	}
}

// Leases that a reload made shorter are renewed in time.
func TestShorterLeaseIsRenewedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := started(t, with(threshold(1)))
		g.play("F")
		time.Sleep(30 * time.Second)
		g.play("E half_open")
		synctest.Wait() // the sweeper has gone to sleep for a third of the long lease
		g.Reconfigure(always(with(func(s *breaker.Settings) { s.Lease = 300 * time.Millisecond })))
		time.Sleep(time.Second)
		probe := g.acquire()
		time.Sleep(time.Minute)
		if got := probe.Done(outcome('S')); got != breaker.Applied {
			t.Errorf("got %v, want applied", got)
		}
		g.play("closed")
	})
}
