package spool

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	suffix      = ".spool"
	suffixAside = ".bad" // behind the other one
)

// segmentName has as many digits for every number, so that names sort as numbers.
func segmentName(number uint64) string { return fmt.Sprintf("%016x%s", number, suffix) }

// parseName reads the name of a segment, or of one that was set aside.
func parseName(name string) (number uint64, aside, ok bool) {
	name, aside = strings.CutSuffix(name, suffixAside)
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 16 {
		return 0, false, false
	}
	number, err := strconv.ParseUint(digits, 16, 64)
	return number, aside, err == nil && segmentName(number) == name
}
