package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-llm/breakwater/internal/telemetry/spool"
)

// A stop that may not wait for ever says what it had to give up, and why. The
// time it was given is for a database that is slow; one that is known to be away
// gets no more than a last chance.
func TestStopGivesUp(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		insert func(context.Context) error
		before time.Duration // that the rows have waited when Stop is called
		latest time.Duration // how long Stop may take
		says   []string
		is     error
	}{
		"on one that has just begun to hang": {hangs, 0, 5 * time.Second, nil, context.DeadlineExceeded},
		"soon on one that has hung for long": {hangs, time.Minute, lastChance, []string{"the database is away since 2000-01-01T00:00:00Z"}, context.DeadlineExceeded},
		"soon on one that cannot be reached": {func(context.Context) error { return errAway }, time.Minute, lastChance, []string{"the database is away since 2000-01-01T00:00:00Z"}, errAway},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, reg := setup(t, config(), newMemory(tt.insert))
				r.Start()
				r.Record(answered(time.Now()))
				r.Record(answered(time.Now()))
				r.CircuitEvent(opened(1, time.Now()))
				time.Sleep(tt.before)

				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				begin := time.Now()
				err := r.Stop(ctx)
				if took := time.Since(begin); took != tt.latest {
					t.Errorf("stop took %v, want %v", took, tt.latest)
				}
				if !errors.Is(err, tt.is) {
					t.Errorf("stop: %v, want it to wrap %v", err, tt.is)
				}
				for _, says := range append(tt.says, "3 rows were not written (runs: 2, circuit events: 1)") {
					if !strings.Contains(fmt.Sprint(err), says) {
						t.Errorf("stop: %v, want it to say %q", err, says)
					}
				}
				if diff := cmp.Diff(map[string]float64{"queue_full": 0, "panic": 0, "refused": 0, "shutdown": 3}, drops(t, reg)); diff != "" {
					t.Errorf("drops (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// drops returns how many rows were dropped, by reason.
func drops(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	const family = `telemetry_dropped_rows_total{reason="`
	found := map[string]float64{}
	for name, value := range series(t, reg) {
		if reason, ok := strings.CutPrefix(name, family); ok {
			found[strings.TrimSuffix(reason, `"}`)] = value
		}
	}
	return found
}

// A writer that pauses because the database was away tries at once when it is
// told to stop, and goes on for as long as it gets somewhere.
func TestStopWritesWhenTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		store := newMemory(func(context.Context) error {
			if away.Load() {
				return errAway
			}
			time.Sleep(time.Second) // slow, but there
			return nil
		})
		r, _ := setup(t, config(), store)
		for range 5 * batchSize {
			r.Record(answered(time.Now()))
		}
		r.Start()
		time.Sleep(time.Minute)
		away.Store(false)

		begin := time.Now()
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 7*time.Second {
			t.Errorf("stop took %v for five batches of a second", took)
		}
		if got := store.stored(); got != 5*batchSize {
			t.Errorf("%d runs stored, want %d", got, 5*batchSize)
		}
	})
}

// A database that returns within the last chance gets the rows.
func TestStopHopesForALittle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(time.Minute + lastChance/4)
		store := newMemory(func(context.Context) error {
			if time.Now().Before(back) {
				return errAway
			}
			return nil
		})
		r, _ := setup(t, config(), store)
		r.Start()
		r.Record(answered(time.Now()))
		time.Sleep(time.Minute)
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := store.stored(); got != 1 {
			t.Errorf("%d runs stored, want 1", got)
		}
	})
}

// failsFirst is an insert that works after so many in vain.
func failsFirst(times int32) func(context.Context) error {
	var asked atomic.Int32
	return func(context.Context) error {
		if asked.Add(1) <= times {
			return errAway
		}
		return nil
	}
}

// What is known of the database when a stop begins may be old, and the first
// connections may be dead, so it is asked again: rows in the queue and on the disk
// are in it after the stop, and nothing is left for a next start that may have
// another disk. One that is away costs little.
func TestStopAsksAgainBeforeItSpools(t *testing.T) {
	t.Parallel()
	const waiting = batchSize / 2
	for name, tt := range map[string]struct {
		before time.Duration // that the rows have waited when Stop is called
		insert func(context.Context) error
		stored int
		latest time.Duration // how long Stop may take
	}{
		"rows in the queue, it is there":        {0, works, waiting, time.Second},
		"rows on the disk, it is there":         {time.Minute, works, waiting, lastChance},
		"rows in the queue, it is slow":         {0, func(context.Context) error { time.Sleep(time.Second); return nil }, waiting, 10 * time.Second},
		"rows in the queue, connections died":   {0, failsFirst(3), waiting, lastChance},
		"rows on the disk, connections died":    {time.Minute, failsFirst(3), waiting, lastChance},
		"rows in the queue, it cannot be asked": {0, func(context.Context) error { return errAway }, 0, lastChance + time.Second},
		"rows on the disk, it cannot be asked":  {time.Minute, func(context.Context) error { return errAway }, 0, lastChance + time.Second},
		"rows in the queue, it hangs":           {0, hangs, 0, 2 * lastChance},
		"rows on the disk, it hangs":            {time.Minute, hangs, 0, 2 * lastChance},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, err := spool.Open(spool.Config{Dir: t.TempDir(), Max: 1 << 30}, quiet())
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				var stopping atomic.Bool
				store := newMemory(func(ctx context.Context) error {
					if !stopping.Load() {
						return errAway
					}
					return tt.insert(ctx)
				})
				cfg := config()
				cfg.FlushInterval, cfg.Spool = time.Minute/2, s
				r, _ := setup(t, cfg, store)
				r.Start()
				synctest.Wait()
				for range waiting {
					r.Record(answered(time.Now()))
				}
				time.Sleep(tt.before)
				if onDisk := s.Bytes() > 0; onDisk != (tt.before > 0) {
					t.Fatalf("%d bytes on disk after %v", s.Bytes(), tt.before)
				}
				r.databaseIs(time.Now(), errAway) // as when the partitions could not be made
				stopping.Store(true)
				begin := time.Now()
				if err := r.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); took > tt.latest {
					t.Errorf("stop took %v, want %v at most", took, tt.latest)
				}
				if got := store.stored(); got != tt.stored {
					t.Errorf("%d runs stored, want %d; %d bytes on disk", got, tt.stored, s.Bytes())
				}
				if left := s.Bytes(); (left > 0) != (tt.stored == 0) {
					t.Errorf("%d bytes left on disk with %d of %d rows stored", left, tt.stored, waiting)
				}
			})
		})
	}
}
