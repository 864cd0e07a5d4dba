package prober

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// clinic checks providers; a test says what comes of it.
type clinic struct {
	checks *HealthChecks
	asked  chan *llm.Call
	says   func(call *llm.Call) breaker.Kind
}

// circuitsOf are circuits that no canary probes.
func circuitsOf() *breaker.Registry {
	return breaker.New(breaker.Config{Settings: func(string) breaker.Settings { s := settings(); s.Canary = false; return s }})
}

func newClinic(circuits *breaker.Registry, turns *Turns) *clinic {
	c := &clinic{asked: make(chan *llm.Call, 1000), says: func(*llm.Call) breaker.Kind { return breaker.Success }}
	c.checks = NewHealthChecks(circuits, func(ctx context.Context, call *llm.Call, permit *breaker.Permit) error {
		c.asked <- call
		kind := c.says(call)
		permit.Done(breaker.Outcome{Kind: kind})
		if ctx.Err() != nil {
			return llm.Cancelled(ctx, call.Target)
		}
		return nil
	}, turns, quiet)
	return c
}

func (c *clinic) stop(t *testing.T) {
	t.Helper()
	if err := c.checks.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// in counts the checks that are made in a time.
func (c *clinic) in(d time.Duration) int {
	<-time.After(d)
	synctest.Wait()
	n := len(c.asked)
	for range n {
		<-c.asked
	}
	return n
}

func every(interval time.Duration, provider string) HealthCheck {
	return HealthCheck{Target: llm.HealthTarget(provider, "r1"), Interval: interval, Timeout: time.Second}
}

func between(t *testing.T, what string, got, least, most int) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: %d checks, want %d to %d", what, got, least, most)
	}
}

func TestAProviderIsCheckedAtItsInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(circuitsOf(), NewTurns(nil))
		c.checks.Follow([]HealthCheck{every(10*time.Second, "alpha")})
		between(t, "before it starts", c.in(time.Minute), 0, 0)
		c.checks.Start()
		c.checks.Start()
		between(t, "in 100 s", c.in(100*time.Second), 9, 12)
		<-time.After(10*time.Second + 10*time.Second/10)
		call := <-c.asked
		if call.Operation != llm.OperationHealthCheck || call.Target.Key() != "alpha/@health/r1" || call.Timeouts.Total != time.Second || call.Caller.KeyID != "" {
			t.Errorf("the call is %+v", call)
		}
		c.stop(t)
		c.stop(t)
		c.in(0)
		between(t, "after it stopped", c.in(time.Minute), 0, 0)
		c.checks.Follow([]HealthCheck{every(time.Second, "beta")})
		between(t, "followed after it stopped", c.in(time.Minute), 0, 0)
	})
}

func TestAReloadChangesWhatIsChecked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(circuitsOf(), NewTurns(nil))
		c.checks.Start()
		defer c.stop(t)
		between(t, "of nothing", c.in(time.Minute), 0, 0)
		c.checks.Follow([]HealthCheck{every(10*time.Second, "alpha")})
		between(t, "of alpha", c.in(100*time.Second), 9, 12)
		for range 50 { // one that stays as it was keeps its time
			c.checks.Follow([]HealthCheck{every(10*time.Second, "alpha")})
			<-time.After(2 * time.Second)
		}
		between(t, "of alpha over reloads", c.in(0), 9, 12)
		c.checks.Follow([]HealthCheck{every(time.Second, "alpha"), every(10*time.Second, "beta")})
		between(t, "of alpha, ten times as often, and of beta", c.in(100*time.Second), 100, 125)
		c.checks.Follow(nil)
		c.in(0)
		between(t, "of nothing again", c.in(time.Minute), 0, 0)
	})
}

// While a provider's circuit is open it is asked when a probe is due, no sooner.
func TestAnOpenCircuitSparesItsProvider(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		circuits := circuitsOf()
		c := newClinic(circuits, NewTurns(nil))
		var well atomic.Bool
		c.says = func(*llm.Call) breaker.Kind {
			if well.Load() {
				return breaker.Success
			}
			return breaker.Failure
		}
		c.checks.Follow([]HealthCheck{every(time.Second, "alpha")})
		c.checks.Start()
		defer c.stop(t)
		between(t, "while it is down, for 10 s after each", c.in(100*time.Second), 8, 10)
		well.Store(true)
		c.in(12 * time.Second)
		if s, _ := circuits.Circuit("alpha/@health/r1"); s.State != breaker.Closed {
			t.Errorf("its circuit is %v after it is well again", s.State)
		}
		if s, ok := circuits.Circuit(alpha.Key()); ok {
			t.Errorf("the circuit of its model has %+v", s)
		}
	})
}

// One check does for all replicas that share the circuit; where the cache is away,
// or circuits are not shared, each makes its own.
func TestReplicasShareChecks(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		shared, away bool
		least, most  int
	}{
		"shared":     {true, false, 8, 13},
		"not shared": {false, false, 27, 36},
		"cache away": {true, true, 27, 36},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, circuits := &leases{away: tt.away}, circuitsOf()
				total := 0
				var replicas []*clinic
				for range 3 {
					c := newClinic(circuits, NewTurns(store))
					check := every(10*time.Second, "alpha")
					check.Shared = tt.shared
					c.checks.Follow([]HealthCheck{check})
					c.checks.Start()
					replicas = append(replicas, c)
				}
				<-time.After(100 * time.Second)
				for _, c := range replicas {
					total += c.in(0)
					c.stop(t)
				}
				between(t, "of three replicas", total, tt.least, tt.most)
			})
		})
	}
}

func TestAHealthCheckEndsWhenTheGatewayStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ended error
		checks := NewHealthChecks(circuitsOf(), func(ctx context.Context, call *llm.Call, permit *breaker.Permit) error {
			<-ctx.Done()
			ended = context.Cause(ctx)
			permit.Done(breaker.Outcome{Kind: breaker.Neutral})
			return ended
		}, NewTurns(nil), quiet)
		checks.Follow([]HealthCheck{every(time.Second, "alpha")})
		checks.Start()
		<-time.After(2 * time.Second)
		if err := checks.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(ended, llm.ErrShutdown) {
			t.Errorf("it ended because of %v", ended)
		}
	})
}

// A fault of ours in one check ends neither the others nor the gateway.
func TestAFaultInAHealthCheckIsSurvived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(circuitsOf(), NewTurns(nil))
		c.says = func(*llm.Call) breaker.Kind { panic("a fault") }
		c.checks.Follow([]HealthCheck{every(time.Second, "alpha")})
		c.checks.Start()
		defer c.stop(t)
		between(t, "in 30 s", c.in(30*time.Second), 25, 35)
	})
}
