package breaker

import (
	"context"
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// TestAgainstNaiveModel drives a circuit, shell and all, with random calls at
// random times, and compares everything that can be seen of it with a model
// that keeps whole histories and recounts them each time.
func TestAgainstNaiveModel(t *testing.T) {
	t.Parallel()
	server, err := cache.OpenValkey(redistest.Start(t).URL(), cache.ValkeyConfig{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	memory := cache.NewMemory(cache.MemoryConfig{})
	t.Cleanup(func() { server.Close(); memory.Close() })
	t.Run("here alone", func(t *testing.T) { t.Parallel(); walkOn(t, Local, nil) })
	t.Run("in a store of this process", func(t *testing.T) { t.Parallel(); walkOn(t, Strict, memory) })
	t.Run("on a server", func(t *testing.T) { t.Parallel(); walkOn(t, Strict, server) })
}

func walkOn(t *testing.T, mode Mode, store Store) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		w := newWalk(t, mode, store)
		t.Repeat(map[string]func(*rapid.T){
			"":           w.compare,
			"acquire":    w.acquire,
			"done":       w.done,
			"call":       func(t *rapid.T) { w.acquire(t); w.done(t) },
			"fail":       func(t *rapid.T) { w.whole(t, Failure) },
			"succeed":    func(t *rapid.T) { w.whole(t, Success) },
			"firstToken": w.firstToken,
			"within":     w.within,
			"advance":    w.advance,
			"until open ends": func(t *rapid.T) {
				if w.model.state == Open {
					w.model.now = max(w.model.now, w.model.openUntil)
				}
			},
			"heartbeat": w.heartbeat,
			"command":   w.command,
			"evict":     w.evict,
		})
	})
}

// walk is the registry under test, the model, and the permits both gave.
type walk struct {
	registry *Registry
	model    *model
	permits  []pair
	told     []string
}

type pair struct {
	real  *Permit
	model *modelPermit
}

const walkKey = "a/b/c"

func newWalk(t *rapid.T, mode Mode, store Store) *walk {
	n := rapid.IntRange(1, 4).Draw(t, "half_open_calls")
	seconds := func(name string, from, to int) time.Duration {
		return time.Duration(rapid.IntRange(from, to).Draw(t, name)) * time.Second
	}
	s := Settings{
		Enabled: true, Store: mode, FailureThreshold: rapid.IntRange(0, 4).Draw(t, "failure_threshold"),
		Cooldown: seconds("cooldown", 1, 30), CooldownMultiplier: float64(rapid.IntRange(1, 3).Draw(t, "multiplier")),
		CooldownJitter: rapid.SampledFrom([]float64{0, 0.25, 1}).Draw(t, "jitter"), StepDecay: seconds("step_decay", 1, 60),
		MaxRetryAfter: seconds("max_retry_after", 5, 100), HalfOpenCalls: n, SuccessThreshold: rapid.IntRange(1, n).Draw(t, "success_threshold"),
		MaxHalfOpen: seconds("max_half_open", 1, 60), Lease: seconds("lease", 1, 30),
		MaxNeutral: rapid.IntRange(1, 4).Draw(t, "max_neutral"), IdleTTL: seconds("idle_ttl", 1, 60),
	}
	s.MaxCooldown = s.Cooldown + seconds("max_cooldown", 0, 300)
	drawRate(t, &s)
	drawSlow(t, &s)
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	w := &walk{model: newModel(s)}
	if store != nil {
		store = Apart(store)
	}
	w.registry = New(Config{
		Store: store, StoreTimeout: time.Minute,
		StoreClock: func() int64 { return walkEpoch + w.model.now.Microseconds() },
		Settings:   func(string) Settings { return s },
		OnEvent:    func(Event) {}, // taken from the outbox by hand
		Now:        func() time.Duration { return w.model.now },
		Jitter:     func() float64 { return w.model.jitter },
	})
	return w
}

