package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/breaker/replicatest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

const (
	sharedReplicas = 4
	sharedSlots    = 2
	sharedCallers  = 8 // of each replica on each key
	// calm is how long after a deed the replicas may still be finding back.
	calm = 4 * time.Second
	// storeTimeout is generous, so that the store fails only when something is
	// done to it.
	storeTimeout = time.Second
)

// sharedSoak is a soak of replicas, each a process, on one real server to which
// everything happens that can.
type sharedSoak struct {
	*soakCmd
	*breaches
	server   *redistest.Server
	replicas []*replicatest.Replica
	upstream *replicatest.Upstream

	mu        sync.Mutex
	disturbed time.Time // when the last deed ended
	sick      bool
	episodes  map[uint64]*visits
	most      int // probes of one generation
	deeds     map[string]int

	tallies  []replicatest.Tally
	shared   []breaker.SharedState
	circuit  []breaker.Snapshot
	moves    map[move]int
	recovery time.Duration
}

// visits are the probes of one generation.
type visits struct {
	first time.Time
	total int
}

func (c *soakCmd) runShared(ctx context.Context) error {
	s := &sharedSoak{soakCmd: c, breaches: newBreaches(), episodes: map[uint64]*visits{}, deeds: map[string]int{}, moves: map[move]int{}}
	if err := s.run(ctx); err != nil {
		return err
	}
	fmt.Print(s.report())
	return s.err()
}

func (s *sharedSoak) settings() breaker.Settings {
	set := settingsOf(0, s.Keys)(nameOf(0))
	set.Store = map[string]breaker.Mode{"cached": breaker.Cached, "strict": breaker.Strict}[s.Store]
	set.HalfOpenCalls, set.SuccessThreshold = sharedSlots, sharedSlots
	set.Lease, set.MaxHalfOpen = 2*time.Second, 5*time.Second
	return set
}

// run is the whole order of the soak. Everything that it starts ends with it.
func (s *sharedSoak) run(ctx context.Context) error {
	server, end := replicatest.OpenServer()
	defer end()
	s.server = server
	upstream, err := replicatest.Serve(s.answer)
	if err != nil {
		return err
	}
	defer upstream.Close()
	s.upstream = upstream
	defer s.kill()
	for range sharedReplicas {
		r, err := replicatest.Start(replicatest.Config{URL: server.URL(), StoreTimeout: storeTimeout, Settings: s.settings()})
		if err != nil {
			return err
		}
		s.replicas = append(s.replicas, r)
	}
	if err := s.load(ctx); err != nil {
		return err
	}
	return s.settle()
}

func (s *sharedSoak) kill() {
	for _, r := range s.replicas {
		r.Kill()
	}
}

// answer is the target: sick and well in turn. It holds episodes to their slots
// while nothing has happened to the store.
func (s *sharedSoak) answer(c replicatest.Call) bool {
	s.mu.Lock()
	sick := s.sick
	if c.Probe {
		s.arrive(c.Generation)
	}
	s.mu.Unlock()
	<-time.After(rand.N(4 * time.Millisecond))
	return !sick
}

func (s *sharedSoak) arrive(generation uint64) {
	v := s.episodes[generation]
	if v == nil {
		v = &visits{first: time.Now()}
		s.episodes[generation] = v
	}
	v.total++
	s.most = max(s.most, v.total)
	if v.total > sharedSlots && v.first.Sub(s.disturbed) > calm {
		s.broken(probing, "%d probes in generation %d, %v after anything had happened to the store", v.total, generation, time.Since(s.disturbed))
	}
}

// load calls, hurts the store and changes how the target is, until the time is
// up.
func (s *sharedSoak) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.For)
	defer cancel()
	for _, r := range s.replicas {
		if err := r.Load(replicatest.Load{Key: nameOf(0), Callers: sharedCallers, Upstream: s.upstream.Addr(), Pause: 4 * time.Millisecond}); err != nil {
			return err
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		every(ctx, 1500*time.Millisecond, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.sick = !s.sick
		})
	})
	all.Go(func() { s.hurt(ctx) })
	all.Wait()
	return nil
}

