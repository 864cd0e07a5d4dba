package config

import (
	"strings"
	"time"
)

// readable writes a duration without the zero parts that Go adds: 10m, not
// 10m0s.
func readable(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
