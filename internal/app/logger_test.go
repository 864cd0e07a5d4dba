package app

import (
	"bytes"
	"log"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/config"
)

func TestDurationsAreReadableInBothFormats(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"json": `"open_for":"1m30s","of":{"wait":"250ms"},"calls":7`,
		"text": `open_for=1m30s of.wait=250ms calls=7`,
	} {
		var out bytes.Buffer
		log, _ := NewLogger(config.Log{Level: "info", Format: format}, &out)
		log.Info("circuit changed", "open_for", 90*time.Second, slog.Group("of", "wait", 250*time.Millisecond), "calls", 7)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s; want %s", format, out.String(), want)
		}
	}
}

// The HTTP client reports an upstream's unexpected bytes to the standard logger.
func TestTheStandardLoggerSaysNothingOfUpstreams(t *testing.T) {
	t.Parallel()
	for level, lines := range map[string]int{"debug": 1, "info": 0} {
		var out bytes.Buffer
		to, _ := NewLogger(config.Log{Level: level, Format: "json"}, &out)
		log.New(StandardLog(to), "", log.LstdFlags).Printf("Unsolicited response received on idle HTTP channel starting with %q", "sk-secret")
		if strings.Contains(out.String(), "sk-secret") || strings.Contains(out.String(), "Unsolicited") {
			t.Errorf("%s: the text was logged: %s", level, out.String())
		}
		if got := strings.Count(out.String(), "standard library"); got != lines || strings.Count(out.String(), "\n") != lines {
			t.Errorf("%s: %d lines, want %d: %s", level, got, lines, out.String())
		}
	}
}
