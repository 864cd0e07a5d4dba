package health

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// table is a finder that counts how often it is asked.
type table struct {
	mu        sync.Mutex
	aggregate Aggregate
	err       error
	asked     []time.Time
}

func (f *table) Find(_ context.Context, since time.Time) (Aggregate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, since)
	return f.aggregate, f.err
}

func (f *table) set(a Aggregate, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.aggregate, f.err = a, err
}

func (f *table) queries() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

func settings() Settings {
	return Settings{Window: 15 * time.Minute, Refresh: 5 * time.Second, LatencyCeiling: ceiling}
}

// scored is a stat that scores what it says at the ceiling of the tests.
func scored(samples, successes int64, latency float64) Stats {
	return Stats{Samples: samples, Successes: successes, LatencyMean: ms(latency)}
}

// setup starts a Service whose first snapshot is taken.
func setup(t *testing.T, s Settings, f *table) *Service {
	t.Helper()
	service := New(s, []llm.Target{alpha, other, beta, gamma}, f, slog.New(slog.DiscardHandler))
	service.Start()
	t.Cleanup(func() {
		if err := service.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return service
}

func TestReorder(t *testing.T) {
	t.Parallel()
	good, same, best, bad := scored(10, 9, 200), scored(10, 9, 200), scored(5, 5, 0), scored(4, 0, 0)
	on := func(primary bool) Settings {
		s := settings()
		s.ReorderFallback, s.ReorderPrimary = true, primary
		return s
	}
	primaryAlone := settings()
	primaryAlone.ReorderPrimary = true

	tests := []struct {
		name     string
		settings Settings
		stats    map[llm.Target]Stats
		targets  []llm.Target
		want     []llm.Target
	}{
		{"CF-H8 off leaves the list alone", settings(), map[llm.Target]Stats{alpha: bad, beta: best}, []llm.Target{alpha, beta}, []llm.Target{alpha, beta}},
		{"off although the primary may move", primaryAlone, map[llm.Target]Stats{alpha: bad, beta: best}, []llm.Target{alpha, beta}, []llm.Target{alpha, beta}},
		{"CF-H9 one candidate", on(true), map[llm.Target]Stats{alpha: bad}, []llm.Target{alpha}, []llm.Target{alpha}},
		{"no candidate", on(true), nil, nil, nil},
		{"CF-H10 equals keep their order", on(true), map[llm.Target]Stats{alpha: good, other: same, beta: best},
			[]llm.Target{alpha, other, beta}, []llm.Target{beta, alpha, other}},
		{"CF-H11 unknown stands between well and sick", on(true), map[llm.Target]Stats{alpha: bad, beta: best},
			[]llm.Target{alpha, gamma, beta}, []llm.Target{beta, gamma, alpha}},
		{"CF-H12 nothing known keeps the order", on(true), nil, []llm.Target{gamma, alpha, beta}, []llm.Target{gamma, alpha, beta}},
		{"the primary keeps its place", on(false), map[llm.Target]Stats{alpha: bad, other: good, beta: best},
			[]llm.Target{alpha, other, beta}, []llm.Target{alpha, beta, other}},
		{"CF-R5 the target's score counts, not the provider's", on(true), map[llm.Target]Stats{alpha: bad, other: best, beta: good},
			[]llm.Target{alpha, beta, other}, []llm.Target{other, beta, alpha}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &table{aggregate: Aggregate{Targets: tt.stats}}
				service := setup(t, tt.settings, f)
				before := f.queries()
				given := append([]llm.Target(nil), tt.targets...)

				got := service.Reorder(t.Context(), given)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("order (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.targets, given); diff != "" {
					t.Errorf("the argument was changed (-want +got):\n%s", diff)
				}
				if got := f.queries() - before; got != 0 {
					t.Errorf("reordering made %d queries", got)
				}
			})
		})
	}
}

func TestScoreIsThatOfTheSnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &table{aggregate: Aggregate{Targets: map[llm.Target]Stats{alpha: scored(10, 10, 0)}}}
		service := setup(t, settings(), f)

		if got, known := service.Score(alpha); !known || got != 1 {
			t.Errorf("CF-H14: score %v, known %t, want 1", got, known)
		}
		if _, known := service.Score(beta); known {
			t.Error("CF-H13: a target that was never called has a score")
		}
		before := f.queries()
		service.Score(alpha)
		service.Report()
		if got := f.queries() - before; got != 0 {
			t.Errorf("CF-H17: reading the snapshot made %d queries", got)
		}
	})
}

func TestTheSnapshotIsTakenAtOnceAndThenAtIntervals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &table{}
		begin := time.Now()
		setup(t, settings(), f)
		time.Sleep(11 * time.Second)
		synctest.Wait()

		want := []time.Time{begin, begin.Add(5 * time.Second), begin.Add(10 * time.Second)}
		for i := range want {
			want[i] = want[i].Add(-15 * time.Minute)
		}
		if diff := cmp.Diff(want, f.asked); diff != "" {
			t.Errorf("CF-H16: windows asked for (-want +got):\n%s", diff)
		}
	})
}

