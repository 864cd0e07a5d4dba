package config

import (
	"path/filepath"
	"time"
)

// Telemetry is the record of every call.
type Telemetry struct {
	Enabled       bool          `yaml:"enabled" doc:"Whether calls are recorded."`
	Retention     time.Duration `yaml:"retention" check:"min=1h" doc:"Age at which a record may be purged."`
	Usage         time.Duration `yaml:"usage" check:"min=768h" doc:"Age at which a day's usage may be purged; at least 32 days, so that a month's budget is never forgotten."`
	Queue         int           `yaml:"queue" check:"min=1,max=16777216" change:"restart" doc:"Records that may wait to be written; more are dropped and counted."`
	FlushInterval time.Duration `yaml:"flush_interval" check:"over=0s" change:"restart" doc:"Longest time that a record waits for others."`
	SpoolDir      string        `yaml:"spool_dir" change:"restart" doc:"Where records wait on disk while the database is away; empty = spool in database.data_dir. It belongs to one gateway."`
	SpoolMax      Size          `yaml:"spool_max" check:"min=1MiB" change:"restart" doc:"What they may take on disk."`
}

// SpoolDir is where records wait on disk.
func (c *Config) SpoolDir() string {
	if c.Telemetry.SpoolDir != "" {
		return c.Telemetry.SpoolDir
	}
	return filepath.Join(c.Database.DataDir, "spool")
}

func defaultTelemetry() Telemetry {
	return Telemetry{Enabled: true, Retention: 30 * 24 * time.Hour, Usage: 400 * 24 * time.Hour, Queue: 65536, FlushInterval: 250 * time.Millisecond, SpoolMax: GiB}
}

// Health is how providers are scored from their recorded attempts.
type Health struct {
	Window          time.Duration `yaml:"window" check:"over=0s" doc:"How far back a score looks."`
	Refresh         time.Duration `yaml:"refresh" check:"over=0s" doc:"How old a score may be before it is read again."`
	LatencyCeiling  time.Duration `yaml:"latency_ceiling" check:"over=0s" doc:"Mean latency from which on speed adds nothing to a score."`
	ReorderFallback bool          `yaml:"reorder_fallback" doc:"Whether healthier fallback targets are tried first."`
	ReorderPrimary  bool          `yaml:"reorder_primary" doc:"Whether reordering may also move the first target."`
}

func defaultHealth() Health {
	return Health{Window: 15 * time.Minute, Refresh: 5 * time.Second, LatencyCeiling: 5 * time.Second}
}

// check refuses a switch that another one leaves without effect.
func (h Health) check(r *report) {
	if h.ReorderPrimary && !h.ReorderFallback {
		r.fault("health.reorder_primary", "has no effect while reorder_fallback is false", "write reorder_fallback: true too, or remove it")
	}
}
