package budget

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// mute is a store whose answers about one scope are lost for a while.
type mute struct {
	cache.Cache
	on       atomic.Bool
	executes bool   // what it is asked, before the answer is lost
	but      string // the step that it does answer
	refuses  error  // what it says instead of nothing
	runs     atomic.Int64
}

func (m *mute) Run(ctx context.Context, s *cache.Script, keys []string, args ...string) ([]string, error) {
	if !m.on.Load() || keys[0] != scopeKey(muted) || args[0] == m.but {
		return m.Cache.Run(ctx, s, keys, args...)
	}
	m.runs.Add(1)
	if m.executes {
		_, _ = m.Cache.Run(ctx, s, keys, args...)
	}
	return nil, cmp.Or(m.refuses, cache.ErrUnavailable)
}

func (m *mute) RunAll(ctx context.Context, runs []cache.Run) []cache.Result {
	results := make([]cache.Result, len(runs))
	for i, r := range runs {
		results[i].Values, results[i].Err = m.Run(ctx, r.Script, r.Keys, r.Args...)
	}
	return results
}

var muted = llm.Scope{Kind: llm.ScopeKey, ID: "muted"}

// quiet is a ledger on a store that may lose answers about the scope, on which one
// request was spent.
type quiet struct {
	*Ledger
	t      *testing.T
	store  *mute
	purse  *purse
	limits llm.Limits
	said   bytes.Buffer
}

func newQuiet(t *testing.T, limit int64) *quiet {
	t.Helper()
	memory := cache.NewMemory(cache.MemoryConfig{})
	q := &quiet{t: t, store: &mute{Cache: memory}, limits: llm.Limits{RequestsPerDay: &limit}}
	q.Ledger = NewLedger(LedgerConfig{}, q.store, nil, slog.New(slog.NewTextHandler(&q.said, nil)))
	q.fleet.seen("another", time.Now())
	t.Cleanup(func() {
		q.store.on.Store(false)
		q.away.Store(false)
		q.Stop(context.Background())
		_ = memory.Close()
	})
	q.purse = q.Ledger.purse(muted)
	if !q.call() {
		t.Fatal("the first call was refused")
	}
	q.flush()
	return q
}

func (q *quiet) open() *Account {
	return q.Open(uuid.New(), time.Now(), []Governed{{Scope: muted, Limits: q.limits}})
}

func (q *quiet) reserve(a *Account) {
	q.t.Helper()
	if _, err := a.Reserve(q.t.Context(), llm.Amount{Tokens: 1, Cost: decimal.Zero}); err != nil {
		q.t.Fatal(err)
	}
}

func (q *quiet) call() bool {
	a := q.open()
	_, err := a.Reserve(q.t.Context(), llm.Amount{Tokens: 1, Cost: decimal.Zero})
	if err == nil {
		a.Settle(llm.Amount{Tokens: 1, Cost: decimal.Zero}, true)
	}
	return err == nil
}

// part leaves the store alone about the scope until it is asked again.
func (q *quiet) part()     { q.purse.aloneUntil.Store(time.Now().Add(time.Hour).UnixNano()) }
func (q *quiet) askAgain() { q.purse.aloneUntil.Store(0) }
func (q *quiet) flush()    { _ = q.purse.flush(q.t.Context()) }

// counted fails the test unless the store has counted so many requests, and holds
// none.
func (q *quiet) counted(want int64) {
	q.t.Helper()
	period := q.period(time.Now())
	a, err := q.purse.send(q.t.Context(), q.purse.step(stepLook, "", period.Day, period.Month))
	if err != nil || a.code != codeDone {
		q.t.Fatalf("got %s, %v", a.code, err)
	}
	if got := a.numbers.day.spent.requests; got != want || a.numbers.live != 0 {
		q.t.Errorf("got %d requests spent and %d under way, want %d and none", got, a.numbers.live, want)
	}
}

