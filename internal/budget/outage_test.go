package budget_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// outages are the ways in which a store goes away and comes back: dead and
// empty, and silent.
var outages = map[string]struct{ begin, end func(*redistest.Server) }{
	"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
	"frozen": {(*redistest.Server).Freeze, (*redistest.Server).Thaw},
}

// TestWithoutTheStoreEveryGatewayKeepsToItsShare is RED-05: what is left is
// shared out, it shows, and when the store is back all of it is told.
func TestWithoutTheStoreEveryGatewayKeepsToItsShare(t *testing.T) {
	t.Parallel()
	for how, outage := range outages {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			server, books := redistest.Start(t), newBook()
			var ledgers []*budget.Ledger
			for range 2 {
				store, err := cache.OpenValkey(server.URL(), cache.ValkeyConfig{Timeout: 500 * time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = store.Close() })
				ledgers = append(ledgers, opened(t, store, budget.LedgerConfig{}, books))
			}
			waitUp(t, server, ledgers)
			limits := llm.Limits{RequestsPerDay: n(12), TokensPerMonth: n(100_000)}
			call := func(l *budget.Ledger) (*budget.Account, error) {
				a := l.Open(uuid.New(), time.Now(), governed(limits))
				_, err := a.Reserve(t.Context(), amount(100, "0"))
				return a, err
			}
			var before []*budget.Account
			for _, l := range ledgers {
				a, err := call(l)
				if err != nil {
					t.Fatal(err)
				}
				before = append(before, a)
			}
			eventually(t, "both have seen both calls", func() bool {
				return reserved(t, ledgers[0], limits) == "2" && reserved(t, ledgers[1], limits) == "2"
			})
			for _, l := range ledgers {
				budget.Beat(l)
			}

			outage.begin(server)
			for i, l := range ledgers {
				through := 0
				for range 20 {
					a, err := call(l)
					if err == nil {
						through++
						a.Settle(amount(7, "0"), true)
					}
				}
				if through != 5 || !l.Degraded() {
					t.Errorf("gateway %d: got %d calls through, degraded %v; want half of 10, true", i, through, l.Degraded())
				}
				before[i].Settle(amount(7, "0"), true)
			}
			soonest := time.Hour
			for range 10 {
				began := time.Now()
				if _, err := call(ledgers[0]); err == nil {
					t.Fatal("a call over the share went through while the store is away")
				}
				soonest = min(soonest, time.Since(began))
			}
			if soonest > 250*time.Millisecond {
				t.Errorf("a call over the share was denied after %v while the store is away, want at once", soonest)
			}

			_, err := call(ledgers[0])
			if d := denial(t, err); d.Whole.String() != "12" || !d.Allowed.LessThan(d.Whole) {
				t.Errorf("the denial says %s of %s, want a share of 12", d.Allowed, d.Whole)
			}

			outage.end(server)
			waitUp(t, server, ledgers)
			eventually(t, "all is told", func() bool { return holds(t, ledgers[1], limits, 12, 12*7) })
			_, err = call(ledgers[0])
			if d := denial(t, err); d.Allowed.String() != "12" || !d.Whole.IsZero() {
				t.Errorf("the 13th call of 12 was denied by %s of %s, want the limit itself", d.Allowed, d.Whole)
			}
		})
	}
}

// TestWhatAGatewayWasRefusedIsNotInItsShare lets one gateway take all there is.
// The other was refused since it last was granted anything, so it knows.
func TestWhatAGatewayWasRefusedIsNotInItsShare(t *testing.T) {
	t.Parallel()
	server, books := redistest.Start(t), newBook()
	cfg := budget.LedgerConfig{Lease: time.Hour} // no heartbeat looks meanwhile
	busy := opened(t, shared(t, server), cfg, books)
	store, err := cache.OpenValkey(server.URL(), cache.ValkeyConfig{Timeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	other := budget.NewLedger(cfg, store, books, nil) // not started, for the same reason
	t.Cleanup(func() { stop(other) })
	limits := llm.Limits{RequestsPerDay: n(10)}
	call := func(l *budget.Ledger) error {
		_, err := l.Open(uuid.New(), time.Now(), governed(limits)).Reserve(t.Context(), amount(1, "0"))
		return err
	}
	if err := call(other); err != nil {
		t.Fatal(err)
	}
	for range 9 {
		if err := call(busy); err != nil {
			t.Fatal(err)
		}
	}
	_ = denial(t, call(other))

	server.Freeze()
	defer server.Thaw()
	for range 5 {
		if err := call(other); err == nil {
			t.Error("a call was let through of which the gateway had heard that nothing is left")
		}
	}
}

func reserved(t *testing.T, l *budget.Ledger, limits llm.Limits) string {
	t.Helper()
	states, err := l.Standing(t.Context(), scope, limits)
	if err != nil {
		t.Fatal(err)
	}
	return states[0].Reserved.String()
}

// TestWhatADeadGatewayHadReservedIsSpent leaves a ledger without a heartbeat, as
// a killed process does: after the lease nothing is reserved, and all of it is
// spent; should it live after all, the truth takes its place.
func TestWhatADeadGatewayHadReservedIsSpent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := budget.LedgerConfig{Lease: 500 * time.Millisecond}
	limits := llm.Limits{RequestsPerDay: n(10), TokensPerMonth: n(1000)}
	dead := budget.NewLedger(cfg, shared(t, server), nil, nil)
	t.Cleanup(func() { stop(dead) })
	a := dead.Open(uuid.New(), time.Now(), governed(limits))
	if _, err := a.Reserve(t.Context(), amount(100, "0")); err != nil {
		t.Fatal(err)
	}
	alive := opened(t, shared(t, server), cfg, nil)
	eventually(t, "the lease is over", func() bool { return holds(t, alive, limits, 1, 100) })
	dead.Start()
	a.Settle(amount(7, "0"), true)
	eventually(t, "the truth has replaced the charge", func() bool { return holds(t, alive, limits, 1, 7) })
}

// TestALiveCallOutlivesItsLease keeps a reservation that is renewed.
func TestALiveCallOutlivesItsLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := opened(t, shared(t, server), budget.LedgerConfig{Lease: 3 * time.Second}, nil)
	limits := llm.Limits{RequestsPerDay: n(10)}
	a := l.Open(uuid.New(), time.Now(), governed(limits))
	if _, err := a.Reserve(t.Context(), amount(100, "0")); err != nil {
		t.Fatal(err)
	}
	<-time.After(4 * time.Second)
	if got, want := reserved(t, l, limits), "1"; got != want {
		t.Errorf("reserved after the lease: got %s, want %s", got, want)
	}
}

