package breaker_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// C74: what one replica finds holds for another.
func TestOpeningHoldsForTheOtherReplica(t *testing.T) {
	t.Parallel()
	c := gather(t, 2, sharedWith(func(s *breaker.Settings) { s.FailureThreshold, s.HalfOpenCalls, s.SuccessThreshold = 6, 3, 3 }))
	a, b := c.nodes[0], c.nodes[1]
	a.play("F/5 closed F open")
	c.beat()
	c.same(key)
	b.play("open x +29s x +1s eligible S half_open")
	a.play("S half_open")
	b.play("S closed")
	c.beat()
	c.same(key)
	a.play("closed F/3")
	c.ask()
	b.play("closed c=3 F/3 open")
	c.beat()
	c.same(key)
	a.play("open x")
}

// C76: replicas that were made at other times count in the same buckets.
func TestReplicasCountInTheSameBuckets(t *testing.T) {
	t.Parallel()
	c := gather(t, 2, sharedWith(func(s *breaker.Settings) { s.FailureThreshold = 0 }))
	c.nodes[0].play("+100ms SF")
	late := c.join(sharedWith(func(s *breaker.Settings) { s.FailureThreshold = 0 }))
	c.meet(key)
	c.nodes[1].play("+2700ms S")
	c.ask()
	late.play("+300ms SF")
	c.ask()
	late.play("+4s S")
	c.ask()
	if got := c.same(key); got.Calls != 6 || got.Failures != 2 {
		t.Errorf("the window shows %d calls, %d failures; want 6 and 2", got.Calls, got.Failures)
	}
	seen := map[uint64]bool{}
	for range 80 {
		late.advance(500 * time.Millisecond)
		seen[c.same(key).Calls] = true
	}
	for _, n := range []uint64{6, 3, 1, 0} {
		if !seen[n] {
			t.Errorf("the window never showed %d calls while it passed", n)
		}
	}
}

// X05: the clock of the store is set back, as by one that takes its place.
func TestClockOfTheStoreThatIsSetBackKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	for _, back := range []time.Duration{10 * time.Second, time.Hour} {
		t.Run("while open "+back.String(), func(t *testing.T) {
			t.Parallel()
			c := gather(t, 2, sharedWith(nil))
			c.nodes[0].play("F/5 open +15s")
			c.beat()
			c.set.Add(-int64(back))
			late := c.join(sharedWith(nil)) // knows only what the store says
			late.play("E")
			c.beat()
			if wait := late.snapshot().RetryAfter; wait <= 0 || wait > 30*time.Second {
				t.Errorf("it is open for %v, want up to 30s", wait)
			}
			late.play("x +30s eligible S closed")
			c.beat()
			c.same(key)
			c.all("closed")
		})
		t.Run("while closed "+back.String(), func(t *testing.T) {
			t.Parallel()
			c := gather(t, 2, sharedWith(func(s *breaker.Settings) { s.FailureThreshold = 0 }))
			c.nodes[0].play("F/6")
			c.set.Add(-int64(back))
			c.nodes[1].play("F/3")
			c.ask()
			if got := c.same(key); got.Failures != 9 {
				t.Errorf("%d failures, want 9: those of the future are those of now", got.Failures)
			}
			c.nodes[0].play("F open by=failure_rate")
			c.beat()
			c.same(key)
		})
		t.Run("while probing "+back.String(), func(t *testing.T) {
			t.Parallel()
			c := gather(t, 2, sharedWith(nil))
			c.nodes[0].play("F/5 +30s a1")
			c.beat()
			c.set.Add(-int64(back))
			c.nodes[1].play("x +30s x open +30s eligible") // the lease lasts no longer than a lease
			c.nodes[0].play("S1 stale=1")
		})
	}
}

// X07: a store that is dead.
func TestReplicaGoesOnByItselfAndConverges(t *testing.T) {
	t.Parallel()
	c := gather(t, 2, sharedWith(nil))
	a, b := c.nodes[0], c.nodes[1]
	a.play("F/5 open")
	c.beat()
	c.server.Kill()
	c.beat()
	for _, word := range strings.Fields("open x +29s x +1s eligible S closed F/5 open x") { // by what it knew, and then by itself
		if err := b.step(word); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
	}
	a.play("eligible")
	c.server.Restart()
	until(t, storeSlack, "both are back at the store", func() bool {
		b.advance(10 * time.Millisecond)
		c.beat()
		one, _ := a.Shared()
		other, _ := b.Shared()
		return !one.Degraded && !other.Degraded
	})
	c.beat()
	c.same(key)
	c.all("open")
}

// X17: how long an opening lasts is drawn once for all (R30).
func TestReplicasOpenForTheSameTime(t *testing.T) {
	t.Parallel()
	const d = 10 * time.Second
	c := gather(t, 3, sharedWith(func(s *breaker.Settings) {
		s.FailureThreshold, s.Cooldown, s.MaxCooldown, s.CooldownMultiplier, s.CooldownJitter = 1, d, d, 1, 0.25
	}), func(cfg *breaker.Config) { cfg.Jitter = rand.Float64 })
	var all []time.Duration
	for i := range 1000 {
		c.nodes[i%3].play("F")
		for _, g := range c.nodes {
			breaker.Beat(g.Registry)
		}
		all = append(all, c.same(key).RetryAfter)
		c.nodes[i%3].play("open !close")
		for _, g := range c.nodes {
			breaker.Beat(g.Registry)
		}
		c.all("closed")
	}
	least, most := slices.Min(all), slices.Max(all)
	if least < d || most > d+d/4 || most-least < d/5 {
		t.Errorf("openings last from %v to %v; want them spread from %v to %v", least, most, d, d+d/4)
	}
}

