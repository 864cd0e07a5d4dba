package breaker_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/breaker/replicatest"
)

const (
	// proberLease is longer than a busy machine takes to make all know of a probe
	// and to end the one who holds it, and than the next probe lasts there.
	proberLease = 8 * time.Second
	proberOpen  = 300 * time.Millisecond
	// proberSlack is how late a busy machine may be.
	proberSlack = time.Minute
)

// witness is a healthy upstream that remembers its probes.
type witness struct {
	holds time.Duration // how long it keeps a probe

	mu      sync.Mutex
	arrived []time.Time
	live    int
	most    int
}

func (w *witness) answer(c replicatest.Call) bool {
	if !c.Probe {
		return true
	}
	w.mu.Lock()
	w.arrived = append(w.arrived, time.Now())
	w.live++
	w.most = max(w.most, w.live)
	w.mu.Unlock()
	<-time.After(w.holds)
	w.mu.Lock()
	w.live--
	w.mu.Unlock()
	return true
}

func (w *witness) probes() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.arrived
}

// prober is a fleet whose first replica holds the only probe of an open circuit.
type prober struct {
	*fleet
	asked time.Time // not later than the lease began
}

func launchProber(t *testing.T) *prober {
	t.Helper()
	p := &prober{fleet: launch(t, 3, replicatest.Config{StoreTimeout: unhurried, Settings: quick(func(s *breaker.Settings) {
		s.Cooldown, s.MaxCooldown, s.CooldownJitter, s.Lease = proberOpen, proberOpen, 0, proberLease
	})})}
	first := p.replicas[0]
	fail(t, first, 1)
	until(t, proberSlack, "the first replica gets the probe", func() bool {
		p.asked = time.Now()
		g, err := first.Acquire(key, "probe")
		if err != nil {
			t.Fatal(err)
		}
		return g.Probe
	})
	p.meet(key)
	until(t, proberSlack, "all know of the probe", func() bool { return agree(p.circuits(key), breaker.HalfOpen) })
	return p
}

// fail makes a replica see failures in a row.
func fail(t *testing.T, r *replicatest.Replica, times int) {
	t.Helper()
	for range times {
		if g := failIfAdmitted(t, r); g.Refusal != nil {
			t.Fatalf("a call that is to fail was not admitted: %v", g.Refusal)
		}
	}
}