// TestWhatIsToldAgainCountsOnce loses the answers to what a scope tells that was
// counted without the store.
func TestWhatIsToldAgainCountsOnce(t *testing.T) {
	t.Parallel()
	t.Run("a sum that has grown", func(t *testing.T) {
		t.Parallel()
		q := newQuiet(t, 100)
		q.store.executes = true
		q.part()
		q.call()
		q.store.on.Store(true)
		q.flush()
		q.call()
		q.store.on.Store(false)
		q.flush()
		q.counted(3)
	})
	t.Run("a reservation and its settlement", func(t *testing.T) {
		t.Parallel()
		q := newQuiet(t, 100)
		q.store.executes = true
		q.part()
		a := q.open()
		q.reserve(a)
		q.askAgain()
		q.purse.rejoin()
		q.store.on.Store(true)
		a.Settle(llm.Amount{Tokens: 1, Cost: decimal.Zero}, true)
		q.flush()
		q.store.on.Store(false)
		q.flush()
		q.counted(2)
	})
	t.Run("a reservation that is made again without the store", func(t *testing.T) {
		t.Parallel()
		q := newQuiet(t, 100)
		q.part()
		a := q.open()
		q.reserve(a)
		q.askAgain()
		q.purse.rejoin() // by a call whose own answer is lost
		q.flush()
		q.part()
		q.reserve(a)
		a.Settle(llm.Amount{Tokens: 1, Cost: decimal.Zero}, true)
		q.flush()
		q.counted(2)
	})
}

// TestWhatIsRefusedIsToldLater puts something else in the place of the counters, and
// takes it away again.
func TestWhatIsRefusedIsToldLater(t *testing.T) {
	t.Parallel()
	q := newQuiet(t, 100)
	q.store.refuses = errors.New("the key holds another kind of value")
	running := q.open()
	q.reserve(running)
	q.store.on.Store(true)
	for range 3 {
		if !q.call() {
			t.Fatal("a call within the share was refused")
		}
		q.flush()
	}
	running.Settle(llm.Amount{Tokens: 1, Cost: decimal.Zero}, true)
	q.flush()
	q.store.on.Store(false)
	q.flush()
	q.counted(5)
	if got := strings.Count(q.said.String(), "level=ERROR"); got != 1 {
		t.Errorf("got %d errors logged, want 1:\n%s", got, &q.said)
	}
}

// TestAShareOutlastsLostCounters has the store come back empty and go again before
// they are rebuilt.
func TestAShareOutlastsLostCounters(t *testing.T) {
	t.Parallel()
	q := newQuiet(t, 21)
	through := 0
	for range 4 {
		q.leave()
		for range 20 {
			if q.call() {
				through++
			}
		}
		q.away.Store(false)
		if err := q.store.Delete(t.Context(), q.purse.key); err != nil {
			t.Fatal(err)
		}
		s := &seat{purse: q.purse, caps: capsOf(q.limits), holding: holding{period: q.period(time.Now())}}
		a, how, err := q.purse.ask(t.Context(), s, request{step: stepLook, limits: s.caps})
		if err != nil || a.code != codeUnknown {
			t.Fatalf("got %s, %v, want counters that are unknown", a.code, err)
		}
		how.heeded()
	}
	if through != 10 {
		t.Errorf("got %d calls through, want half of the 20 that were left", through)
	}
}

// TestAShareOutlastsABeat has a store that answers renewals of a scope and nothing
// else: the share is not taken anew of what is left of it.
func TestAShareOutlastsABeat(t *testing.T) {
	t.Parallel()
	q := newQuiet(t, 21)
	q.store.but = stepRenew
	q.store.on.Store(true)
	q.part()
	through := 0
	for range 30 {
		if q.call() {
			through++
		}
		Beat(q.Ledger)
	}
	if through != 10 {
		t.Errorf("got %d calls through, want half of the 20 that were left", through)
	}

	q.store.on.Store(false)
	q.flush()
	q.purse.aloneUntil.Store(1) // its time is over, and a beat finds the store
	Beat(q.Ledger)
	for range 2 {
		if !q.purse.mayAsk() {
			t.Error("after a beat that found the store not all calls ask it")
		}
	}
}

