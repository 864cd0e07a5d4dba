package breaker_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/breaker/replicatest"
)

// sick is an upstream whose ordinary calls all fail, so that a circuit is never
// closed for long. It answers no probe before all of the episode are there, and
// then waits a moment for one too many.
type sick struct {
	slots    int
	linger   time.Duration
	enough   int           // episodes
	finished chan struct{} // closed when there were enough

	mu       sync.Mutex
	episodes map[uint64]*stay
	live     int
	most     int // probes at once
	complete int
}

// stay is one episode as the upstream sees it.
type stay struct {
	probes   int
	number   int
	together chan struct{} // closed when all are there
}

func newSick(slots, enough int) *sick {
	return &sick{slots: slots, linger: 3 * time.Millisecond, enough: enough, finished: make(chan struct{}), episodes: map[uint64]*stay{}}
}

// answer lets every other episode succeed.
func (u *sick) answer(c replicatest.Call) bool {
	if !c.Probe {
		return false
	}
	e := u.arrive(c.Generation)
	select {
	case <-e.together:
		<-time.After(u.linger)
	case <-u.finished: // the callers rest; the others will not come
	}
	u.leave()
	return e.number%2 == 0
}

func (u *sick) arrive(generation uint64) *stay {
	u.mu.Lock()
	defer u.mu.Unlock()
	e := u.episodes[generation]
	if e == nil {
		e = &stay{number: len(u.episodes), together: make(chan struct{})}
		u.episodes[generation] = e
	}
	u.live++
	u.most = max(u.most, u.live)
	if e.probes++; e.probes == u.slots {
		close(e.together)
		if u.complete++; u.complete == u.enough {
			close(u.finished)
		}
	}
	return e
}

func (u *sick) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.live--
}

func (u *sick) completed() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.complete
}

// judge holds the episodes to their number of probes; the last one may have been
// cut short.
func (u *sick) judge(t *testing.T) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	for generation, e := range u.episodes {
		if e.probes > u.slots || e.probes < u.slots && e.number < u.enough {
			t.Errorf("episode %d (generation %d) got %d probes, want exactly %d", e.number, generation, e.probes, u.slots)
		}
	}
	if u.most > u.slots {
		t.Errorf("at once there were %d probes, want at most %d", u.most, u.slots)
	}
}

// TestEpisodeOfManyReplicasGetsExactlyItsProbes: 64 callers in 8 processes on one
// store (R10, T6, T10, T11).
func TestEpisodeOfManyReplicasGetsExactlyItsProbes(t *testing.T) {
	t.Parallel()
	episodes := 100
	if *long {
		episodes = 1000
	}
	for _, row := range []struct {
		slots, successes int
		mode             breaker.Mode
	}{{1, 1, breaker.Cached}, {3, 2, breaker.Cached}, {3, 3, breaker.Strict}} {
		t.Run(fmt.Sprintf("%d slots, mode %d", row.slots, row.mode), func(t *testing.T) {
			f := launch(t, 8, replicatest.Config{StoreTimeout: unhurried, Settings: quick(func(s *breaker.Settings) {
				s.HalfOpenCalls, s.SuccessThreshold, s.Store = row.slots, row.successes, row.mode
			})})
			u := newSick(row.slots, episodes)
			began := time.Now()
			f.load(replicatest.Load{Key: key, Callers: 8, Upstream: serve(t, u.answer), Pause: 4 * time.Millisecond})
			select {
			case <-u.finished:
			case <-time.After(4 * time.Minute):
				t.Fatalf("only %d episodes after %v", u.completed(), time.Since(began))
			}
			took := time.Since(began)
			all := f.rest()
			u.judge(t)
			judgeEpisodes(t, f, u, all)
			f.stop()
			t.Logf("%d episodes in %v; %d calls refused; settled %v", episodes, took.Round(time.Millisecond), sum(all, func(t replicatest.Tally) uint64 { return t.Refused }), all[0].Settled)
		})
	}
}

// judgeEpisodes holds what the replicas tell to what the upstream saw: every
// episode was told of once, by one of them.
func judgeEpisodes(t *testing.T, f *fleet, u *sick, all []replicatest.Tally) {
	t.Helper()
	told := map[uint64]int{}
	for _, e := range f.tellings() {
		if e.To == breaker.HalfOpen {
			told[e.Generation]++
		}
	}
	for generation := range u.episodes {
		if told[generation] != 1 {
			t.Errorf("episode of generation %d was told %d times, want once", generation, told[generation])
		}
	}
	probes, seen := sum(all, func(t replicatest.Tally) uint64 { return t.Probes }), 0
	for _, e := range u.episodes {
		seen += e.probes
	}
	if probes != uint64(seen) {
		t.Errorf("replicas count %d probes, the upstream %d", probes, seen)
	}
	for i, one := range all {
		if n := one.Settled["probe "+breaker.Expired.String()]; n > 0 {
			t.Errorf("replica %d: %d probes expired, though all were in time", i, n)
		}
	}
}
