package config

import (
	"math"
	"testing"
	"time"
)

func TestSizesReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{
		"0B": 0, "1B": 1, "1023B": 1023, "1KiB": 1024, "32MiB": 32 << 20, "1GiB": 1 << 30, "2TiB": 2 << 40,
		"9223372036854775807B": math.MaxInt64,
	} {
		got, err := parseSize(text)
		if err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
		if got.String() != text {
			t.Errorf("%s: written back as %s", text, got)
		}
	}
	for _, text := range []string{"", "1", "-1B", "1.5MiB", "1 MiB", "1MB", "1mib", "MiB", "0x1B", "9223372036854775808B", "8388608TiB", "99999999999999999999999B"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is read as %d, want a refusal", text, got)
		}
	}
}

func TestSizeRemedyNamesTheUnitThatWasMeant(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"32MB": "write 32MiB", "32mb": "write 32MiB", "1g": "write 1GiB", "7K": "write 7KiB",
		"many": "write a whole number and its unit, such as 32MiB",
		"1024": "write a whole number and its unit, such as 32MiB",
	} {
		if got := sizeRemedy(text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestDurationsAreReadable(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s": 0, "250ms": 250 * time.Millisecond, "30s": 30 * time.Second, "10m": 10 * time.Minute, "720h": 720 * time.Hour,
		"1h30m": 90 * time.Minute, "1m30s": 90 * time.Second, "1h0m5s": time.Hour + 5*time.Second, "20m": 20 * time.Minute,
	} {
		if got := readable(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
