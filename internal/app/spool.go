package app

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/breakwater-llm/breakwater/internal/admin"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
	"github.com/breakwater-llm/breakwater/internal/telemetry/spool"
)

// openSpool takes the directory where records wait while the database is away. One
// that another gateway has is an error: each would write what the other has. One
// that cannot be used costs nobody a call, so the gateway does without.
func openSpool(cfg *config.Config, metrics *telemetry.Metrics, log *slog.Logger) (*spool.Spool, error) {
	dir := cfg.SpoolDir()
	s, err := spool.Open(spool.Config{Dir: dir, Max: int64(cfg.Telemetry.SpoolMax), Damaged: metrics.SpoolDamaged}, log)
	switch {
	case errors.Is(err, spool.ErrInUse):
		return nil, fmt.Errorf("%w: another gateway keeps its records in %s; give each a telemetry.spool_dir of its own", err, dir)
	case err != nil:
		log.Error("records cannot be kept on disk, while the database is away they wait in memory alone; make telemetry.spool_dir a directory that this user may write", "dir", dir, "error", err)
		return nil, nil
	}
	if n := s.Bytes(); n > 0 {
		log.Info("records of before wait in the spool", "dir", dir, "bytes", n)
	}
	return s, nil
}

// spoolState is how the gateway stands with its spool.
func (g *gateway) spoolState() admin.Spool {
	if g.spool == nil {
		return admin.Spool{Trouble: admin.SpoolUnusable, Since: g.started}
	}
	state := admin.Spool{Bytes: g.spool.Bytes(), Max: g.spool.Max()}
	since, err := g.recorder.SpoolTrouble()
	switch {
	case errors.Is(err, spool.ErrFull):
		state.Trouble, state.Since = admin.SpoolFull, since
	case err != nil:
		state.Trouble, state.Since = admin.SpoolFailing, since
	}
	return state
}

// closeSpool leaves the directory to the next gateway.
func (g *gateway) closeSpool() error {
	if g.spool == nil {
		return nil
	}
	return g.spool.Close()
}
