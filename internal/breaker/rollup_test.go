package breaker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

const family = "alpha/@rollup/all"

// group is a rig in which all keys of one provider belong together.
func group(t *testing.T, change func(*breaker.Settings)) *rig {
	t.Helper()
	g := setup(t, with(func(s *breaker.Settings) { s.FailureThreshold = 1; change(s) }))
	g.remake(func(c *breaker.Config) {
		c.Group = func(key string) string {
			if strings.HasPrefix(key, "alpha/") {
				return family
			}
			return ""
		}
		c.Siblings = func(key string) [][]string {
			return [][]string{{"alpha/m1/r1", "alpha/m2/r1", "alpha/m3/r1", "alpha/m4/r1"}}
		}
	})
	return g
}

// ends makes one call and returns what refused it.
func (g *rig) ends(key string, kind breaker.Kind) string {
	g.t.Helper()
	var p breaker.Permit
	if err := g.Acquire(key, &p); err != nil {
		return err.(*breaker.Refusal).Reason
	}
	p.Done(breaker.Outcome{Kind: kind})
	return ""
}

// R40: when most of a group are open, the rest is spared, until they may be
// probed.
func TestRollup(t *testing.T) {
	t.Parallel()
	g := group(t, func(s *breaker.Settings) { s.Rollup = breaker.Rollup{Percent: 75, MinOpen: 3} })
	well := func(want string) {
		t.Helper()
		breaker.Sweep(g.Registry)
		if got := g.ends("alpha/m4/r1", breaker.Success); got != want {
			t.Errorf("a call to the one that is well: refused by %q, want %q", got, want)
		}
		if got := g.ends("beta/m1/r1", breaker.Success); got != "" {
			t.Errorf("a call to another group is refused by %q", got)
		}
	}
	well("")
	g.ends("alpha/m1/r1", breaker.Failure)
	g.ends("alpha/m2/r1", breaker.Failure)
	well("") // two are no crowd
	g.ends("alpha/m3/r1", breaker.Failure)
	well(breaker.ReasonRollup)
	s, ok := g.Circuit(family)
	if !ok || s.State != breaker.Open || s.Failures != 3 || s.Calls != 4 || s.RetryAfter != 30*time.Second {
		t.Errorf("the group is %+v", s)
	}
	g.advance(29 * time.Second)
	well(breaker.ReasonRollup)
	g.advance(time.Second)
	well("")
	if s, _ := g.Circuit(family); s.State != breaker.Closed {
		t.Errorf("the group is %v", s.State)
	}
}

// R40: a few that are idle do not make a crowd of those that are in use.
func TestRollupCountsCircuitsInUse(t *testing.T) {
	t.Parallel()
	g := group(t, func(s *breaker.Settings) { s.Rollup = breaker.Rollup{Percent: 100, MinOpen: 2} })
	g.ends("alpha/m4/r1", breaker.Success)
	g.advance(10 * time.Minute) // forgotten
	g.ends("alpha/m1/r1", breaker.Failure)
	g.ends("alpha/m2/r1", breaker.Failure)
	breaker.Sweep(g.Registry)
	if got := g.ends("alpha/m4/r1", breaker.Success); got != breaker.ReasonRollup {
		t.Errorf("refused by %q, want rollup", got)
	}
}

func TestRollupIsTold(t *testing.T) {
	t.Parallel()
	g := group(t, func(s *breaker.Settings) { s.Rollup = breaker.Rollup{Percent: 50, MinOpen: 2} })
	var told []string
	g.remake(func(c *breaker.Config) {
		c.OnEvent = func(e breaker.Event) {
			if e.Key == family {
				told = append(told, e.From.String()+" "+e.To.String()+" "+e.Reason)
			}
		}
	})
	g.ends("alpha/m1/r1", breaker.Failure)
	g.ends("alpha/m2/r1", breaker.Failure)
	breaker.Sweep(g.Registry)
	g.advance(time.Minute)
	breaker.Sweep(g.Registry)
	g.Start()
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"closed open rollup", "open closed rollup"}, told); diff != "" {
		t.Error(diff)
	}
}

// R40: of four siblings only two may be open; a third that fails goes on, for one
// that fails is better than none, but a hint is obeyed.
func TestMaxOpenPercent(t *testing.T) {
	t.Parallel()
	g := group(t, func(s *breaker.Settings) { s.MaxOpenPercent = 50 })
	open := func(key string) bool {
		s, _ := g.Circuit(key)
		return s.State == breaker.Open
	}
	for _, key := range []string{"alpha/m1/r1", "alpha/m2/r1", "alpha/m3/r1"} {
		g.ends(key, breaker.Failure)
	}
	if !open("alpha/m1/r1") || !open("alpha/m2/r1") || open("alpha/m3/r1") {
		t.Error("it is not the first two of three that are open")
	}
	g.advance(30 * time.Second)
	g.ends("alpha/m1/r1", breaker.Success) // recovers
	g.ends("alpha/m3/r1", breaker.Failure)
	if !open("alpha/m3/r1") {
		t.Error("the third is not open though there is room")
	}
	var p breaker.Permit
	if err := g.Acquire("alpha/m4/r1", &p); err != nil {
		t.Fatal(err)
	}
	p.Done(breaker.Outcome{Kind: breaker.Failure, OpenFor: time.Minute})
	if !open("alpha/m4/r1") {
		t.Error("a hint is not obeyed")
	}
}
