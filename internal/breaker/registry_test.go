package breaker_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/breaker/replicatest"
	"github.com/breakwater-llm/breakwater/internal/leaktest"
)

func TestMain(m *testing.M) {
	replicatest.Main()
	leaktest.Main(m)
}

// CF-B1: a breaker that is off lets everything through, also past an open
// circuit, and records nothing.
func TestDisabledBreakerLetsEverythingThrough(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	g.play("F open x")
	g.Reconfigure(always(breaker.Settings{}))
	for range 10 {
		p := g.acquire()
		if p.State() != breaker.Closed || p.Generation() != 0 || p.Probe() {
			t.Fatalf("permit: got %v, generation %d, probe %v; want closed, 0, no", p.State(), p.Generation(), p.Probe())
		}
		p.Done(breaker.Outcome{Kind: breaker.Failure, OpenFor: time.Hour})
	}
	if s := g.snapshot(); s.Enabled || s.State != breaker.Closed || s.Calls != 0 {
		t.Errorf("snapshot: got %+v, want not enabled, closed, no calls", s)
	}
	g.Reconfigure(always(with(threshold(1))))
	g.play("open x n=1 f=1 +30s S closed")
}

// A key that was never enabled has settings that say nothing.
func TestDisabledFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, told := started(t, breaker.Settings{})
		for range 10 {
			g.play("F(1h) F F F F F")
			time.Sleep(time.Minute)
		}
		g.Reconfigure(always(with(threshold(1))))
		g.play("closed n=0 F open")
		if diff := cmp.Diff([]string{"consecutive"}, told()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// A call that is under way when the breaker is switched off records nothing
// either, and a probe gives its slot back.
func TestSwitchingOffDuringACall(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	g.play("a1 a2 F +30s a3 half_open")
	g.Reconfigure(always(breaker.Settings{}))
	g.play("t3 F3 F1 F2")
	g.Reconfigure(always(with(threshold(1))))
	g.play("half_open S closed")
}

// R45, CFG-05: new settings apply from the next evaluation on and lose nothing.
func TestReconfigure(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(5)))
	g.play("F F F")
	g.Reconfigure(always(with(func(s *breaker.Settings) { s.FailureThreshold, s.Cooldown = 4, 10*time.Second })))
	g.play("closed c=3 n=3 F open +4s")
	g.Reconfigure(always(with(func(s *breaker.Settings) { s.FailureThreshold, s.Cooldown = 4, time.Hour; s.MaxCooldown = time.Hour })))
	if got, want := g.snapshot().RetryAfter, 6*time.Second; got != want {
		t.Errorf("open for another %v, want %v", got, want)
	}
	g.play("+6s a1 half_open")
}

// An episode ends by the number of slots it began with.
func TestReconfigureDuringAnEpisode(t *testing.T) {
	t.Parallel()
	g := setup(t, with(halfOpen(3, 2)))
	g.play("F +30s F half_open")
	g.Reconfigure(always(with(halfOpen(1, 1))))
	g.play("S half_open S closed F +30s a1 x")
}

// A circuit that is made while the settings change gets the new ones.
func TestReconfigureWhileACircuitIsMade(t *testing.T) {
	t.Parallel()
	var r *breaker.Registry
	r = breaker.New(breaker.Config{Settings: func(string) breaker.Settings {
		r.Reconfigure(always(with(threshold(1))))
		return with(threshold(100))
	}})
	_ = r.Do(key, func(*breaker.Permit) breaker.Outcome { return outcome('F') })
	if s, _ := r.Circuit(key); s.State != breaker.Open {
		t.Errorf("after one failure: got %v, want open", s.State)
	}
}

// Settings of several keys, and of keys that come later.
func TestReconfigurePerKey(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(2)))
	fail := func(k string) breaker.State {
		_ = g.Do(k, func(*breaker.Permit) breaker.Outcome { return outcome('F') })
		s, _ := g.Circuit(k)
		return s.State
	}
	fail("a")
	g.Reconfigure(func(k string) breaker.Settings {
		if k == "b" {
			return with(threshold(3))
		}
		return with(threshold(1))
	})
	got := fmt.Sprint(fail("a"), fail("b"), fail("b"), fail("b"), fail("c"))
	if want := "open closed closed open open"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// R3, R39: ten thousand circuits cost no goroutine, and go when they are idle;
