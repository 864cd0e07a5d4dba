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
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options)), level
	}
	return slog.New(slog.NewTextHandler(w, options)), level
}
