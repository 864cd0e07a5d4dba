package pipeline_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// atLength is a behaviour whose answer ends for want of tokens.
func atLength(b behaviour) behaviour {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		short := func(text []byte) []byte { return []byte(strings.Replace(string(text), `"stop"`, `"length"`, 1)) }
		result, err := b(ctx, call, func(e llm.Event) error {
			e.Raw = short(e.Raw)
			return emit(e)
		})
		if result != nil && result.Body != nil {
			result.Body = short(result.Body)
		}
		return result, err
	}
}

// byLimit is a behaviour for calls whose answer the gateway limits, and one for
// those that it does not.
func byLimit(limited, unlimited behaviour) behaviour {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		if call.OutputLimit > 0 {
			return limited(ctx, call, emit)
		}
		return unlimited(ctx, call, emit)
	}
}

// of is a call of a key, which may have limits. Its answers may have 100 tokens
// where it says nothing.
func of(key string, limits llm.Limits) func(*llm.Call) {
	return func(c *llm.Call) { c.Caller.KeyID, c.Caller.Limits = key, limits }
}

func mostOutput(most int) func(*llm.Call) { return func(c *llm.Call) { c.Facts.MostOutput = most } }

func newLimitedCache(t *testing.T, shared bool, does behaviour) *cached {
	t.Helper()
	policy := pipeline.CachePolicy{TTL: time.Hour, Shared: shared}
	c := newCached(t, policy, script(alpha, does))
	of := bound("0.002")
	c.handle = wrap(t, terminal(c.upstreams, pipeline.Policy{}).Handle,
		pipeline.NewTelemetry(c.records),
		pipeline.NewCache(pipeline.CachePolicies{Configurations: map[string]pipeline.CachePolicy{"chat": policy}, MaxEntry: 4 << 10}, c.shelf, c.tally),
		pipeline.NewBudget(nil, &ledger{}, bounds{alpha: of}, &denials{}),
		pipeline.NewFallback(nil, nil),
		pipeline.NewUsage(prices{"m1": {"1", "1"}}),
	)
	return c
}

// An answer that a limit of its caller's has cut short is nobody else's, and not
// that caller's either once the limit is lifted.
func TestAnAnswerThatALimitHasCutShortIsNotKept(t *testing.T) {
	t.Parallel()
	tight := llm.Limits{TokensPerDay: new(int64(1e6))}
	plain := func(*llm.Call) {}
	for name, tt := range map[string]struct {
		limited, free behaviour
		shape         func(*llm.Call)
		most          int // what the client asks for; 0 = it says nothing
		how           llm.CacheControl
		kept          bool
	}{
		"a whole one":             {limited: atLength(said("cut sho", 0)), shape: plain},
		"a stream":                {limited: atLength(spoken(nil, 0, "cut ", "sho")), shape: streamed},
		"asked for anew":          {limited: atLength(said("cut sho", 0)), shape: plain, how: llm.CacheRefresh},
		"less than it asked for":  {limited: atLength(said("cut sho", 0)), shape: plain, most: 101},
		"as long as it asked for": {limited: atLength(said("cut sho", 0)), shape: plain, most: 100, kept: true},
		"one that came to an end": {limited: said("cut sho", 0), shape: plain, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for who, shared := range map[string]bool{"other": true, "lim": false} {
				c := newLimitedCache(t, shared, byLimit(tt.limited, said("the whole", 0)))
				c.ask(t.Context(), of("lim", tight), tt.shape, mostOutput(tt.most), control(tt.how)).is(t, "cut sho", llm.CacheMiss)
				if (len(c.shelf.kept) == 1) != tt.kept {
					t.Errorf("%d answers are kept, want one: %v", len(c.shelf.kept), tt.kept)
				}
				if !tt.kept {
					c.ask(t.Context(), of(who, llm.Limits{}), mostOutput(tt.most)).is(t, "the whole", llm.CacheMiss)
				}
			}
		})
	}
}

// Whoever joined the question under another key asks for itself; who has the same
// limits has the answer.
func TestWhoJoinsAQuestionThatALimitCutsShort(t *testing.T) {
	t.Parallel()
	tight := llm.Limits{TokensPerDay: new(int64(1e6))}
	for name, tt := range map[string]struct {
		limited behaviour
		text    string // what the limited have; empty = a failure
	}{
		"a whole answer": {atLength(said("cut sho", time.Second)), "cut sho"},
		"a stream":       {atLength(spoken(nil, time.Second, "cut ", "sho")), "cut sho"},
		"a refusal":      {fails(badRequest, time.Second), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newLimitedCache(t, true, byLimit(tt.limited, said("the whole", time.Second)))
				shape := func(*llm.Call) {}
				if name == "a stream" {
					shape = streamed
				}
				var all sync.WaitGroup
				var leader, same, other, otherStream got
				c.later(t, &all, 0, t.Context(), &leader, of("lim", tight), shape)
				c.later(t, &all, 100*time.Millisecond, t.Context(), &same, of("lim", tight))
				c.later(t, &all, 100*time.Millisecond, t.Context(), &other, of("other", llm.Limits{}))
				c.later(t, &all, 100*time.Millisecond, t.Context(), &otherStream, of("third", llm.Limits{}), streamed)
				all.Wait()
				other.is(t, "the whole", llm.CacheMiss)
				if otherStream.err != nil || otherStream.cache != llm.CacheMiss || otherStream.body == "" {
					t.Errorf("a stream under another key got %q, cache %q, %v", otherStream.body, otherStream.cache, otherStream.err)
				}
				if leader.text != tt.text || same.text != tt.text || (same.err == nil) != (tt.text != "") {
					t.Errorf("under the limits %q and %q, %v; want %q", leader.text, same.text, same.err, tt.text)
				}
				if n := c.calls(alpha); n != 3 {
					t.Errorf("%d calls, want 3: the limited one and one for each other key", n)
				}
				if len(c.shelf.kept) != 0 {
					t.Errorf("%d answers are kept, want none", len(c.shelf.kept))
				}
			})
		})
	}
}
