package breaker_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// cluster is replicas in this process that share a real store. Time passes for
// all of them when it does for one, though their clocks do not show the same;
// that of the store can be set.
type cluster struct {
	t      *testing.T
	server *redistest.Server
	nodes  []*rig
	set    atomic.Int64 // what the store's clock was set forward by
}

func gather(t *testing.T, n int, s breaker.Settings, changes ...func(*breaker.Config)) *cluster {
	t.Helper()
	if err := s.Validate(); err != nil {
		t.Fatalf("the settings of the test are invalid: %v", err)
	}
	c := &cluster{t: t, server: redistest.Start(t)}
	for range n {
		c.join(s, changes...)
	}
	c.meet(key)
	return c
}

func (c *cluster) join(s breaker.Settings, changes ...func(*breaker.Config)) *rig {
	c.t.Helper()
	store, err := cache.OpenValkey(c.server.URL(), cache.ValkeyConfig{Timeout: time.Minute})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { store.Close() })
	ahead := time.Duration(len(c.nodes)) * 7303 * time.Millisecond
	cfg := breaker.Config{
		Settings:     always(s),
		Now:          func() time.Duration { return ahead + c.passed() },
		Jitter:       func() float64 { return 0.5 },
		Store:        store,
		StoreTimeout: time.Minute,
		StoreClock:   func() int64 { return storeEpoch + (c.passed() + time.Duration(c.set.Load())).Microseconds() },
	}
	for _, change := range changes {
		change(&cfg)
	}
	g := &rig{t: c.t, permits: map[string]*breaker.Permit{}, Registry: breaker.New(cfg)}
	c.nodes = append(c.nodes, g)
	return g
}

func (c *cluster) passed() (d time.Duration) {
	for _, g := range c.nodes {
		d += time.Duration(g.now.Load())
	}
	return d
}

// meet makes all use a circuit, so that they follow it.
func (c *cluster) meet(key string) {
	c.t.Helper()
	for _, g := range c.nodes {
		var p breaker.Permit
		if err := g.Acquire(key, &p); err != nil {
			c.t.Fatalf("a circuit that is new was not closed: %v", err)
		}
		p.Done(breaker.Outcome{Kind: breaker.Neutral})
	}
	c.beat()
}

// beat lets all tell and then all hear.
func (c *cluster) beat() {
	for range 2 {
		for _, g := range c.nodes {
			breaker.Beat(g.Registry)
		}
	}
}

// ask lets all hear also of circuits that are closed, as they do when they have
// something to tell.
func (c *cluster) ask() {
	c.beat()
	for _, g := range c.nodes {
		breaker.Ask(g.Registry)
	}
}

// all holds every replica to a script that changes nothing.
func (c *cluster) all(script string) {
	c.t.Helper()
	for _, g := range c.nodes {
		g.play(script)
	}
}

// same holds the replicas to one view of a circuit.
func (c *cluster) same(key string) breaker.Snapshot {
	c.t.Helper()
	first, _ := c.nodes[0].Circuit(key)
	for i, g := range c.nodes[1:] {
		other, _ := g.Circuit(key)
		if diff := cmp.Diff(viewOf(first), viewOf(other), cmp.AllowUnexported(view{})); diff != "" {
			c.t.Fatalf("replica %d sees %s otherwise (-replica 0 +replica %d):\n%s", i+1, key, i+1, diff)
		}
	}
	return first
}

// view is what all replicas see alike.
type view struct {
	state                 string
	generation            uint64
	reason, cause         string
	wait                  time.Duration
	calls, failures, slow uint64
	streak                int
	note, actor           string
}

func viewOf(s breaker.Snapshot) view {
	return view{
		s.State.String(), s.Generation, s.Reason, s.Cause, s.RetryAfter,
		s.Calls, s.Failures, s.Slow, s.ConsecutiveFailures, s.Note, s.Actor,
	}
}

// sharedWith are the defaults of circuits that are shared.
func sharedWith(change func(*breaker.Settings)) breaker.Settings {
	return with(func(s *breaker.Settings) {
		s.Store = breaker.Cached
		if change != nil {
			change(s)
		}
	})
}

// tagOf is the part of a key by which a cluster of servers places it.
func tagOf(key string) string {
	_, rest, open := strings.Cut(key, "{")
	tag, _, shut := strings.Cut(rest, "}")
	if !open || !shut || tag == "" {
		return key
	}
	return tag
}
