package budget_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// forgetful is a store that does what it is told and, once, does not say so.
type forgetful struct {
	cache.Cache
	step string // whose answer is lost
	done atomic.Bool
	lose func() error
}

func (f *forgetful) Run(ctx context.Context, s *cache.Script, keys []string, args ...string) ([]string, error) {
	values, err := f.Cache.Run(ctx, s, keys, args...)
	if len(args) > 0 && args[0] == f.step && f.done.CompareAndSwap(false, true) {
		return nil, f.lose()
	}
	return values, err
}

// TestARebuildingOfWhichNobodyHeardHoldsNobodyUp loses the answer by which a
// gateway was told to rebuild counters, or one while it does: nobody goes on with
// that, and other calls must not wait until it is taken for dead.
func TestARebuildingOfWhichNobodyHeardHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]string{"the caller left": "reserve", "no answer to the call": "reserve", "no answer to the gathering": "gather", "no answer to the telling": "tell"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := cache.NewMemory(cache.MemoryConfig{})
			t.Cleanup(func() { _ = memory.Close() })
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			store := &forgetful{Cache: memory, step: step, lose: func() error {
				if name == "the caller left" {
					leave()
					return context.Canceled
				}
				return cache.ErrUnavailable
			}}
			l := opened(t, store, budget.LedgerConfig{}, newBook())
			call := func(ctx context.Context) error {
				a := l.Open(uuid.New(), time.Now(), governed(llm.Limits{RequestsPerDay: n(12)}))
				defer a.Settle(amount(1, "0"), true)
				_, err := a.Reserve(ctx, amount(1, "0"))
				return err
			}
			began := time.Now()
			_ = call(ctx)
			if err := call(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the next call waited %v for a rebuilding that nobody did", took)
			}
		})
	}
}