// TestARebuildingThatIsNotNeededHoldsNobodyUp finds the store again between a
// reservation without it and the rebuilding that it asked for.
func TestARebuildingThatIsNotNeededHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	q := newQuiet(t, 100)
	q.part()
	a := q.open()
	s := &a.seats[0]
	want := bound(llm.Amount{Tokens: 1, Cost: decimal.Zero})
	_, how, err := q.purse.askOffline(t.Context(), s, request{step: stepReserve, want: want, limits: s.caps}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	q.purse.mu.Lock()
	q.purse.offline = nil // as together does, which was there before the counters were claimed
	q.purse.mu.Unlock()
	q.purse.rebuildOffline(t.Context(), q.period(time.Now()), how, false)
	how.heeded()
	q.part()
	soon, cancel := context.WithTimeout(t.Context(), claimLife*time.Millisecond/2)
	defer cancel()
	if _, err := q.open().Reserve(soon, llm.Amount{Tokens: 1, Cost: decimal.Zero}); err != nil {
		t.Errorf("the next call without the store: %v", err)
	}
}

// TestTheCountersOfAShareEndWithIt lets a scope that nobody calls any more be
// forgotten after an outage: the next one begins with what is known then.
func TestTheCountersOfAShareEndWithIt(t *testing.T) {
	t.Parallel()
	q := newQuiet(t, 21)
	q.leave()
	q.call()
	q.Ledger.rejoin()
	q.flush()
	idle := func() {
		q.purse.mu.Lock()
		defer q.purse.mu.Unlock()
		q.purse.touched, q.purse.unwritten = time.Now().Add(-2*forgetAfter), ring{}
	}
	idle()
	q.forget(time.Now())
	if _, kept := q.purses.Load(muted); !kept {
		t.Error("the scope was forgotten while its share was kept")
	}
	Beat(q.Ledger)
	idle()
	q.forget(time.Now())
	if _, kept := q.purses.Load(muted); kept {
		t.Fatal("the scope was not forgotten")
	}
	q.purse = q.Ledger.purse(muted)
	for range 15 {
		q.call()
	}
	q.flush()
	q.counted(17)
	q.leave()
	through := 0
	for range 10 {
		if q.call() {
			through++
		}
	}
	if through != 2 {
		t.Errorf("got %d calls through, want half of the 4 that were left", through)
	}
}

// TestOneCallAsksASilentStore, and tells the others; it is logged once that the
// scope is alone, and once that it is not any more.
func TestOneCallAsksASilentStore(t *testing.T) {
	t.Parallel()
	q := newQuiet(t, 1000)
	q.store.on.Store(true)
	for range 3 {
		if !q.call() {
			t.Fatal("a call within the share was refused")
		}
		if !q.Degraded() {
			t.Error("a scope is alone, and the ledger is not degraded")
		}
		q.purse.aloneUntil.Store(1) // its time is over
		var asking atomic.Int64
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				if q.purse.mayAsk() {
					asking.Add(1)
				}
			})
		}
		calls.Wait()
		if got := asking.Load(); got != 1 {
			t.Errorf("got %d calls that ask, want 1", got)
		}
		q.purse.aloneUntil.Store(1)
	}
	q.store.on.Store(false)
	if !q.call() || q.Degraded() {
		t.Errorf("the store answers again: degraded %t, want a call that goes through and false", q.Degraded())
	}
	said := q.said.String()
	if alone, shared := strings.Count(said, "kept by this gateway alone"), strings.Count(said, "shared again"); alone != 1 || shared != 1 {
		t.Errorf("got %d lines of a scope that is alone and %d that it is not, want 1 each:\n%s", alone, shared, said)
	}
}

// TestASilentStoreIsToldInTurns keeps the courier from telling it without a pause.
func TestASilentStoreIsToldInTurns(t *testing.T) {
	t.Parallel()
	q := newQuiet(t, 1000)
	q.part()
	q.call()
	q.store.on.Store(true)
	q.Start()
	q.enqueue(q.purse)
	began := time.Now()
	for q.store.runs.Load() < 3 {
		time.Sleep(time.Millisecond)
	}
	for time.Since(began) < 10*retryEvery {
		time.Sleep(time.Millisecond)
	}
	if got, most := q.store.runs.Load(), int64(2*time.Since(began)/retryEvery)+10; got > most {
		t.Errorf("told %d times in %v, want %d at most", got, time.Since(began), most)
	}
}
