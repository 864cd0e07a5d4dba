package health

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
)

var (
	alpha = llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}
	other = llm.Target{Provider: "alpha", Model: "m2", Region: "r1"}
	beta  = llm.Target{Provider: "beta", Model: "m1", Region: "r2"}
	gamma = llm.Target{Provider: "gamma", Model: "m1", Region: "r3"}

	now   = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	since = now.Add(-15 * time.Minute)
)

// store records attempts, each a run of its own unless it is part of one.
func store(t *testing.T, db *pgxpool.Pool, runs ...[]llm.Attempt) {
	t.Helper()
	var rows []*llm.Run
	for _, attempts := range runs {
		rows = append(rows, &llm.Run{
			RunID: uuid.Must(uuid.NewV7()), CorrelationID: "c", StartedAt: now, FinishedAt: now,
			Operation: llm.OperationChat, Dialect: llm.DialectOpenAI, RequestedModel: "chat",
			Outcome: llm.RunSuccess, HTTPStatus: 200, Attempts: attempts,
		})
	}
	if err := telemetry.NewRepository(db).InsertRuns(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
}

func ok(target llm.Target, latency float64) llm.Attempt {
	return llm.Attempt{
		Target: target, StartedAt: now.Add(-time.Minute), FinishedAt: now.Add(-time.Second),
		Outcome: llm.OutcomeSuccess, Reached: true, Latency: ms(latency),
	}
}

func failed(target llm.Target, latency float64) llm.Attempt {
	a := ok(target, latency)
	a.Outcome, a.FailureClass, a.FailureReason = llm.OutcomeFailure, llm.ClassServerError, llm.ReasonUpstreamStatus
	return a
}

func with(a llm.Attempt, outcome llm.Outcome, class llm.FailureClass) llm.Attempt {
	a.Outcome, a.FailureClass = outcome, class
	return a
}

func each(attempts ...llm.Attempt) [][]llm.Attempt {
	var runs [][]llm.Attempt
	for _, a := range attempts {
		runs = append(runs, []llm.Attempt{a})
	}
	return runs
}

func times(n int, a llm.Attempt) []llm.Attempt {
	all := make([]llm.Attempt, n)
	for i := range all {
		all[i] = a
	}
	return all
}

// brief is what most cases speak of.
type brief struct {
	Samples, Successes int64
	Mean               *time.Duration
}

func targets(a Aggregate) map[llm.Target]brief {
	all := map[llm.Target]brief{}
	for target, s := range a.Targets {
		all[target] = brief{s.Samples, s.Successes, s.LatencyMean}
	}
	return all
}

func TestFindAggregatesTheAttemptsThatReachedAVerdict(t *testing.T) {
	t.Parallel()
	ended := func(a llm.Attempt, at time.Time) llm.Attempt {
		a.StartedAt, a.FinishedAt = at.Add(-time.Minute), at
		return a
	}
	tests := []struct {
		name string
		runs [][]llm.Attempt
		want map[llm.Target]brief
	}{
		{"CF-H18 latency is the mean of successes",
			each(ok(alpha, 100), ok(alpha, 300), failed(alpha, 200)),
			map[llm.Target]brief{alpha: {3, 2, ms(200)}}},
		{"CF-H19 what ended before the window does not count",
			each(ok(alpha, 100), ended(failed(alpha, 1), since), ended(ok(alpha, 300), since.Add(time.Microsecond))),
			map[llm.Target]brief{alpha: {2, 2, ms(200)}}},
		{"what began before the window and ended in it counts",
			each(llm.Attempt{Target: alpha, StartedAt: since.Add(-time.Hour), FinishedAt: now, Outcome: llm.OutcomeSuccess, Latency: ms(5)}),
			map[llm.Target]brief{alpha: {1, 1, ms(5)}}},
		{"CF-H20 no provider, no health", each(ok(llm.Target{Model: "m1", Region: "r1"}, 100)), map[llm.Target]brief{}},
		{"CF-H21 a rescue is a failure of the one and a success of the other",
			[][]llm.Attempt{{ok(alpha, 100)}, {failed(alpha, 50), ok(beta, 150)}},
			map[llm.Target]brief{alpha: {2, 1, ms(100)}, beta: {1, 1, ms(150)}}},
		{"CF-H22 only rescued runs",
			[][]llm.Attempt{{failed(alpha, 50), ok(beta, 150)}, {failed(alpha, 50), ok(beta, 250)}},
			map[llm.Target]brief{alpha: {2, 0, nil}, beta: {2, 2, ms(200)}}},
		{"CF-H23 providers are apart", each(ok(alpha, 100), failed(beta, 1)),
			map[llm.Target]brief{alpha: {1, 1, ms(100)}, beta: {1, 0, nil}}},
		{"HEA-03 who left or asked for the wrong thing says nothing",
			each(append(append(times(10, ok(alpha, 100)),
				times(10, with(ok(alpha, 9000), llm.OutcomeNeutral, llm.ClassCancelled))...),
				times(10, with(ok(alpha, 9000), llm.OutcomeNeutral, llm.ClassClientError))...)...),
			map[llm.Target]brief{alpha: {10, 10, ms(100)}}},
		{"refusals of ours say nothing",
			each(ok(alpha, 100), with(failed(alpha, 0), llm.OutcomeRefused, llm.ClassCircuitOpen)),
			map[llm.Target]brief{alpha: {1, 1, ms(100)}}},
		{"a success without a latency is no sample of latency",
			each(ok(alpha, 100), func() llm.Attempt { a := ok(alpha, 0); a.Latency = nil; return a }()),
			map[llm.Target]brief{alpha: {2, 2, ms(100)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := postgrestest.New(t)
			store(t, db, tt.runs...)
			got, err := NewProviderHealthRepository(db).Find(t.Context(), since)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, targets(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Probes of a circuit are calls like others; what the gateway asks for its own
// sake is not.
func TestHealthChecksAreNoSample(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	probe := ok(alpha, 100)
	probe.Probe = llm.ProbeCall
	store(t, db, each(probe, ok(beta, 1), ok(gamma, 1))...)
	for provider, kind := range map[string]string{"beta": "canary", "gamma": "health_check"} {
		if _, err := db.Exec(t.Context(), "UPDATE telemetry_attempts SET probe = $2 WHERE provider = $1", provider, kind); err != nil {
			t.Fatal(err)
		}
	}
	got, err := NewProviderHealthRepository(db).Find(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[llm.Target]brief{alpha: {1, 1, ms(100)}}, targets(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAProviderIsTheSumOfItsTargets(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	streamed := ok(other, 400)
	streamed.TTFT = ms(30)
	store(t, db, each(ok(alpha, 100), ok(alpha, 200), failed(alpha, 5000), streamed)...)

	got, err := NewProviderHealthRepository(db).Find(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	want := Aggregate{
		Providers: map[string]Stats{
			"alpha": {Samples: 4, Successes: 3, LatencyMean: ms(700.0 / 3), LatencyP50: ms(200), LatencyP99: ms(396), TTFTP50: ms(30)},
		},
		Targets: map[llm.Target]Stats{
			alpha: {Samples: 3, Successes: 2, LatencyMean: ms(150), LatencyP50: ms(150), LatencyP99: ms(199)},
			other: {Samples: 1, Successes: 1, LatencyMean: ms(400), LatencyP50: ms(400), LatencyP99: ms(400), TTFTP50: ms(30)},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHealthOfNobodyIsEmpty(t *testing.T) {
	t.Parallel()
	got, err := NewProviderHealthRepository(postgrestest.New(t)).Find(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Providers)+len(got.Targets) != 0 {
		t.Errorf("CF-T26, CF-T27: an empty table has health %+v", got)
	}
}