// an open one, a streak and a grown cooldown are remembered.
func TestIdleCircuitsAreLetGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := started(t, with(threshold(2)))
		before := runtime.NumGoroutine()
		for i := range 10_000 {
			_ = g.Do(fmt.Sprint("idle-", i), func(*breaker.Permit) breaker.Outcome { return outcome('S') })
		}
		if got := runtime.NumGoroutine() - before; got > 1000 { // other tests run beside this one
			t.Errorf("10,000 keys made %d goroutines", got)
		}
		_ = g.Do("failed once", func(*breaker.Permit) breaker.Outcome { return outcome('F') })
		g.play("F F open")
		ticker := time.NewTicker(10 * time.Minute)
		defer ticker.Stop()
		for range 3 {
			<-ticker.C
			_ = g.Do("busy", func(*breaker.Permit) breaker.Outcome { return outcome('E') })
		}
		synctest.Wait()
		circuits := g.Circuits()
		if len(circuits) != 2 || circuits[0].Key != key || circuits[0].State != breaker.Open || circuits[1].Key != "busy" {
			t.Fatalf("%d circuits are left, want the open and the busy one", len(circuits))
		}
		if got := circuits[1].Neutral; got != 3 {
			t.Errorf("the busy circuit remembers %d calls, want all 3", got)
		}
	})
}

// R39: a permit keeps its circuit alive: the outcome of a call that outlasted
// the eviction counts in the circuit that took the place.
func TestCallThatOutlastsEviction(t *testing.T) {
	t.Parallel()
	for _, meanwhile := range []string{"", "F S"} {
		t.Run("meanwhile "+meanwhile, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g, _ := started(t, with(threshold(2)))
				g.play("a1 a2 S")
				time.Sleep(20 * time.Minute)
				if _, ok := g.Circuit(key); ok {
					t.Fatal("the idle circuit is still there")
				}
				g.play(meanwhile)
				g.play("F1 closed c=1 F2 open F1 double=0")
			})
		})
	}
}

// …unless that one has moved since.
func TestCallThatOutlastsEvictionAndAnotherOpening(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := started(t, with(threshold(1)))
		g.play("a1 S")
		time.Sleep(20 * time.Minute)
		g.play("F open")
		if got := g.permits["1"].Done(outcome('S')); got != breaker.Stale {
			t.Errorf("got %v, want stale", got)
		}
		g.play("open stale=1")
	})
}

// What was stale before the eviction stays so.
func TestStaleCallThatOutlastsEviction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := started(t, with(threshold(1)))
		g.play("a1 F")
		time.Sleep(30 * time.Second)
		g.play("S closed")
		time.Sleep(30 * time.Minute)
		if got := g.permits["1"].Done(outcome('F')); got != breaker.Stale {
			t.Errorf("got %v, want stale", got)
		}
		if len(g.Circuits()) != 0 {
			t.Error("a stale outcome made a circuit")
		}
	})
}

// A grown cooldown is remembered until it has decayed, however idle the circuit.
func TestGrownCooldownOutlivesIdleness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := started(t, with(func(s *breaker.Settings) { s.FailureThreshold, s.IdleTTL = 1, time.Minute }))
		for range 6 { // steps 0 to 5
			time.Sleep(g.openFor())
		}
		g.play("S closed")
		time.Sleep(4 * time.Minute)
		if got := g.snapshot().State; got != breaker.Closed {
			t.Fatalf("after four idle minutes: got %v, want closed", got)
		}
		time.Sleep(4 * time.Minute)
		if _, ok := g.Circuit(key); ok {
			t.Error("the circuit is kept although it has nothing to remember")
		}
	})
}

// Permits may outlive every state that knew them.
func TestOldPermitsInEveryState(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"closed", "F open", "F +60s a9 half_open"} {
		g := setup(t, with(halfOpen(2, 2)))
		g.play("a1 F +30s a2 a3 F3 +60s a4 a5 S4 S5 closed " + state)
		for _, name := range []string{"1", "2"} {
			p := g.permits[name]
			p.Within(time.Hour)
			p.FirstToken()
			if got := p.Done(outcome('F')); got != breaker.Stale {
				t.Errorf("%s: permit %s is %v, want stale", state, name, got)
			}
		}
	}
}

// R13: forgotten permits of a closed circuit cost nothing and block nothing.
func TestForgottenPermits(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(2)))
	for range 1000 {
		g.acquire()
	}
	g.play("n=0 F F open +30s S closed")
}

// Done and FirstToken of a permit that is used again belong to the new call.
func TestPermitIsUsedAgain(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(3)))
	var p breaker.Permit
	for range 3 {
		if err := g.Acquire(key, &p); err != nil {
			t.Fatal(err)
		}
		if got := p.Done(outcome('F')); got != breaker.Applied {
			t.Fatalf("got %v, want applied", got)
		}
	}
	g.play("open double=0")
}
