package breaker_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// R10, BRK-05: however many callers come at once, an episode hands out exactly
// its slots, over many episodes.
func TestExactlyNProbesPerEpisode(t *testing.T) {
	t.Parallel()
	const callers, episodes = 64, 300
	for _, n := range []int{1, 3} {
		g := setup(t, with(halfOpen(n, n)))
		g.play("F open")
		for episode := range episodes {
			g.now.Add(int64(g.snapshot().RetryAfter))
			probes := g.storm(callers)
			if len(probes) != n {
				t.Fatalf("episode %d of %d slots: %d probes", episode, n, len(probes))
			}
			for i, p := range probes {
				if !p.Probe() || p.State() != breaker.HalfOpen {
					t.Fatalf("episode %d: call %d was admitted without being a probe", episode, i)
				}
			}
			probes[episode%n].Done(outcome('F'))
			g.play("open")
		}
		if s := g.snapshot(); s.Probes != uint64(n*episodes) || s.Rejected != uint64((callers-n)*episodes) {
			t.Errorf("%d slots: %d probes and %d rejected, want %d and %d", n, s.Probes, s.Rejected, n*episodes, (callers-n)*episodes)
		}
	}
}

// storm lets many callers ask at the same time and returns the permits given.
func (g *rig) storm(callers int) []*breaker.Permit {
	var (
		mu    sync.Mutex
		given []*breaker.Permit
		wg    sync.WaitGroup
		start = make(chan struct{})
	)
	for range callers {
		wg.Go(func() {
			<-start
			p := &breaker.Permit{}
			if g.Acquire(key, p) == nil {
				mu.Lock()
				given = append(given, p)
				mu.Unlock()
			}
		})
	}
	close(start)
	wg.Wait()
	return given
}

// C70, C107: everything at once is free of races, and what was settled adds up.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	const workers, each = 12, 400
	s := with(func(s *breaker.Settings) { s.FailureThreshold, s.Cooldown, s.HalfOpenCalls = 3, time.Microsecond, 2 })
	r := breaker.New(breaker.Config{Settings: always(s), OnEvent: func(breaker.Event) {}})
	r.Start()
	var settled [4]atomic.Uint64
	var second atomic.Uint64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				var p breaker.Permit
				if r.Acquire(key, &p) != nil {
					continue
				}
				p.Within(time.Second)
				if i%5 == 0 {
					p.FirstToken()
				}
				o := outcome("SFE"[(i+w)%3])
				var twice sync.WaitGroup
				for range 2 {
					twice.Go(func() {
						got := p.Done(o)
						settled[got].Add(1)
						if got == breaker.Ignored {
							second.Add(1)
						}
					})
				}
				twice.Wait()
				switch i % 50 {
				case 0:
					r.Circuits()
				case 1:
					r.Reconfigure(always(s))
				}
			}
		})
	}
	wg.Wait()
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, _ := r.Circuit(key)
	if got.DoubleDone != second.Load() || got.Stale != settled[breaker.Stale].Load() {
		t.Errorf("double %d, stale %d; want %d, %d", got.DoubleDone, got.Stale, second.Load(), settled[breaker.Stale].Load())
	}
	if first := settled[breaker.Applied].Load() + settled[breaker.Stale].Load() + settled[breaker.Expired].Load(); first != second.Load() {
		t.Errorf("%d first Dones and %d second ones", first, second.Load())
	}
}

// R1: the closed path allocates nothing.
func TestClosedPathAllocatesNothing(t *testing.T) {
	g := setup(t, defaults())
	g.acquire()
	for name, o := range map[string]breaker.Outcome{"success": outcome('S'), "neutral": outcome('E')} {
		if got := testing.AllocsPerRun(1000, func() {
			var p breaker.Permit
			if g.Acquire(key, &p) == nil {
				p.FirstToken()
				p.Within(time.Minute)
				p.Done(o)
			}
		}); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
