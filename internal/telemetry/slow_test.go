package telemetry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/telemetry/spool"
)

// Calls since a database began to hang are on disk when the patience for one batch
// is over: that bounds what a killed process loses.
func TestAHangIsSpooledSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := spool.Open(spool.Config{Dir: t.TempDir(), Max: 1 << 20}, quiet())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		cfg := config()
		cfg.Spool = s
		r, _ := setup(t, cfg, newMemory(hangs))
		r.Start()
		r.Record(answered(time.Now()))
		time.Sleep(spoolTimeout + blip)
		if r.Waiting() != 0 || s.Bytes() == 0 {
			t.Errorf("%d rows wait in memory and %d bytes on disk after one batch was given up", r.Waiting(), s.Bytes())
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A database that takes long for each batch, and is not away, still gets all
// rows: what it cannot take in time waits on disk, and not for another outage.
func TestASlowDatabaseGetsAllRows(t *testing.T) {
	t.Parallel()
	for name, takes := range map[string]time.Duration{
		"slower than calls come":            spoolTimeout - time.Second,
		"slower than the writer's patience": spoolTimeout + time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, err := spool.Open(spool.Config{Dir: t.TempDir(), Max: 1 << 20}, quiet())
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				store := newMemory(func(ctx context.Context) error {
					select {
					case <-time.After(takes):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				cfg := config()
				cfg.Queue, cfg.Spool = 10*batchSize, s
				r, _ := setup(t, cfg, store)
				r.Start()
				const calls = 30 * batchSize
				for range calls {
					r.Record(answered(time.Now()))
					time.Sleep(time.Millisecond)
				}
				time.Sleep(10 * time.Minute)
				if got := store.stored(); got != calls || r.SpoolDegraded() || s.Bytes() != 0 {
					t.Errorf("%d runs stored, want %d; fate %v, spool degraded %t, %d bytes on disk", got, calls, fate(r), r.SpoolDegraded(), s.Bytes())
				}
				if err := r.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
