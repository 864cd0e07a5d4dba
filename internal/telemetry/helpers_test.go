package telemetry

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

var (
	alpha = llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}
	beta  = llm.Target{Provider: "beta", Model: "m1", Region: "r2"}
)

// noon is a moment of a day whose partitions no test database has.
var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// endOfTime is later than a timestamptz can hold.
var endOfTime = time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

func known() Known {
	return Known{
		Targets: []llm.Target{alpha, beta},
		Configurations: []KnownConfiguration{
			{Name: "chat", Targets: []llm.Target{alpha, beta}, FallbackOn: llm.DefaultFallback()},
		},
		Direct:       true,
		RefusalCodes: []string{"invalid_json"},
		Limits:       []Limit{{"chat", llm.LimitCostPerDay}, {"chat", llm.LimitConcurrent}},
	}
}

func newMetrics(t testing.TB) (*Metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	return NewMetrics(reg, known(), quiet()), reg
}

// answered is a run that alpha answered, with the usage and cost given.
func answered(at time.Time) llm.Run {
	return llm.Run{
		RunID: uuid.Must(uuid.NewV7()), CorrelationID: "c-1",
		StartedAt: at, FinishedAt: at.Add(time.Second),
		Operation: llm.OperationChat, Dialect: llm.DialectOpenAI, Configuration: "chat", RequestedModel: "chat",
		Served: alpha, Outcome: llm.RunSuccess, HTTPStatus: 200,
		Latency: time.Second, Overhead: 300 * time.Microsecond,
		Attempts: []llm.Attempt{{
			Target: alpha, StartedAt: at, FinishedAt: at.Add(time.Second),
			Outcome: llm.OutcomeSuccess, UpstreamStatus: 200, Reached: true,
			Latency:      ptr(900 * time.Millisecond),
			CircuitState: "closed", CircuitGeneration: 1,
			Usage: llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(2)},
			Cost:  ptr(decimal.RequireFromString("0.00078")),
		}},
	}
}

func answeredMany(n int, at time.Time) []*llm.Run {
	runs := make([]*llm.Run, n)
	for i := range runs {
		run := answered(at.Add(time.Duration(i) * time.Millisecond))
		runs[i] = &run
	}
	return runs
}

func opened(seq uint64, at time.Time) breaker.Event {
	return breaker.Event{
		Seq: seq, Key: alpha.Key(), From: breaker.Closed, To: breaker.Open, Reason: breaker.ReasonConsecutive,
		Counts:  breaker.Counts{Calls: 7, Failures: 5, ConsecutiveFailures: 5},
		OpenFor: 30 * time.Second, At: at, Generation: 2, Actor: breaker.ActorBreaker,
	}
}

func count(t testing.TB, db *pgxpool.Pool, query string, args ...any) int {
	t.Helper()
	var n int
	if err := db.QueryRow(context.Background(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
