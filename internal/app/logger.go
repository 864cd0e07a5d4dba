package app

import (
	"io"
	"log/slog"

	"github.com/breakwater-llm/breakwater/internal/config"
)

// NewLogger returns a logger that writes as the configuration says.
func NewLogger(cfg config.Log, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.SlogLevel()}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
