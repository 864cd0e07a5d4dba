package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/cache"
)

// store is a store of the test's own.
type store func(ctx context.Context, runs []cache.Run) []cache.Result

func (s store) RunAll(ctx context.Context, runs []cache.Run) []cache.Result { return s(ctx, runs) }

func (s store) Watch(ctx context.Context, _ string, _ func(string)) error {
	<-ctx.Done()
	return ctx.Err()
}

// answering answers every run alike.
func answering(values []string, err error) store {
	return func(_ context.Context, runs []cache.Run) []cache.Result {
		all := make([]cache.Result, len(runs))
		for i := range all {
			all[i] = cache.Result{Values: values, Err: err}
		}
		return all
	}
}

// R41, C78: where the store fails, or answers what nobody understands, the
// replica decides for itself.
func TestReplicaDecidesForItselfWhereTheStoreFails(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]store{
		"an error":               answering(nil, errors.New("out of memory")),
		"nothing":                answering(nil, nil),
		"too little":             answering([]string{"applied", "1"}, nil),
		"no time":                answering([]string{"applied", "noon", "", ""}, nil),
		"no record":              answering([]string{"applied", "1", "\x01garbage", ""}, nil),
		"a record of the future": answering([]string{"applied", "1", "\xff", ""}, nil),
		"too few answers":        func(_ context.Context, runs []cache.Run) []cache.Result { return nil },
		"no answer": func(ctx context.Context, runs []cache.Run) []cache.Result {
			<-ctx.Done()
			return answering(nil, ctx.Err())(ctx, runs)
		},
	} {
		for _, mode := range []breaker.Mode{breaker.Cached, breaker.Strict} {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					g := setupOn(t, with(func(s *breaker.Settings) { s.Store = mode }), s)
					g.play("closed S F/4 closed F open x +29s x +1s eligible a1 half_open x S1 closed F/5 open !open x !close S closed")
				})
			})
		}
	}
}

// recorder is a store that remembers the keys that every run named.
type recorder struct {
	breaker.Store

	mu    sync.Mutex
	named [][]string
}

func (r *recorder) RunAll(ctx context.Context, runs []cache.Run) []cache.Result {
	r.mu.Lock()
	for _, run := range runs {
		r.named = append(r.named, run.Keys)
	}
	r.mu.Unlock()
	return r.Store.RunAll(ctx, runs)
}

// RED-06: all keys of a run share a slot of a cluster of servers, by a tag that
// they begin with, and the run touches no others: the real server checks that.
func TestKeysOfARunShareASlot(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	c := gather(t, 2, sharedWith(nil), func(cfg *breaker.Config) {
		if r.Store == nil {
			r.Store = cfg.Store
		}
		cfg.Store = r
	})
	for _, k := range append(awkward, key) {
		failTwice(t, c.nodes[0], k)
	}
	c.nodes[0].play("F/3 open +30s a1 !open !disable !shadow !reset closed")
	c.ask()
	if len(r.named) < len(awkward) {
		t.Fatalf("only %d runs", len(r.named))
	}
	for _, keys := range r.named {
		tag := tagOf(keys[0])
		for _, k := range keys {
			if !strings.HasPrefix(k, "cb:{"+tag+"}:") {
				t.Errorf("%q is not under the tag %q of %q", k, tag, keys[0])
			}
		}
	}
}

// R42: nothing is decided by the clock on the wall, however it jumps. In this
// test it is that of the bubble, and the circuit has a clock of its own.
func TestClockOnTheWallDecidesNothing(t *testing.T) {
	t.Parallel()
	for _, mode := range []breaker.Mode{breaker.Local, breaker.Cached, breaker.Strict} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shared := cache.NewMemory(cache.MemoryConfig{Now: func() time.Time { return time.Unix(0, 0) }})
				defer shared.Close()
				g := setupOn(t, with(func(s *breaker.Settings) { s.Store, s.FailureRate = mode, 0 }), shared)
				leap := func(script string) {
					t.Helper()
					time.Sleep(24 * time.Hour)
					g.play(script)
				}
				g.play("F/4")
				leap("closed c=4 n=4 F open")
				leap("open x")
				g.play("+30s eligible a1")
				leap("half_open x")
				g.play("+29s half_open +1s")
				leap("x open") // the lease was over by the circuit's clock
				g.play("!open(10m)")
				leap("forced_open x")
				g.play("+10m S closed")
				leap("closed")
			})
		})
	}
}

// pipes is a store that counts what it is asked.
type pipes struct {
	breaker.Store
	runs, trips atomic.Int64
}

func (p *pipes) RunAll(ctx context.Context, runs []cache.Run) []cache.Result {
	p.runs.Add(int64(len(runs)))
	p.trips.Add(1)
	return p.Store.RunAll(ctx, runs)
}

// Ten thousand circuits share one goroutine, and cost little.
func TestTenThousandSharedCircuits(t *testing.T) {
	const keys = 10_000
	p := &pipes{}
	c := gather(t, 1, sharedWith(nil), func(cfg *breaker.Config) {
		p.Store = cfg.Store
		cfg.Store = p
		cfg.Now = nil
	})
	g := c.nodes[0]
	goroutines := runtime.NumGoroutine()
	before := heap()
	for i := range keys {
		failTwice(t, g, fmt.Sprintf("provider/model/%d", i))
	}
	breaker.Beat(g.Registry)
	each := (heap() - before) / keys
	if n := runtime.NumGoroutine() - goroutines; n > 0 {
		t.Errorf("%d goroutines more for %d circuits, want none", n, keys)
	}
	if most := uint64(2500); each > most {
		t.Errorf("a shared circuit that counts takes %d bytes, want at most %d", each, most)
	}
	if trips := p.trips.Load(); trips > keys/50 {
		t.Errorf("%d round trips for %d circuits", trips, keys)
	}
	asked := p.runs.Load()
	for range 50 {
		var permit breaker.Permit
		if err := g.Acquire("provider/model/1", &permit); err != nil {
			t.Fatal(err)
		}
		permit.Done(breaker.Outcome{Kind: breaker.Success})
	}
	if n := p.runs.Load() - asked; n > 0 {
		t.Errorf("%d questions for calls of a closed circuit, want none", n)
	}
	t.Logf("%d bytes each, %d runs in %d round trips", each, asked, p.trips.Load())
}

// heap is how much memory is in use.
func heap() uint64 {
	var m runtime.MemStats
	for range 2 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
