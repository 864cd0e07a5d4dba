package health

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/postgres/dbgen"
)

// longestAttempt is how long before the window an attempt may have begun that
// ended within it.
const longestAttempt = 24 * time.Hour

// ProviderHealthRepository aggregates recorded attempts.
type ProviderHealthRepository struct {
	db      dbgen.DBTX
	queries *dbgen.Queries
}

// NewProviderHealthRepository returns a repository over a pool.
func NewProviderHealthRepository(db dbgen.DBTX) *ProviderHealthRepository {
	return &ProviderHealthRepository{db: db, queries: dbgen.New()}
}

// Find aggregates the attempts that ended after a moment, in one query.
func (r *ProviderHealthRepository) Find(ctx context.Context, since time.Time) (Aggregate, error) {
	rows, err := r.queries.ListHealth(ctx, r.db, dbgen.ListHealthParams{Since: since, StartedAfter: since.Add(-longestAttempt)})
	if err != nil {
		return Aggregate{}, fmt.Errorf("aggregate attempts: %w", postgres.Translate(err))
	}
	a := Aggregate{Providers: map[string]Stats{}, Targets: map[llm.Target]Stats{}}
	for _, row := range rows {
		if row.IsProvider {
			a.Providers[row.Provider] = statsOf(row)
			continue
		}
		a.Targets[llm.Target{Provider: row.Provider, Model: row.Model, Region: row.Region}] = statsOf(row)
	}
	return a, nil
}

func statsOf(row dbgen.ListHealthRow) Stats {
	return Stats{
		Samples:     row.Samples,
		Successes:   row.Successes,
		LatencyMean: measured(row.LatencySamples, row.LatencyMeanMs),
		LatencyP50:  measured(row.LatencySamples, row.LatencyP50Ms),
		LatencyP99:  measured(row.LatencySamples, row.LatencyP99Ms),
		TTFTP50:     measured(row.TTFTSamples, row.TTFTP50Ms),
	}
}

func measured(samples int64, millis float64) *time.Duration {
	if samples == 0 {
		return nil
	}
	d := time.Duration(millis * float64(time.Millisecond))
	return &d
}
