package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
	"github.com/breakwater-llm/breakwater/internal/telemetry/spool"
)

// spooling is a Config with a spool in a directory, until the test ends.
func spooling(t testing.TB, dir string) Config {
	t.Helper()
	s, err := spool.Open(spool.Config{Dir: dir, Max: 1 << 30, Segment: 2000}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	cfg := config()
	cfg.FlushInterval, cfg.Spool = time.Millisecond, s
	return cfg
}

// fill gives every field of a value one that is not zero.
func fill(v reflect.Value, n *int64) {
	*n++
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = noon.Add(time.Duration(*n))
		return
	case *decimal.Decimal:
		*at = decimal.New(*n, -7)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprint("s", *n))
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.Set(reflect.ValueOf(*n % 100).Convert(v.Type()))
	}
}

// Whatever a run or an event is given one day, the spool keeps it.
func TestABatchKeepsEveryField(t *testing.T) {
	t.Parallel()
	var want batch
	fill(reflect.ValueOf(&want).Elem(), new(int64))
	record, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeBatch(record)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("batch (-want +got):\n%s", diff)
	}
}

// Rows beyond the queue are on disk while the database is away, and in it once
// when it is back, whatever it had taken before.
func TestAnOutageIsSpooled(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]func(*Recorder, llm.Run){
		"with rows":    (*Recorder).Record,
		"without rows": func(r *Recorder, run llm.Run) { r.WithoutRows().Record(run) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := postgrestest.New(t)
			repo := newAbsence(db, 3)
			repo.away.Lock()
			cfg := spooling(t, t.TempDir())
			cfg.Queue = 100
			r, reg := setup(t, cfg, repo)
			r.Start()
			for range 1000 {
				waitFor(t, func() bool { return r.Waiting() < cfg.Queue })
				record(r, answered(noon))
			}
			waitFor(t, func() bool { return r.Waiting() == 0 })
			if !r.Degraded() || r.SpoolDegraded() {
				t.Errorf("database degraded %t, spool degraded %t; want true, false", r.Degraded(), r.SpoolDegraded())
			}
			if got := series(t, reg)["telemetry_spool_bytes{}"]; got != float64(cfg.Spool.Bytes()) || got == 0 {
				t.Errorf("telemetry_spool_bytes is %v with %d bytes on disk", got, cfg.Spool.Bytes())
			}
			repo.away.Unlock()
			waitFor(t, func() bool { return cfg.Spool.Bytes() == 0 && !r.Degraded() })
			if err := r.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := testutil.ToFloat64(r.metrics.spooled); got != 1000 {
				t.Errorf("%v rows count as spooled, want 1000", got)
			}
			if diff := cmp.Diff(map[string]float64{"written": 1000, "dropped": 0}, fate(r)); diff != "" {
				t.Errorf("fate of the rows (-want +got):\n%s", diff)
			}
			if got := count(t, db, "SELECT sum(requests) FROM usage_daily"); got != 1000 {
				t.Errorf("usage of %d calls, want 1000", got)
			}
		})
	}
}