// TestUnknownSpending loses the counters while the database is away.
func TestUnknownSpending(t *testing.T) {
	t.Parallel()
	limits := llm.Limits{RequestsPerDay: n(10), TokensPerMonth: n(1000)}
	spend := func(t *testing.T, l *budget.Ledger, books *book) error {
		run := uuid.New()
		a := l.Open(run, time.Now(), governed(limits))
		if _, err := a.Reserve(t.Context(), amount(100, "0")); err != nil {
			return err
		}
		a.Settle(amount(7, "0"), true)
		books.write(run, amount(7, "0"))
		l.Written([]uuid.UUID{run})
		return nil
	}
	t.Run("is refused", func(t *testing.T) {
		t.Parallel()
		server, books := redistest.Start(t), newBook()
		l := opened(t, shared(t, server), budget.LedgerConfig{}, books)
		if err := spend(t, l, books); err != nil {
			t.Fatal(err)
		}
		books.leave(true)
		server.FlushAll()
		err := spend(t, l, books)
		d := denial(t, err)
		if why := errors.Unwrap(err); why == nil || !strings.Contains(why.Error(), "database is away") || d.Limit != llm.LimitRequestsPerDay {
			t.Errorf("got %v of %s, want one that says that the database is away", why, d.Limit)
		}
		books.leave(false)
		eventually(t, "calls go on", func() bool { return spend(t, l, books) == nil })
		eventually(t, "all is counted", func() bool { return holds(t, l, limits, 2, 14) })
	})
	t.Run("is guessed", func(t *testing.T) {
		t.Parallel()
		server, books := redistest.Start(t), newBook()
		cfg := budget.LedgerConfig{AllowUnknown: true, Lease: 3 * time.Second}
		l, fresh := opened(t, shared(t, server), cfg, books), opened(t, shared(t, server), cfg, books)
		waitUp(t, server, []*budget.Ledger{l, fresh})
		for range 3 {
			if err := spend(t, l, books); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "all is settled", func() bool { return holds(t, l, limits, 3, 21) })
		books.leave(true)
		server.FlushAll()
		if err := spend(t, fresh, books); err != nil {
			t.Fatal(err)
		}
		eventually(t, "what the first had seen is counted", func() bool { return holds(t, fresh, limits, 4, 28) })
		books.leave(false)
		eventually(t, "the database decides again", func() bool { return holds(t, fresh, limits, 4, 28) && !budget.Guessed(fresh, scope) })
	})
	t.Run("is known to those who spent it", func(t *testing.T) {
		t.Parallel()
		server, books := redistest.Start(t), newBook()
		cfg := budget.LedgerConfig{AllowUnknown: true}
		ledgers := []*budget.Ledger{opened(t, shared(t, server), cfg, books), opened(t, shared(t, server), cfg, books)}
		waitUp(t, server, ledgers)
		limits := llm.Limits{RequestsPerDay: n(60), TokensPerMonth: n(60_000)}
		var reached atomic.Int64
		call := func(l *budget.Ledger) {
			run := uuid.New()
			a := l.Open(run, time.Now(), governed(limits))
			if _, err := a.Reserve(t.Context(), amount(100, "0")); err == nil {
				reached.Add(1)
				a.Settle(amount(7, "0"), true)
				books.write(run, amount(7, "0"))
				l.Written([]uuid.UUID{run})
			}
		}
		for i := range 9 {
			call(ledgers[i%2])
		}
		books.leave(true)
		var calls sync.WaitGroup
		for i := range 200 {
			calls.Go(func() { call(ledgers[i%2]) })
			if i%20 == 10 && i < 100 {
				server.FlushAll()
			}
		}
		calls.Wait()
		if got := reached.Load(); got != 60 {
			t.Errorf("calls let through: got %d, want 60", got)
		}
		eventually(t, "everything is settled, once", func() bool { return holds(t, ledgers[0], limits, 60, 420) })
	})
	t.Run("does not matter to a limit of calls at once", func(t *testing.T) {
		t.Parallel()
		books := newBook()
		books.leave(true)
		l := opened(t, nil, budget.LedgerConfig{}, books)
		a := l.Open(uuid.New(), time.Now(), governed(llm.Limits{Concurrent: n(1)}))
		standings, err := a.Reserve(t.Context(), amount(1, "0"))
		want := []llm.Standing{{Limit: llm.LimitConcurrent, Allowed: 1}}
		if diff := cmp.Diff(want, standings); err != nil || diff != "" {
			t.Errorf("got %v, standings (-want +got):\n%s", err, diff)
		}
	})
}
