package main

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

func TestSettingsOfEveryRoundAreValid(t *testing.T) {
	t.Parallel()
	if err := checkSettings(200); err != nil {
		t.Error(err)
	}
}

func TestSlotsOfAnEpisodeAreCountedByGeneration(t *testing.T) {
	t.Parallel()
	var e episodes
	var got []int
	take := func(generation uint64) { got = append(got, e.take(generation)) }
	take(7)
	take(7)
	e.giveBack(7)
	take(7)
	take(9)
	take(7)
	e.giveBack(8) // of an episode that never was
	take(9)
	if diff := cmp.Diff([]int{1, 2, 2, 1, 3, 2}, got); diff != "" {
		t.Errorf("slots taken (-want +got):\n%s", diff)
	}
}

func TestOneProbeTooManyBreaksAPromise(t *testing.T) {
	t.Parallel()
	s := newSoak(&soakCmd{Keys: 100, Workers: 1})
	s.registry = s.open()
	k := s.keys[0] // of one slot
	open(t, s.registry, k.name)
	if _, err := s.registry.Command(t.Context(), k.name, breaker.Command{Action: breaker.ActionHalfOpen}); err != nil {
		t.Fatal(err)
	}
	probe := &call{key: k, permit: new(breaker.Permit)}
	if !s.workers[0].acquire(probe) || !probe.permit.Probe() {
		t.Fatal("a half-open circuit admitted no probe")
	}
	if times, first := s.of(probing); times != 0 {
		t.Fatalf("the first probe broke the promise: %s", first)
	}
	s.workers[0].admitted(probe) // as if the breaker had given the same slot again
	if times, _ := s.of(probing); times != 1 {
		t.Errorf("broken %d times by a second probe, want once", times)
	}
}

func open(t *testing.T, r *breaker.Registry, key string) {
	t.Helper()
	var p breaker.Permit
	if err := r.Acquire(key, &p); err != nil {
		t.Fatal(err)
	}
	p.Done(breaker.Outcome{Kind: breaker.Failure, OpenFor: time.Second})
}

func TestWhatAPersonSaidIsHeldAgainstTheBreaker(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		said     uint64
		changed  bool
		admitted bool
		want     int
	}{
		{"forced open and refused", refuseAll, false, false, 0},
		{"forced open and admitted", refuseAll, false, true, 1},
		{"forced open and admitted when something else was said meanwhile", refuseAll, true, true, 0},
		{"disabled and admitted", admitAll, false, true, 0},
		{"disabled and refused", admitAll, false, false, 1},
		{"nothing said", undecided, false, false, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newSoak(&soakCmd{Keys: 100, Workers: 1})
			k := s.keys[0]
			k.decide(row.said)
			before := k.decree.Load()
			if row.changed {
				k.decide(row.said)
			}
			s.judgeDecree(k, before, row.admitted)
			if got, _ := s.of(obeyed); got != row.want {
				t.Errorf("broken %d times, want %d", got, row.want)
			}
		})
	}
}

func TestRefusalsAreJudged(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		err  error
		bad  bool
	}{
		{"open", &breaker.Refusal{Key: "k", State: breaker.Open, RetryAfter: time.Second}, false},
		{"forced open for good", &breaker.Refusal{Key: "k", State: breaker.ForcedOpen}, false},
		{"forced open for a time", &breaker.Refusal{Key: "k", State: breaker.ForcedOpen, RetryAfter: 2 * time.Second}, false},
		{"probing", &breaker.Refusal{Key: "k", State: breaker.HalfOpen, RetryAfter: 5 * time.Second}, false},
		{"no wait", &breaker.Refusal{Key: "k", State: breaker.Open}, true},
		{"a negative wait", &breaker.Refusal{Key: "k", State: breaker.ForcedOpen, RetryAfter: -time.Second}, true},
		{"half a second", &breaker.Refusal{Key: "k", State: breaker.Open, RetryAfter: 1500 * time.Millisecond}, true},
		{"longer than it can be", &breaker.Refusal{Key: "k", State: breaker.Open, RetryAfter: time.Minute}, true},
		{"closed", &breaker.Refusal{Key: "k", State: breaker.Closed, RetryAfter: time.Second}, true},
		{"another key", &breaker.Refusal{Key: "l", State: breaker.Open, RetryAfter: time.Second}, true},
		{"another error", errors.New("no"), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if fault := faultOfRefusal("k", row.err); (fault != "") != row.bad {
				t.Errorf("got the fault %q, want one: %v", fault, row.bad)
			}
		})
	}
}

func TestAWaitThatEndsTooEarlyIsNoticed(t *testing.T) {
	t.Parallel()
	const at = 10 * time.Second
	var p promised
	got := []time.Duration{
		p.come(2, at, at, time.Second),
		p.come(2, at+time.Second, at+time.Second, 2*time.Second), // not after the wait
		p.come(2, at+2*time.Second, at+2*time.Second, time.Second),
		p.come(4, at+9*time.Second, at+9*time.Second, time.Second), // another opening
	}
	if diff := cmp.Diff([]time.Duration{0, 0, time.Second, 0}, got); diff != "" {
		t.Errorf("too early by (-want +got):\n%s", diff)
	}
}

func TestSnapshotsAreJudged(t *testing.T) {
	t.Parallel()
	tooMuch := 1.5
	for _, row := range []struct {
		name        string
		before, now breaker.Snapshot
		grows, bad  bool
	}{
		{"well", breaker.Snapshot{Stale: 1}, breaker.Snapshot{Calls: 2, Failures: 2, Slow: 1, Stale: 1}, true, false},
		{"more failures than calls", breaker.Snapshot{}, breaker.Snapshot{Calls: 1, Failures: 2}, true, true},
		{"more slow calls than calls", breaker.Snapshot{}, breaker.Snapshot{Calls: 1, Slow: 2}, true, true},
		{"a rate above all", breaker.Snapshot{}, breaker.Snapshot{FailureRate: &tooMuch}, true, true},
		{"more verdicts than probes", breaker.Snapshot{}, breaker.Snapshot{Probes: 1, ProbeSuccesses: 1, ProbeFailures: 1}, true, true},
		{"a total that fell", breaker.Snapshot{Stale: 2}, breaker.Snapshot{Stale: 1}, true, true},
		{"a total of a circuit made anew", breaker.Snapshot{Stale: 2}, breaker.Snapshot{Stale: 1}, false, false},
		{"open for too long", breaker.Snapshot{}, breaker.Snapshot{RetryAfter: time.Hour}, true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if fault := faultOfSnapshot(row.before, row.now, row.grows); (fault != "") != row.bad {
				t.Errorf("got the fault %q, want one: %v", fault, row.bad)
			}
		})
	}
}

func TestCountsAreComparedWithWhatCallersSaw(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		now  breaker.Snapshot
		bad  bool
	}{
		{"equal", breaker.Snapshot{Rejected: 3, Stale: 5}, false},
		{"and those that nobody was told of", breaker.Snapshot{Rejected: 3, Stale: 7}, false},
		{"one refusal less", breaker.Snapshot{Rejected: 2, Stale: 5}, true},
		{"one refusal more", breaker.Snapshot{Rejected: 4, Stale: 5}, true},
		{"one stale end more", breaker.Snapshot{Rejected: 3, Stale: 8}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var s seen
			s.refused.Store(3)
			s.stale.Store(5)
			s.untold.Store(2)
			if fault := faultOfCounts(&s, row.now); (fault != "") != row.bad {
				t.Errorf("got the fault %q, want one: %v", fault, row.bad)
			}
		})
	}
}
