package app

import (
	"io"
	"log/slog"

	"github.com/breakwater-llm/breakwater/internal/config"
)

// NewLogger returns a logger that writes as the configuration says, and its
// level, which a reload may change.
func NewLogger(cfg config.Log, w io.Writer) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(cfg.SlogLevel())
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: durationsAsText}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options)), level
	}
	return slog.New(slog.NewTextHandler(w, options)), level
}

// durationsAsText writes a duration as 1m30s in both formats; JSON's own would be
// a number of nanoseconds that says so nowhere.
func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// StandardLog is what the standard library's own logger is to write to. Its HTTP
// client reports there, beside everything else, what it did not understand of an
// upstream's bytes, which are nobody's to read: that something was said is
// logged, what was said is not.
func StandardLog(log *slog.Logger) io.Writer { return standardLog{log} }

type standardLog struct{ log *slog.Logger }

// Write logs one line of the standard logger without its text.
func (s standardLog) Write(line []byte) (int, error) {
	s.log.Debug("the standard library has reported something", "bytes", len(line))
	return len(line), nil
}
