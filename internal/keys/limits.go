package keys

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// maxExponent keeps a number that is short to write from being long to reckon.
const maxExponent = 30

// SetLimit writes one limit into l from the text of a number, as the command
// line and the operator API spell it. Returns an error that says which names or
// numbers there are.
func SetLimit(l *llm.Limits, name, value string) error {
	limit := llm.LimitName(name)
	if !slices.Contains(llm.LimitNames(), limit) {
		return fmt.Errorf("%q is no limit; there are %s", name, strings.Join(limitNames(), ", "))
	}
	number, err := decimal.NewFromString(value)
	if err != nil || number.Exponent() > maxExponent || number.Exponent() < -maxExponent {
		return fmt.Errorf("%s must be a number", name)
	}
	if err := checkLimit(limit, number); err != nil {
		return err
	}
	l.Set(limit, number)
	return nil
}

// CheckLimits returns what is wrong with limits that were made otherwise.
func CheckLimits(l llm.Limits) error {
	for _, name := range llm.LimitNames() {
		if allowed, limited := l.Of(name); limited {
			if err := checkLimit(name, allowed); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkLimit(name llm.LimitName, allowed decimal.Decimal) error {
	if problem, remedy := name.Fault(allowed); problem != "" {
		return fmt.Errorf("%s %s; %s", name, problem, remedy)
	}
	return nil
}

func limitNames() []string {
	var names []string
	for _, name := range llm.LimitNames() {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}
