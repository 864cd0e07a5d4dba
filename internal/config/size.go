package config

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Size is a number of bytes, written like 32MiB.
type Size int64

// The units of a Size.
const (
	Byte Size = 1
	KiB       = 1024 * Byte
	MiB       = 1024 * KiB
	GiB       = 1024 * MiB
	TiB       = 1024 * GiB
)

var units = []struct {
	name string
	size Size
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", Byte}}

const sizePattern = `^(\d+)(B|KiB|MiB|GiB|TiB)$`

var sizeText = regexp.MustCompile(sizePattern)

// String writes the size in the largest unit that divides it.
func (s Size) String() string {
	for _, unit := range units {
		if s != 0 && s%unit.size == 0 {
			return strconv.FormatInt(int64(s/unit.size), 10) + unit.name
		}
	}
	return "0B"
}

var (
	errSizeForm  = errors.New("is not a size")
	errSizeLarge = errors.New("is too large")
)

func parseSize(text string) (Size, error) {
	parts := sizeText.FindStringSubmatch(text)
	if parts == nil {
		return 0, errSizeForm
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return 0, errSizeLarge
	}
	for _, unit := range units {
		if unit.name == parts[2] && n <= math.MaxInt64/int64(unit.size) {
			return Size(n) * unit.size, nil
		}
	}
	return 0, errSizeLarge
}

// sizeRemedy says how a size is written, as close as can be to what was meant.
func sizeRemedy(text string) string {
	for _, unit := range []string{"K", "M", "G", "T"} {
		number, ok := strings.CutSuffix(strings.TrimSuffix(strings.ToUpper(text), "B"), unit)
		if _, err := strconv.Atoi(number); ok && err == nil {
			return "write " + number + unit + "iB"
		}
	}
	return "write a whole number and its unit, such as 32MiB"
}
