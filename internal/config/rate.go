package config

import (
	"errors"
	"math"

	"github.com/shopspring/decimal"
)

// Rate is a share of calls in parts per million, written as a fraction like
// 0.25. It is exact: what has more places is refused.
type Rate int64

const ratePlaces = 6

var errPlaces = errors.New("has more than six decimal places")

// String writes the fraction.
func (r Rate) String() string { return decimal.New(int64(r), -ratePlaces).String() }

func rateOf(fraction string) (Rate, error) {
	d, err := decimal.NewFromString(fraction)
	if err != nil {
		return 0, err
	}
	millionths := d.Shift(ratePlaces)
	switch limit := decimal.NewFromInt(math.MaxInt64); {
	case millionths.GreaterThan(limit):
		return math.MaxInt64, nil
	case millionths.LessThan(limit.Neg()):
		return -math.MaxInt64, nil
	case !millionths.IsInteger():
		return 0, errPlaces
	default:
		return Rate(millionths.IntPart()), nil
	}
}
