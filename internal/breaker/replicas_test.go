package breaker_test

import (
	"cmp"
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/breaker/replicatest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// long runs the tests of many processes at their full length.
var long = flag.Bool("long", false, "run the tests of many replicas at their full length")

// patient is a time-out of the store that a busy machine keeps; unhurried is one
// for processes that stand still meanwhile.
const (
	patient   = 10 * time.Second
	unhurried = time.Minute
)

// fleet is replicas, each a process, on one real store.
type fleet struct {
	t        *testing.T
	store    *redistest.Server
	replicas []*replicatest.Replica
}

// launch starts replicas, which end with the test.
func launch(t *testing.T, n int, cfg replicatest.Config) *fleet {
	t.Helper()
	if err := cfg.Settings.Validate(); err != nil {
		t.Fatalf("the settings of the test are invalid: %v", err)
	}
	f := &fleet{t: t, store: redistest.Start(t)}
	cfg.URL = f.store.URL()
	for range n {
		r, err := replicatest.Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Kill)
		f.replicas = append(f.replicas, r)
	}
	return f
}

// quick are settings whose episodes are over in a moment, of circuits that are
// shared.
func quick(change func(*breaker.Settings)) breaker.Settings {
	return with(func(s *breaker.Settings) {
		s.Store, s.FailureThreshold, s.FailureRate = breaker.Cached, 1, 0
		s.Cooldown, s.MaxCooldown, s.CooldownMultiplier, s.CooldownJitter = 5*time.Millisecond, 5*time.Millisecond, 1, 0.25
		s.MaxHalfOpen, s.Lease = time.Minute, time.Minute
		change(s)
	})
}

// each asks all replicas at once.
func (f *fleet) each(do func(i int, r *replicatest.Replica) error) {
	f.t.Helper()
	var all sync.WaitGroup
	for i, r := range f.replicas {
		all.Go(func() {
			if err := do(i, r); err != nil {
				f.t.Errorf("replica %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if f.t.Failed() {
		f.t.FailNow()
	}
}

func (f *fleet) load(l replicatest.Load) {
	f.t.Helper()
	f.each(func(_ int, r *replicatest.Replica) error { return r.Load(l) })
}

// rest ends the load and joins what came of it; faults fail the test.
func (f *fleet) rest() []replicatest.Tally {
	f.t.Helper()
	all := make([]replicatest.Tally, len(f.replicas))
	f.each(func(i int, r *replicatest.Replica) (err error) {
		all[i], err = r.Rest()
		return err
	})
	for i, tally := range all {
		for _, fault := range tally.Faults {
			f.t.Errorf("replica %d: %s", i, fault)
		}
	}
	return all
}

// tellings are the events of all replicas in the order of their generations: all
// there will ever be, for the circuits are stopped first.
func (f *fleet) tellings() []replicatest.Told {
	f.t.Helper()
	all := make([][]replicatest.Told, len(f.replicas))
	f.each(func(i int, r *replicatest.Replica) (err error) {
		all[i], err = r.Finish()
		return err
	})
	return inOrder(slices.Concat(all...))
}

// stop ends all replicas in order; what their race detectors found fails the
// test.
func (f *fleet) stop() {
	f.t.Helper()
	f.each(func(_ int, r *replicatest.Replica) error { return r.Stop() })
}

// meet makes all replicas use a circuit, so that they follow it.
func (f *fleet) meet(key string) {
	f.t.Helper()
	f.each(func(_ int, r *replicatest.Replica) error {
		g, err := r.Acquire(key, "meeting")
		if err == nil && g.Refusal == nil {
			_, err = r.Done("meeting", breaker.Outcome{Kind: breaker.Neutral})
		}
		return err
	})
}

// circuits are how all see one.
func (f *fleet) circuits(key string) []breaker.Snapshot {
	f.t.Helper()
	all := make([]breaker.Snapshot, len(f.replicas))
	f.each(func(i int, r *replicatest.Replica) (err error) {
		all[i], err = r.Circuit(key)
		return err
	})
	return all
}

// until polls until it is so, and returns how long that took.
func until(t *testing.T, limit time.Duration, what string, so func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		if time.Since(began) > limit {
			t.Fatalf("after %v not yet: %s", limit, what)
		}
		<-tick.C
	}
	return time.Since(began)
}

// agree reports whether all see the circuit in the same generation and the state.
func agree(all []breaker.Snapshot, s breaker.State) bool {
	for _, one := range all {
		if one.State != s || one.Generation != all[0].Generation {
			return false
		}
	}
	return true
}

// serve starts an upstream that ends with the test.
func serve(t *testing.T, answer func(replicatest.Call) bool) string {
	t.Helper()
	u, err := replicatest.Serve(answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u.Addr()
}

// inOrder sorts events by their generations.
func inOrder(all []replicatest.Told) []replicatest.Told {
	slices.SortStableFunc(all, func(a, b replicatest.Told) int { return cmp.Compare(a.Generation, b.Generation) })
	return all
}

// lines are events as one line each.
func lines(all []replicatest.Told) (lines []string) {
	for _, e := range all {
		lines = append(lines, e.From.String()+" "+e.To.String()+" "+e.Reason)
	}
	return lines
}

func sum(all []replicatest.Tally, of func(replicatest.Tally) uint64) (n uint64) {
	for _, one := range all {
		n += of(one)
	}
	return n
}