// A process that stops while the database is away leaves its rows to the next,
// and one that ends in the middle of a replay, wherever that is, to the one after.
func TestAReplayMayEndAnywhere(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]func(*Recorder, llm.Run){
		"with rows":    (*Recorder).Record,
		"without rows": func(r *Recorder, run llm.Run) { r.WithoutRows().Record(run) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, dir := postgrestest.New(t), t.TempDir()
			cfg := spooling(t, dir)
			first := cfg.BootID
			r, _ := setup(t, cfg, newMemory(func(context.Context) error { return errAway }))
			r.StartWithoutDatabase()
			for range 3 * batchSize {
				record(r, answered(noon))
			}
			r.CircuitEvent(opened(7, noon))
			waitFor(t, func() bool { return r.Waiting() == 0 })
			if err := r.Stop(t.Context()); err != nil {
				t.Fatalf("stop with a spool: %v", err)
			}
			cfg.Spool.Close()

			for deaths := 0; cfg.Spool.Bytes() > 0; deaths++ {
				if deaths > 50 {
					t.Fatal("replays make no progress")
				}
				cfg = spooling(t, dir)
				dying := &dying{Repository: NewRepository(db).Named("node-1", cfg.BootID), left: 1 + deaths%2, dead: make(chan struct{})}
				r, _ := setup(t, cfg, dying)
				r.Start()
				waitFor(t, func() bool {
					select {
					case <-dying.dead:
						return true
					default:
						return cfg.Spool.Bytes() == 0
					}
				})
				if err := r.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				cfg.Spool.Close()
			}
			if got := count(t, db, "SELECT sum(requests) FROM usage_daily"); got != 3*batchSize {
				t.Errorf("usage of %d calls, want %d", got, 3*batchSize)
			}
			if got := count(t, db, "SELECT count(*) FROM circuit_events WHERE boot_id = $1 AND seq = 7", first); got != 1 {
				t.Errorf("%d events of the process that saw it, want 1", got)
			}
		})
	}
}

// dying is a Repository whose process ends when some inserts are committed, before
// anybody hears of the last.
type dying struct {
	*Repository
	left int
	dead chan struct{}
}

func (d *dying) InsertRuns(ctx context.Context, runs []*llm.Run) error {
	return d.insert(ctx, runs, d.Repository.InsertRuns)
}

func (d *dying) InsertUsage(ctx context.Context, runs []*llm.Run) error {
	return d.insert(ctx, runs, d.Repository.InsertUsage)
}

func (d *dying) insert(ctx context.Context, runs []*llm.Run, insert insert[*llm.Run]) error {
	if d.left > 0 {
		if err := insert(ctx, runs); err != nil {
			return err
		}
		if d.left--; d.left > 0 {
			return nil
		}
		close(d.dead)
	}
	<-ctx.Done()
	return ctx.Err()
}

// What finds room neither on disk nor in memory is dropped, the newest first, and
// people hear of it.
func TestAFullSpoolIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := spool.Open(spool.Config{Dir: t.TempDir(), Max: 1000}, quiet())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var away atomic.Bool
		away.Store(true)
		store := newMemory(func(context.Context) error {
			if away.Load() {
				return errAway
			}
			return nil
		})
		cfg := config()
		cfg.Queue, cfg.Spool = 10, s
		r, _ := setup(t, cfg, store)
		r.Start()
		for range 100 {
			r.Record(answered(time.Now()))
			time.Sleep(time.Second)
		}
		if !r.SpoolDegraded() {
			t.Error("nobody sees that the spool takes nothing")
		}
		if since, err := r.SpoolTrouble(); !errors.Is(err, spool.ErrFull) || time.Since(since) < time.Minute/2 || time.Since(since) > 100*time.Second {
			t.Errorf("the trouble is %v since %s", err, since)
		}
		dropped := fate(r)["dropped"]
		if dropped == 0 || r.Waiting() != 10 {
			t.Errorf("%v rows dropped and %d wait, want some and 10", dropped, r.Waiting())
		}
		away.Store(false)
		time.Sleep(time.Minute)
		if since, err := r.SpoolTrouble(); err != nil || !since.IsZero() {
			t.Errorf("after the outage the trouble is %v since %s", err, since)
		}
		if r.SpoolDegraded() || r.Degraded() || s.Bytes() != 0 {
			t.Errorf("after the outage: spool degraded %t, database degraded %t, %d bytes", r.SpoolDegraded(), r.Degraded(), s.Bytes())
		}
		if got := store.stored(); float64(got) != 100-dropped {
			t.Errorf("%d runs stored with %v of 100 dropped", got, dropped)
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A spool that is full of what nobody can read has room again.
func TestASpoolOfDamageMakesRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "0000000000000000.spool"), make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := spool.Open(spool.Config{Dir: dir, Max: 1000}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	cfg := config()
	cfg.Spool = s
	r, _ := setup(t, cfg, newMemory(works))
	r.Start()
	waitFor(t, func() bool { return s.Bytes() == 0 })
}

