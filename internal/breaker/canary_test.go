package breaker_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// canaryRig is what makes the canaries of a test: the test ends them.
type canaryRig struct {
	*rig
	sent chan *breaker.Permit
	said chan breaker.Outcome
}

func withCanary(change func(*breaker.Settings)) breaker.Settings {
	return with(func(s *breaker.Settings) {
		s.FailureThreshold, s.Canary, s.CanaryDemand = 1, true, 5*time.Minute
		if change != nil {
			change(s)
		}
	})
}

func newCanaryRig(g *rig) *canaryRig {
	p := &canaryRig{rig: g, sent: make(chan *breaker.Permit), said: make(chan breaker.Outcome)}
	g.remake(func(c *breaker.Config) {
		c.Canary = func(ctx context.Context, key string, permit *breaker.Permit) {
			p.sent <- permit
			if o, more := <-p.said; more {
				permit.Done(o)
			}
		}
	})
	return p
}

// canary lets the sweeper look, and takes the canary that it has to send.
func (p *canaryRig) canary() *breaker.Permit {
	p.t.Helper()
	breaker.Sweep(p.Registry)
	select {
	case permit := <-p.sent:
		return permit
	case <-time.After(time.Minute):
		p.t.Fatal("no canary was sent")
		return nil
	}
}

// none says that the sweeper finds nothing to send.
func (p *canaryRig) none() {
	p.t.Helper()
	busy := breaker.Sending(p.Registry, key)
	breaker.Sweep(p.Registry)
	for !busy && breaker.Sending(p.Registry, key) {
		select {
		case <-p.sent:
			p.t.Fatal("a canary was sent")
		default:
			runtime.Gosched()
		}
	}
}

func (p *canaryRig) says(kind breaker.Kind) {
	p.said <- breaker.Outcome{Kind: kind, Cause: "timeout"}
	for breaker.Sending(p.Registry, key) {
		runtime.Gosched()
	}
	breaker.Flush(p.Registry)
}

func TestCanary(t *testing.T) {
	t.Parallel()
	on := newStores(t)
	tests := []struct {
		name   string
		change func(*breaker.Settings)
		behave func(p *canaryRig)
	}{
		{"T7 calls stay refused while it is under way, and probe when it did well (T18)", nil, func(p *canaryRig) {
			p.play("F x +31s x")
			permit := p.canary()
			if !permit.Canary() || !permit.Probe() || permit.State() != breaker.HalfOpen {
				p.t.Errorf("it went as %+v", permit)
			}
			p.play("half_open x by=canary")
			p.none()
			p.says(breaker.Success)
			p.play("half_open by=canary_success a1 x S1 closed")
		}},
		{"T18 it closes where that is wanted", func(s *breaker.Settings) { s.CanaryCloses = true }, func(p *canaryRig) {
			p.play("F x +31s")
			p.canary()
			p.says(breaker.Success)
			p.play("closed by=canary_success S n=1")
		}},
		{"T19 a failure re-opens, one step on", nil, func(p *canaryRig) {
			p.play("F x +31s")
			p.canary()
			p.says(breaker.Failure)
			p.play("open by=canary_failure +59s x")
			p.none()
			p.play("+3s x")
			p.canary()
			p.says(breaker.Success)
			p.play("half_open S closed")
		}},
		{"T19 so does a probe of the live phase, and then it is a canary's turn again", nil, func(p *canaryRig) {
			p.play("F x +31s")
			p.canary()
			p.says(breaker.Success)
			p.play("F open by=probe_failure +62s x x")
			p.canary()
			p.says(breaker.Success)
			p.play("S closed")
		}},
		{"X19 none without demand", nil, func(p *canaryRig) {
			p.play("F +31s")
			p.none()
			p.play("x")
			p.canary()
			p.says(breaker.Failure)
			p.play("+6m")
			p.none()
		}},
		{"X19 nor before the circuit was open for its time", nil, func(p *canaryRig) {
			p.play("F x +29s x")
			p.none()
		}},
		{"R36 one that cannot be made does not hold the circuit for ever", nil, func(p *canaryRig) {
			p.play("F x +31s")
			for range 3 {
				p.play("x")
				p.canary()
				p.says(breaker.Neutral)
			}
			p.play("half_open by=canary_unable a1 x S1 closed")
		}},
		{"T16 nor does one that is lost", nil, func(p *canaryRig) {
			p.play("F x +31s")
			p.canary()
			p.play("x +2m30s sweep open by=probe_lost")
			close(p.said)
		}},
		{"it says nothing of calls", nil, func(p *canaryRig) {
			p.play("F x +31s")
			p.canary()
			p.says(breaker.Success)
			p.play("n=0 f=0 probes=1")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, on, withCanary(tt.change), func(g *rig) { tt.behave(newCanaryRig(g)) })
		})
	}
}

// Where nobody makes canaries, calls probe.
func TestNoCanaryWithoutAProber(t *testing.T) {
	t.Parallel()
	setup(t, withCanary(func(s *breaker.Settings) { s.Canary = false })).play("F +30s a1 x S1 closed")
}

func TestCanariesAreCalledBack(t *testing.T) {
	t.Parallel()
	called := make(chan struct{})
	var now time.Duration = time.Minute
	r := breaker.New(breaker.Config{
		Settings: always(withCanary(func(s *breaker.Settings) { s.Cooldown, s.MaxCooldown = time.Nanosecond, time.Nanosecond })),
		Now:      func() time.Duration { now += time.Millisecond; return now },
		Jitter:   func() float64 { return 0 },
		Canary: func(ctx context.Context, _ string, p *breaker.Permit) {
			close(called)
			<-ctx.Done()
		},
	})
	var p breaker.Permit
	if err := r.Acquire(key, &p); err != nil {
		t.Fatal(err)
	}
	p.Done(breaker.Outcome{Kind: breaker.Failure})
	if err := r.Acquire(key, &p); err == nil {
		t.Fatal("a call was admitted to an open circuit")
	}
	breaker.Sweep(r)
	<-called
	r.Start()
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, _ := r.Circuit(key)
	if diff := cmp.Diff(breaker.HalfOpen, s.State); diff != "" {
		t.Error(diff)
	}
}