// failIfAdmitted makes a replica see a failure, where a call may go.
func failIfAdmitted(t *testing.T, r *replicatest.Replica) replicatest.Grant {
	t.Helper()
	g, err := r.Acquire(key, "failing")
	if err == nil && g.Refusal == nil {
		_, err = r.Done("failing", breaker.Outcome{Kind: breaker.Failure, Cause: "server_error"})
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// X03: the lease guards against a process that dies (R11, R12, T16).
func TestProbeOfAKilledReplicaIsTakenOverWhenItsLeaseIsOver(t *testing.T) {
	t.Parallel()
	p := launchProber(t)
	p.replicas[0].Kill()
	killed := time.Now()
	p.replicas = p.replicas[1:]

	w := &witness{holds: 500 * time.Millisecond}
	p.load(replicatest.Load{Key: key, Callers: 8, Upstream: serve(t, w.answer), Pause: 5 * time.Millisecond})
	until(t, proberLease+proberOpen+proberSlack, "the circuit is closed again", func() bool {
		return agree(p.circuits(key), breaker.Closed)
	})
	p.rest()

	probes := w.probes()
	if len(probes) != 1 || w.most != 1 {
		t.Fatalf("%d probes, %d at once; want one", len(probes), w.most)
	}
	if early := p.asked.Add(proberLease + proberOpen).Sub(probes[0]); early > 0 {
		t.Errorf("the next probe came %v before the lease and the open time of the killed replica's were over", early)
	}
	t.Logf("the next probe came %v after the end of lease and open time", probes[0].Sub(killed.Add(proberLease+proberOpen)).Round(time.Millisecond))
	want := []string{"half_open open probe_lost", "open half_open half_open", "half_open closed probe_success"}
	if diff := cmp.Diff(want, lines(p.tellings())); diff != "" {
		t.Errorf("what the replicas that are left tell (-want +got):\n%s", diff)
	}
	p.stop()
}

// C77: every transition is told once, by one of the replicas, in order.
func TestTransitionsOfManyReplicasAreToldOnce(t *testing.T) {
	t.Parallel()
	f := launch(t, 4, replicatest.Config{StoreTimeout: unhurried, Settings: quick(func(s *breaker.Settings) {
		s.FailureThreshold, s.Cooldown, s.MaxCooldown = 5, toldOpen, toldOpen
	})})
	f.meet(key)
	fail(t, f.replicas[0], 3)
	fail(t, f.replicas[1], 1)
	f.load(replicatest.Load{Key: key, Callers: 1, Upstream: serve(t, func(replicatest.Call) bool { return true }), Pause: 200 * time.Millisecond})
	f.rest()
	// The successes of the others are told a little later, and may end the streak
	// once more: the target goes on failing.
	until(t, proberSlack, "all see that it is open", func() bool {
		all := f.circuits(key)
		if all[2].State == breaker.Closed {
			failIfAdmitted(t, f.replicas[2])
		}
		return agree(all, breaker.Open)
	})
	w := &witness{}
	f.load(replicatest.Load{Key: key, Callers: 4, Upstream: serve(t, w.answer), Pause: 10 * time.Millisecond})
	until(t, proberSlack, "the probe has come", func() bool { return len(w.probes()) > 0 })
	until(t, proberSlack, "all see that it is closed again", func() bool { return agree(f.circuits(key), breaker.Closed) })
	f.rest()
	want := []string{"closed open consecutive", "open half_open half_open", "half_open closed probe_success"}
	if diff := cmp.Diff(want, lines(f.tellings())); diff != "" {
		t.Errorf("events of all replicas (-want +got):\n%s", diff)
	}
	f.stop()
}

// toldOpen is longer than a busy machine takes from one look at a circuit to the
// next call.
const toldOpen = 3 * time.Second

// A replica that stood still past its lease finds its verdict stale (R8, R12).
func TestVerdictOfAReplicaThatStoodStillIsStale(t *testing.T) {
	t.Parallel()
	p := launchProber(t)
	stopped, others := p.replicas[0], p.replicas[1:]
	until(t, proberSlack, "it has told of its probe", func() bool {
		told, err := stopped.Events()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(told, func(e replicatest.Told) bool { return e.To == breaker.HalfOpen })
	})
	if err := stopped.Pause(); err != nil {
		t.Fatal(err)
	}
	w := &witness{}
	p.replicas = others
	p.load(replicatest.Load{Key: key, Callers: 4, Upstream: serve(t, w.answer), Pause: 5 * time.Millisecond})
	until(t, proberLease+proberOpen+proberSlack, "the others have closed the circuit", func() bool {
		return agree(p.circuits(key), breaker.Closed)
	})
	p.rest()

	if err := stopped.Resume(); err != nil {
		t.Fatal(err)
	}
	settled, err := stopped.Done("probe", breaker.Outcome{Kind: breaker.Failure, Cause: "timeout", OpenFor: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if settled != breaker.Stale.String() {
		t.Errorf("the verdict was %s, want %s", settled, breaker.Stale)
	}
	closed := p.circuits(key)[0].Generation
	p.replicas = append(others, stopped)
	until(t, proberSlack, "all see the same", func() bool { return agree(p.circuits(key), breaker.Closed) })
	for i, c := range p.circuits(key) {
		if c.Generation != closed || c.Failures != 0 || c.ConsecutiveFailures != 0 {
			t.Errorf("replica %d: generation %d, %d failures; want %d, and none", i, c.Generation, c.Failures, closed)
		}
	}
	told, err := stopped.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if len(told) > 0 {
		t.Errorf("the replica that stood still tells %q, want nothing", lines(told))
	}
	if n := len(w.probes()); n != 1 {
		t.Errorf("%d probes after the one that was lost, want one", n)
	}
	p.stop()
}