// T24: a circuit whose record is lost reads closed, and replicas count together
// again.
func TestLostRecordReadsClosed(t *testing.T) {
	t.Parallel()
	c := gather(t, 2, sharedWith(nil))
	c.nodes[0].play("F/5 open")
	c.beat()
	was := c.same(key).Generation
	c.server.FlushAll()
	c.beat()
	c.all("closed c=0 n=0 S")
	c.ask()
	if now := c.same(key).Generation; now == was {
		t.Error("the circuit is in the generation that was lost")
	}
	c.nodes[0].play("F/2")
	c.ask()
	c.nodes[1].play("c=2 F/3 open")
	c.beat()
	c.same(key)
}

// A record that begins anew is news, also to a replica that did not notice the
// loss of one that had been written more often.
func TestRecordThatBeginsAnewIsNews(t *testing.T) {
	t.Parallel()
	for _, mode := range []breaker.Mode{breaker.Cached, breaker.Strict} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			c := gather(t, 2, sharedWith(func(s *breaker.Settings) { s.Store = mode }))
			for range 20 {
				c.nodes[0].play("S")
				c.nodes[1].play("S")
			}
			c.server.FlushAll()
			c.nodes[0].play("F/5 open")
			c.beat()
			c.all("open")
			c.same(key)
		})
	}
}

// awkward are keys of any bytes (C79).
var awkward = []string{
	"", "{", "}", "{}", "}{", "{a}b", "cb:{1}:open", "open", "a/b/{c}", "a\x00b", "\x00", "\xff\xfe\x80", "a b\r\nc", "é漢🌊",
	`"'\$(`, "%s%d", strings.Repeat("k", 1024), strings.Repeat("\x00{}", 341),
}

// C79: keys are apart whatever bytes they hold.
func TestKeysOfAnyBytesAreShared(t *testing.T) {
	t.Parallel()
	c := gather(t, 2, sharedWith(func(s *breaker.Settings) { s.FailureThreshold = 2 }))
	for _, k := range awkward {
		c.meet(k)
	}
	for i, k := range awkward {
		failTwice(t, c.nodes[0], k)
		c.beat()
		for j, other := range awkward {
			want := breaker.Closed
			if j <= i {
				want = breaker.Open
			}
			if got := c.same(other); got.State != want {
				t.Fatalf("with %q open, %q is %s, want %s", k, other, got.State, want)
			}
		}
	}
	for _, k := range c.server.Keys() {
		if c.server.TTL(k) <= 0 {
			t.Errorf("%q would stay for ever", k)
		}
	}
}

func failTwice(t *testing.T, g *rig, key string) {
	t.Helper()
	for range 2 {
		var p breaker.Permit
		if err := g.Acquire(key, &p); err != nil {
			t.Fatal(err)
		}
		p.Done(breaker.Outcome{Kind: breaker.Failure, Cause: key})
	}
}

// RED-03: whatever state a circuit is in, nothing stays for ever, and no record
// goes before what it guards.
func TestEveryKeyExpires(t *testing.T) {
	t.Parallel()
	c := gather(t, 2, sharedWith(nil))
	for _, row := range []struct {
		script string
		least  time.Duration
	}{
		{"SFS closed", time.Minute},
		{"F/5 open", 30 * time.Second},
		{"+30s a1 half_open", 2*time.Minute + 30*time.Second},
		{"S1 closed", 2 * time.Minute},
		{"F(50m) open by=retry_after", 50 * time.Minute},
		{"!open forced_open", 59 * time.Minute},
		{"!disable disabled", 59 * time.Minute},
		{"!shadow shadow FFFFF", 59 * time.Minute},
		{"!reset closed S", time.Minute},
	} {
		c.nodes[0].play(row.script)
		c.ask()
		c.same(key)
		keys := c.server.Keys()
		if len(keys) == 0 {
			t.Errorf("after %q the store holds nothing", row.script)
		}
		for _, k := range keys {
			if ttl := c.server.TTL(k); ttl < row.least-patient {
				t.Errorf("after %q: %s is kept for %v, want %v at least", row.script, k, ttl, row.least)
			}
		}
	}
}

// A circuit that has just begun to count gives the others a moment to tell of
// their successes, which they do only now and then.
func TestYoungWindowWaitsForTheSuccessesOfOthers(t *testing.T) {
	t.Parallel()
	c := gather(t, 2, sharedWith(func(s *breaker.Settings) { s.FailureThreshold = 0 }))
	if err := c.nodes[1].step("S/200"); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := c.nodes[0].step("F"); err != nil {
			break // it is open here until the others have spoken
		}
	}
	c.beat()
	c.nodes[0].advance(30 * time.Millisecond)
	c.ask()
	if got := c.same(key); got.State != breaker.Closed || got.Calls != 210 {
		t.Errorf("it is %s with %d calls, want closed with 210", got.State, got.Calls)
	}
	c.all("S")
}

// And it opens when they have nothing to say, or not enough.
func TestYoungCircuitOpensWhenTheOthersCannotHelp(t *testing.T) {
	t.Parallel()
	for _, others := range []string{"S", "F", "S/9"} {
		t.Run(others, func(t *testing.T) {
			t.Parallel()
			c := gather(t, 2, sharedWith(func(s *breaker.Settings) { s.FailureThreshold = 0 }))
			for i, word := range []string{"F/10", others} {
				if err := c.nodes[i].step(word); err != nil {
					t.Fatal(err)
				}
			}
			c.beat()
			c.nodes[0].advance(30 * time.Millisecond)
			c.ask()
			c.beat()
			if got := c.same(key); got.State != breaker.Open || got.Reason != breaker.ReasonFailureRate {
				t.Errorf("it is %s by %q, want open by its rate", got.State, got.Reason)
			}
		})
	}
}
