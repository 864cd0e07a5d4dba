package postgres_test

import (
	"testing"

	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/shopspring/decimal"
)

// Rows are inserted by arrays of their columns.
func TestArraysOfIDsAndDecimalsArriveUnchanged(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	ids := []uuid.UUID{uuid.Nil, uuid.Max, uuid.MustParse("0191e2a0-0000-7000-8000-0123456789ab")}
	costs := []decimal.Decimal{
		decimal.Zero, decimal.NewFromInt(-1), decimal.RequireFromString("1234567890.0123456789"),
		decimal.RequireFromString("0.0000000001"), decimal.New(5, 12),
	}
	var gotIDs, gotCosts []string
	err := pool.QueryRow(t.Context(), "SELECT $1::uuid[]::text[], $2::numeric[]::text[]", ids, costs).Scan(&gotIDs, &gotCosts)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(texts(ids), gotIDs); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(texts(costs), gotCosts); diff != "" {
		t.Errorf("costs (-want +got):\n%s", diff)
	}
}

func texts[T interface{ String() string }](values []T) []string {
	var all []string
	for _, v := range values {
		all = append(all, v.String())
	}
	return all
}