// hurt does something to the store every now and then, and leaves it alone for
// long enough in between to see that all is well again.
func (s *sharedSoak) hurt(ctx context.Context) {
	deeds := []struct {
		name     string
		do, undo func()
	}{
		{"killed", s.server.Kill, s.server.Restart},
		{"frozen", s.server.Freeze, s.server.Thaw},
		{"flushed", s.server.FlushAll, func() {}},
		{"without scripts", s.server.FlushScripts, func() {}},
		{"restarted", s.server.Restart, func() {}},
	}
	every(ctx, 2*calm, func() {
		d := deeds[rand.N(len(deeds))]
		s.disturb(d.name, 1)
		d.do()
		<-time.After(rand.N(3 * time.Second))
		d.undo()
		s.disturb(d.name, 0)
	})
}

func (s *sharedSoak) disturb(name string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disturbed = time.Now()
	if n > 0 {
		s.disturbed = s.disturbed.Add(time.Hour) // until it is over
	}
	s.deeds[name] += n
}

// settle lets the target be well until all replicas see the same closed circuit,
// and takes what they have counted.
func (s *sharedSoak) settle() error {
	s.mu.Lock()
	s.sick = false
	s.mu.Unlock()
	began, agreed := time.Now(), false
	for ; !agreed && time.Since(began) < 30*time.Second; <-time.After(20 * time.Millisecond) {
		var err error
		if agreed, err = s.agree(); err != nil {
			return err
		}
	}
	s.recovery = time.Since(began)
	if !agreed {
		s.broken(recovered, "the replicas do not agree after %v that it is closed: %+v", s.recovery, s.circuit)
	}
	var errs []error
	for _, r := range s.replicas {
		errs = append(errs, s.collect(r))
	}
	return errors.Join(errs...)
}

func (s *sharedSoak) agree() (bool, error) {
	s.circuit = nil
	for _, r := range s.replicas {
		c, err := r.Circuit(nameOf(0))
		if err != nil {
			return false, err
		}
		s.circuit = append(s.circuit, c)
	}
	for _, c := range s.circuit {
		if c.State != breaker.Closed || c.Generation != s.circuit[0].Generation {
			return false, nil
		}
	}
	return true, nil
}

// collect ends a replica and takes what it has seen.
func (s *sharedSoak) collect(r *replicatest.Replica) error {
	tally, err := r.Rest()
	if err != nil {
		return err
	}
	for _, fault := range tally.Faults {
		s.broken(waits, "%s", fault)
	}
	shared, err := r.Shared()
	if err != nil {
		return err
	}
	events, err := r.Events()
	if err != nil {
		return err
	}
	for _, e := range events {
		s.moves[move{e.From, e.To, e.Reason}]++
		if e.Reason != breaker.ReasonSharedState && !legal(e.Event) {
			s.broken(ordered, "%s went from %s to %s (%s): no rule moves it so", e.Key, e.From, e.To, e.Reason)
		}
	}
	s.tallies, s.shared = append(s.tallies, tally), append(s.shared, shared)
	return r.Stop()
}

func (s *sharedSoak) report() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Soaked %v in %s mode: %d replicas on one server.\n\n", s.For, s.Store, len(s.replicas))
	text.WriteString("| replica | calls | failed | refused | probes | stale | lost answers | unknown outcomes | waited to acquire | to end |\n|--:|--:|--:|--:|--:|--:|--:|--:|---|---|\n")
	for i, t := range s.tallies {
		fmt.Fprintf(&text, "| %d | %d | %d | %d | %d | %d | %d | %d | p99 %v, max %v | p99 %v, max %v |\n", i, t.Calls, t.Failures, t.Refused, t.Probes,
			t.Settled["stale"]+t.Settled["probe stale"], s.shared[i].Misses, s.shared[i].Unknown,
			t.Acquire.P99.Round(time.Microsecond), t.Acquire.Max.Round(time.Microsecond), t.Done.P99.Round(time.Microsecond), t.Done.Max.Round(time.Microsecond))
	}
	fmt.Fprintf(&text, "\n- The store was hurt: %v. %d episodes, at most %d probes in one of %d slots.\n", s.deeds, len(s.episodes), s.most, sharedSlots)
	fmt.Fprintf(&text, "- All agreed that the circuit is closed %v after its target was well.\n", s.recovery.Round(time.Millisecond))
	writeMoves(&text, s.moves)
	writePromises(&text, s.breaches, probing, waits, ordered, recovered)
	return text.String()
}
