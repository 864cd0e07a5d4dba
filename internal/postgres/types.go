package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/shopspring/decimal"
)

// registerTypes tells the driver how values of other libraries go over the
// wire. It would find out by itself, by printing each value and reading the
// text back, which costs more than everything else about a row.
func registerTypes(_ context.Context, conn *pgx.Conn) error {
	types := conn.TypeMap()
	types.TryWrapEncodePlanFuncs = append([]pgtype.TryWrapEncodePlanFunc{
		sentAs(func(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }),
		sentAs(func(d decimal.Decimal) pgtype.Numeric {
			return pgtype.Numeric{Int: d.Coefficient(), Exp: d.Exponent(), Valid: true}
		}),
	}, types.TryWrapEncodePlanFuncs...)
	return nil
}

// sentAs makes the driver take a value of type T for the U that convert makes
// of it.
func sentAs[T, U any](convert func(T) U) pgtype.TryWrapEncodePlanFunc {
	return func(value any) (pgtype.WrappedEncodePlanNextSetter, any, bool) {
		v, ok := value.(T)
		if !ok {
			return nil, nil, false
		}
		return &converted[T, U]{convert: convert}, convert(v), true
	}
}

// converted is the driver's plan for a type that goes over as another.
type converted[T, U any] struct {
	convert func(T) U
	next    pgtype.EncodePlan
}

// SetNext implements pgtype.WrappedEncodePlanNextSetter.
func (c *converted[T, U]) SetNext(next pgtype.EncodePlan) { c.next = next }

// Encode implements pgtype.EncodePlan.
func (c *converted[T, U]) Encode(value any, buf []byte) ([]byte, error) {
	return c.next.Encode(c.convert(value.(T)), buf)
}