// drawRate draws a rate that some circuits open by, over either kind of window.
func drawRate(t *rapid.T, s *Settings) {
	s.FailureRate = rapid.SampledFrom([]Rate{0, 250_000, 333_333, 500_000, 999_999, All}).Draw(t, "rate")
	if s.FailureThreshold == 0 && s.FailureRate == 0 {
		s.FailureRate = 600_000
	}
	s.RateTest = rapid.SampledFrom([]RateTest{Above, AtLeast}).Draw(t, "rate_test")
	s.MinCalls = rapid.IntRange(1, 8).Draw(t, "min_calls")
	if rapid.Bool().Draw(t, "of calls") {
		s.Window = Window{Calls: rapid.SampledFrom([]int{1, 2, 3, 5, 64, 70}).Draw(t, "calls")}
		return
	}
	s.Window.Calls = 0
	s.Window.Buckets = rapid.IntRange(1, 10).Draw(t, "buckets")
	s.Window.Span = time.Duration(rapid.IntRange(100, 60_000).Draw(t, "span")) * time.Millisecond
}

// drawSlow draws a rate of slow calls that some circuits open by.
func drawSlow(t *rapid.T, s *Settings) {
	s.SlowRate = rapid.SampledFrom([]Rate{0, 0, 300_000, 500_000, All}).Draw(t, "slow_rate")
	s.SlowCancels = rapid.Bool().Draw(t, "slow_cancels")
}

// walkEpoch is what the store's clock shows when a walk begins: a time at which a
// bucket of any width begins.
const walkEpoch = 0

func (w *walk) command(t *rapid.T) {
	c := Command{Action: rapid.SampledFrom([]Action{ActionOpen, ActionClose, ActionReset, ActionDisable, ActionShadow, ActionHalfOpen}).Draw(t, "action")}
	if rapid.Bool().Draw(t, "timed") {
		c.For = time.Duration(rapid.IntRange(1, 100).Draw(t, "for")) * time.Second
	}
	_, err := w.registry.Command(context.Background(), walkKey, c)
	if legal := w.model.command(c); legal != (err == nil) {
		t.Fatalf("%s: legal to the model: %v; to the circuit: %v", c.Action, legal, err)
	}
}

func (w *walk) acquire(t *rapid.T) {
	w.model.jitter = rapid.SampledFrom([]float64{0, 0.5, 0.75}).Draw(t, "u")
	p := &Permit{}
	err := w.registry.Acquire(walkKey, p)
	mp, refusal := w.model.acquire()
	if diff := gocmp.Diff(fmt.Sprint(refusal), fmt.Sprint(err)); refusal != "" && diff != "" {
		t.Fatalf("refusal (-model +circuit):\n%s", diff)
	}
	if (mp == nil) != (err != nil) {
		t.Fatalf("admitted by the model: %v; by the circuit: %v", mp != nil, err)
	}
	if mp != nil {
		if p.Probe() != mp.probe {
			t.Fatalf("probe: model %v, circuit %v", mp.probe, p.Probe())
		}
		w.permits = append(w.permits, pair{p, mp})
		after := time.Duration(rapid.IntRange(1, 60).Draw(t, "slow after")) * time.Second
		p.SlowAfter(after)
		w.model.watch(mp, after)
	}
}

func (w *walk) pick(t *rapid.T) (pair, bool) {
	if len(w.permits) == 0 {
		return pair{}, false
	}
	return w.permits[rapid.IntRange(0, len(w.permits)-1).Draw(t, "permit")], true
}

func (w *walk) done(t *rapid.T) {
	p, ok := w.pick(t)
	if !ok {
		return
	}
	o := Outcome{
		GaveUp: rapid.Bool().Draw(t, "gave up"),
		Kind:   rapid.SampledFrom([]Kind{Success, Failure, Failure, Neutral}).Draw(t, "kind"),
		Took:   time.Duration(rapid.IntRange(0, 90).Draw(t, "took")) * time.Second,
	}
	if rapid.IntRange(0, 7).Draw(t, "hint") == 0 {
		o.OpenFor = time.Duration(rapid.IntRange(1, 200).Draw(t, "open_for")) * time.Second
	}
	w.model.jitter = rapid.SampledFrom([]float64{0, 0.5, 0.75}).Draw(t, "u")
	got, want := p.real.Done(o), w.model.done(p.model, o)
	if got != want {
		t.Fatalf("settlement of %+v: model %v, circuit %v", o, want, got)
	}
}