// A row that waits on disk counts for the day that it was when it came, whatever
// the zone is when it is replayed.
func TestASpooledRunKeepsItsDay(t *testing.T) {
	t.Parallel()
	db, dir := postgrestest.New(t), t.TempDir()
	cfg := spooling(t, dir)
	cfg.Zone = func() *time.Location { return time.FixedZone("east", 14*3600) }
	r, _ := setup(t, cfg, NewRepository(db))
	r.StartWithoutDatabase()
	r.Record(answered(noon))
	r.WithoutRows().Record(answered(noon))
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg.Spool.Close()

	cfg = spooling(t, dir)
	r, _ = setup(t, cfg, NewRepository(db))
	r.Start()
	waitFor(t, func() bool { return cfg.Spool.Bytes() == 0 })
	if got := count(t, db, "SELECT sum(requests) FROM usage_daily WHERE day = '2026-03-15'"); got != 2 {
		t.Errorf("%d calls count for the day in the zone of then, want 2", got)
	}
}

// A row that the database will never take costs itself in a replay, too, and no
// id is forgotten that a replay needs.
func TestAReplayedRowMayBeRefused(t *testing.T) {
	t.Parallel()
	db, dir := postgrestest.New(t), t.TempDir()
	cfg := spooling(t, dir)
	r, _ := setup(t, cfg, newMemory(works))
	r.StartWithoutDatabase()
	bad := answered(noon)
	bad.Attempts[0].Usage.Output = llm.Tokens(poison)
	for _, run := range []llm.Run{answered(noon), bad, answered(noon)} {
		r.Record(run)
	}
	unwritable := answered(endOfTime)
	r.Record(unwritable)
	r.CircuitEvent(breaker.Event{Seq: 1, Key: "no target", At: noon})
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg.Spool.Close()
	if got := testutil.ToFloat64(r.metrics.reasons[dropRefused]); got != 1 {
		t.Errorf("%v rows refused by the spool, want that of the year 300000", got)
	}

	cfg = spooling(t, dir)
	forgetful := &fastidious{NewRepository(db).Named("node-1", uuid.New())}
	r, _ = setup(t, cfg, forgetful)
	r.Start()
	waitFor(t, func() bool { return cfg.Spool.Bytes() == 0 })
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(sums(t, db), "\n")
	want := "2026-03-14 node-1  chat alpha/m1/r1 requests 3 attempts 3 failures 0 tokens 20 0 0 4 0 cost 0.00156 unpriced 1 estimated 0 unreported 0 0"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	if got := testutil.ToFloat64(r.metrics.reasons[dropRefused]); got != 1 {
		t.Errorf("%v rows refused by the database, want the event", got)
	}
}

func FuzzSpooledBatch(f *testing.F) {
	b := batch{Runs: answeredMany(2, noon), Events: []*breaker.Event{ptr(opened(1, noon))}}
	record, err := b.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(record)
	f.Fuzz(func(t *testing.T, record []byte) {
		b, err := decodeBatch(record)
		if err != nil {
			return
		}
		if _, err := b.encode(); err != nil {
			t.Errorf("a batch that was read cannot be written: %v", err)
		}
	})
}

// BenchmarkSpool is what a complete batch takes on its way to the disk.
func BenchmarkSpool(b *testing.B) {
	cfg := spooling(b, b.TempDir())
	metrics, _ := newMetrics(b)
	r := New(cfg, discard{}, metrics, quiet())
	runs := answeredMany(batchSize, noon)
	for b.Loop() {
		if err := r.spoolRuns(runs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cfg.Spool.Bytes())/float64(batchSize*b.N), "B/run")
}