func TestAFailedRefreshKeepsTheLastValuesAndSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &table{aggregate: Aggregate{Targets: map[llm.Target]Stats{alpha: scored(10, 10, 0)}}}
		var log bytes.Buffer
		service := New(settings(), []llm.Target{alpha}, f, slog.New(slog.NewTextHandler(&log, nil)))
		service.Start()
		synctest.Wait()
		first := *service.Report().RefreshedAt

		f.set(Aggregate{}, errors.New("away"))
		time.Sleep(time.Minute)
		synctest.Wait()
		report := service.Report()
		if !service.Stale() || !report.Stale || !report.RefreshedAt.Equal(first) {
			t.Errorf("stale %t, refreshed at %v; want the first refresh, marked as stale", report.Stale, report.RefreshedAt)
		}
		if score, known := service.Score(alpha); !known || score != 1 {
			t.Errorf("score %v, known %t, want the last known 1", score, known)
		}
		if got := strings.Count(log.String(), "level=WARN"); got != 1 {
			t.Errorf("%d warnings for one outage:\n%s", got, log.String())
		}

		f.set(Aggregate{}, nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if service.Stale() {
			t.Error("still stale after a refresh that went well")
		}
		if _, known := service.Score(alpha); known {
			t.Error("a target whose attempts left the window still has a score")
		}
		if err := service.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestReconfigureTakesEffectWithoutARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &table{aggregate: Aggregate{Targets: map[llm.Target]Stats{alpha: scored(4, 0, 0), beta: scored(5, 5, 0)}}}
		service := setup(t, settings(), f)
		next := settings()
		next.ReorderFallback, next.ReorderPrimary, next.Window = true, true, time.Hour
		service.Reconfigure(next, []llm.Target{alpha, beta})
		synctest.Wait()

		if diff := cmp.Diff([]llm.Target{beta, alpha}, service.Reorder(t.Context(), []llm.Target{alpha, beta})); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if got := f.asked[len(f.asked)-1]; !got.Equal(time.Now().Add(-time.Hour)) {
			t.Errorf("the new window was not asked for, but %v", got)
		}
	})
}

// The report is what the API shows: figures, the window and whether they are
// acted on come together, and no data is null, not the neutral score.
func TestReportShowsEveryDeclaredTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stats := Stats{Samples: 10, Successes: 9, LatencyMean: ms(200), LatencyP50: ms(150), LatencyP99: ms(900.4)}
		f := &table{aggregate: Aggregate{
			Providers: map[string]Stats{"alpha": stats},
			Targets:   map[llm.Target]Stats{alpha: stats, {Provider: "gone", Model: "m", Region: "r"}: stats},
		}}
		service := New(settings(), []llm.Target{beta, alpha, other}, f, slog.New(slog.DiscardHandler))
		report, err := json.Marshal(service.Report())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(report), `{"window_ms":900000,"reorder_fallback":false,"reorder_primary":false,"refreshed_at":null,"stale":false,"providers":[`) {
			t.Errorf("CF-H15, CF-H16: before the first refresh: %s", report)
		}

		service.Start()
		synctest.Wait()
		report, err = json.Marshal(service.Report().Providers)
		if err != nil {
			t.Fatal(err)
		}
		want := `[{"provider":"alpha","score":0.912,"samples":10,"success_rate":0.9,"latency_mean_ms":200,"targets":[` +
			`{"model":"m1","region":"r1","score":0.912,"samples":10,"success_rate":0.9,"latency_mean_ms":200,"latency_p50_ms":150,"latency_p99_ms":900,"ttft_p50_ms":null},` +
			`{"model":"m2","region":"r1","score":null,"samples":0,"success_rate":null,"latency_mean_ms":null,"latency_p50_ms":null,"latency_p99_ms":null,"ttft_p50_ms":null}]},` +
			`{"provider":"beta","score":null,"samples":0,"success_rate":null,"latency_mean_ms":null,"targets":[` +
			`{"model":"m1","region":"r2","score":null,"samples":0,"success_rate":null,"latency_mean_ms":null,"latency_p50_ms":null,"latency_p99_ms":null,"ttft_p50_ms":null}]}]`
		if diff := cmp.Diff(want, string(report)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if err := service.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestStopWithoutStart(t *testing.T) {
	t.Parallel()
	service := New(settings(), nil, &table{}, slog.New(slog.DiscardHandler))
	for range 2 {
		if err := service.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkReorder(b *testing.B) {
	s := settings()
	s.ReorderFallback = true
	service := New(s, nil, &table{}, slog.New(slog.DiscardHandler))
	service.snapshot.Store(&snapshot{Aggregate: Aggregate{Targets: map[llm.Target]Stats{alpha: scored(4, 0, 0), beta: scored(5, 5, 0)}}})
	targets := []llm.Target{alpha, other, beta, gamma}
	b.ReportAllocs()
	for b.Loop() {
		service.Reorder(b.Context(), targets)
	}
}