// whole is a call from beginning to end, so that walks come to states that lie
// far apart.
func (w *walk) whole(t *rapid.T, k Kind) {
	given := len(w.permits)
	w.acquire(t)
	if len(w.permits) > given {
		p := w.permits[given]
		if got, want := p.real.Done(Outcome{Kind: k}), w.model.done(p.model, Outcome{Kind: k}); got != want {
			t.Fatalf("settlement: model %v, circuit %v", want, got)
		}
	}
}

func (w *walk) firstToken(t *rapid.T) {
	if p, ok := w.pick(t); ok {
		p.real.FirstToken()
		w.model.firstToken(p.model)
	}
}

func (w *walk) within(t *rapid.T) {
	if p, ok := w.pick(t); ok {
		d := time.Duration(rapid.IntRange(0, 120).Draw(t, "within")) * time.Second
		p.real.Within(d)
		w.model.within(p.model, d)
	}
}

func (w *walk) advance(t *rapid.T) {
	w.model.now += time.Duration(rapid.IntRange(0, 90_000).Draw(t, "ms")) * time.Millisecond
	if w.model.until > 0 && w.model.now >= w.model.until {
		w.heartbeat(t)
	}
}

func (w *walk) heartbeat(*rapid.T) {
	Sweep(w.registry)
	w.model.expire()
	w.model.sweep()
	w.model.heartbeat()
}

// evict may take the circuit away: nothing may be lost but its counters, and
// what only a call longer than the idle time could tell: such a call no longer
// continues a streak, and one that outlasts a second eviction counts again.
func (w *walk) evict(t *rapid.T) {
	_, before := w.registry.Circuit(walkKey)
	w.registry.evictIdle()
	if _, after := w.registry.Circuit(walkKey); before && !after {
		if !w.model.forgettable() {
			t.Fatalf("evicted with something to remember: %+v", w.model)
		}
		if w.model.s.Store == Local { // a store remembers longer
			w.model.past = nil
		}
		for _, p := range w.permits {
			p.model.outlast(w.model)
		}
	}
}

func (w *walk) compare(t *rapid.T) {
	for e, ok := w.registry.outbox.take(); ok; e, ok = w.registry.outbox.take() {
		w.told = append(w.told, fmt.Sprintf("%v→%v %s %v", e.From, e.To, e.Reason, e.OpenFor))
	}
	if diff := gocmp.Diff(w.model.told, w.told); diff != "" {
		t.Fatalf("events (-model +circuit):\n%s", diff)
	}
	s, ok := w.registry.Circuit(walkKey)
	if !ok {
		return
	}
	type seen struct {
		State       State
		Eligible    bool
		RetryAfter  time.Duration
		Calls       uint64
		Failures    uint64
		Slow        uint64
		Rate        string
		SlowRate    string
		Consecutive int
	}
	m := w.model
	n := m.shown()
	want := seen{m.state, m.state == Open && m.now >= m.openUntil, 0, n.calls, n.failures, n.slow, m.rateNow(n, n.failures), "unknown", m.streakNow()}
	if m.s.SlowRate > 0 {
		want.SlowRate = m.rateNow(n, n.slow)
	}
	if m.state == Open {
		want.RetryAfter = max(0, m.openUntil-m.now)
	}
	got := seen{s.State, s.Eligible, s.RetryAfter, s.Calls, s.Failures, s.Slow, rateText(s.FailureRate), rateText(s.SlowRate), s.ConsecutiveFailures}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("snapshot (-model +circuit):\n%s", diff)
	}
}
