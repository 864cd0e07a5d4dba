package telemetry

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// BenchmarkRecord is what a call pays for being recorded: its metrics and its
// place in the queue.
func BenchmarkRecord(b *testing.B) {
	reg := prometheus.NewRegistry()
	known := known()
	known.Prices = budget.NewPrices(map[llm.Target]budget.Price{
		alpha: {TokenPrice: budget.TokenPrice{Input: decimal.RequireFromString("0.40"), Output: decimal.RequireFromString("1.60")}},
	})
	r := New(Config{Queue: 1 << 30, FlushInterval: 10 * time.Millisecond}, discard{}, NewMetrics(reg, known, quiet()), quiet())
	r.Start()
	run := answered(time.Now())
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Record(run)
		}
	})
	b.StopTimer()
	if err := r.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkInsertRuns is what the database takes for one complete batch.
func BenchmarkInsertRuns(b *testing.B) {
	repo := NewRepository(postgrestest.New(b))
	if err := repo.EnsurePartitions(b.Context(), noon); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		runs := answeredMany(batchSize, noon)
		b.StartTimer()
		if err := repo.InsertRuns(b.Context(), runs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(batchSize*b.N)/b.Elapsed().Seconds(), "runs/s")
}

// discard is a database that costs nothing.
type discard struct{ store }

func (discard) InsertRuns(context.Context, []*llm.Run) error      { return nil }
func (discard) EnsurePartitions(context.Context, time.Time) error { return nil }
func (discard) ForgetUsageRuns(context.Context) error             { return nil }
