package usage

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/postgres/dbgen"
)

// Repository reads usage_daily.
type Repository struct {
	db      dbgen.DBTX
	queries *dbgen.Queries
}

// NewRepository returns a Repository over a pool or a transaction.
func NewRepository(db dbgen.DBTX) *Repository {
	return &Repository{db: db, queries: dbgen.New()}
}

// Report returns the usage that is asked for. Returns ErrTooLong if it would have
// more than MaxRows rows.
func (r *Repository) Report(ctx context.Context, q Query) (Report, error) {
	by := func(d Dimension) bool { return slices.Contains(q.By, d) }
	rows, err := r.queries.SumUsage(ctx, r.db, dbgen.SumUsageParams{
		FromDay: q.From, ToDay: q.To,
		ByDay: by(ByDay), ByKey: by(ByKey), ByConfiguration: by(ByConfiguration), ByProvider: by(ByProvider), ByModel: by(ByModel),
		RowLimit: MaxRows + 1,
	})
	switch {
	case err != nil:
		return Report{}, fmt.Errorf("sum usage: %w", postgres.Translate(err))
	case len(rows) > MaxRows:
		return Report{}, ErrTooLong
	}
	report := Report{Query: q, Sums: make([]Sum, 0, len(rows))}
	for _, row := range rows {
		sum := sumOf(row)
		report.Sums = append(report.Sums, sum)
		report.Total = report.Total.Plus(sum.Amounts)
	}
	return report, nil
}

// Spent implements budget.Books.
func (r *Repository) Spent(ctx context.Context, scope llm.Scope, days budget.DayRange, runs []uuid.UUID) (day, month budget.Spent, written map[uuid.UUID]bool, err error) {
	asked := dbgen.FindSpentParams{OnDay: days.Day, FromDay: days.From, ToDay: days.To, Runs: runs}
	if runs == nil {
		asked.Runs = []uuid.UUID{}
	}
	switch scope.Kind {
	case llm.ScopeKey:
		asked.APIKeyID = scope.ID
	case llm.ScopeConfiguration:
		asked.Configuration = scope.ID
	}
	row, err := r.queries.FindSpent(ctx, r.db, asked)
	if err != nil {
		return day, month, nil, fmt.Errorf("find what %s %q has spent: %w", scope.Kind, scope.ID, postgres.Translate(err))
	}
	written = make(map[uuid.UUID]bool, len(row.Written))
	for _, id := range row.Written {
		written[id] = true
	}
	day = budget.Spent{Requests: whole(row.DayRequests), Tokens: whole(row.DayTokens), Cost: row.DayCost}
	month = budget.Spent{Requests: whole(row.MonthRequests), Tokens: whole(row.MonthTokens), Cost: row.MonthCost}
	return day, month, written, nil
}

// whole is a sum as a number; one that no number holds is as much as there can
// be, which no limit allows.
func whole(sum decimal.Decimal) int64 {
	if sum.GreaterThan(decimal.NewFromInt(math.MaxInt64)) {
		return math.MaxInt64
	}
	return sum.IntPart()
}

func sumOf(row dbgen.SumUsageRow) Sum {
	return Sum{
		Day: row.Day, KeyID: row.APIKeyID, KeyName: row.APIKeyName,
		Configuration: row.Configuration, Provider: row.Provider, Model: row.Model,
		Amounts: Amounts{
			Requests: row.Requests, Attempts: row.Attempts, Failures: row.Failures,
			InputTokens: row.InputTokens, CachedTokens: row.CachedTokens, CacheWriteTokens: row.CacheWriteTokens,
			OutputTokens: row.OutputTokens, ReasoningTokens: row.ReasoningTokens,
			CostUSD: row.CostUSD, Unpriced: row.Unpriced, Estimated: row.Estimated,
			UnreportedTokens: row.UnreportedTokens, UnreportedUSD: row.UnreportedUSD,
		},
	}
}
