package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
)

type telemetryCmd struct {
	Purge telemetryPurgeCmd `cmd:"" help:"Delete expired telemetry from every telemetry table, and usage past its own age."`
}

type telemetryPurgeCmd struct {
	configFlag
	Days      *int           `placeholder:"N" help:"Delete records older than N days."`
	OlderThan *time.Duration `placeholder:"720h" help:"Delete records older than this."`
	DryRun    bool           `help:"Only count what would be deleted."`
}

// Run prints how many rows each table lost, or would lose. Sums of usage have an
// age of their own.
func (c telemetryPurgeCmd) Run(ctx context.Context, std streams) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	age, err := c.age(cfg.Telemetry.Retention)
	if err != nil {
		return err
	}
	return withExisting(ctx, cfg, std, func(url string) error {
		pool, err := postgres.Open(ctx, url, postgres.Options{MaxConns: 1})
		if err != nil {
			return err
		}
		defer pool.Close()
		tables, now := telemetry.NewRepository(pool), time.Now()
		purged, err := tables.Purge(ctx, now.Add(-age), c.DryRun)
		if err == nil {
			var usage telemetry.Purged
			usage, err = tables.PurgeUsage(ctx, now.Add(-cfg.Telemetry.Usage), c.DryRun)
			purged = append(purged, usage)
		}
		done := "deleted"
		if c.DryRun {
			done = "would delete"
		}
		for _, p := range purged {
			fmt.Fprintf(std.Out, "%s: %s %d row(s)\n", p.Table, done, p.Rows)
		}
		return err
	})
}

// age is how old a row must be to be deleted. An age that would delete what is
// being written now is refused.
func (c telemetryPurgeCmd) age(retention time.Duration) (time.Duration, error) {
	switch {
	case c.Days != nil && c.OlderThan != nil:
		return 0, usageError{errors.New("--days and --older-than exclude each other: give one of them")}
	case c.Days != nil && *c.Days < 1:
		return 0, usageError{fmt.Errorf("--days %d would delete everything: give at least 1", *c.Days)}
	case c.Days != nil && *c.Days > maxDays:
		return 0, usageError{fmt.Errorf("--days %d is too many: give at most %d", *c.Days, maxDays)}
	case c.OlderThan != nil && *c.OlderThan <= 0:
		return 0, usageError{fmt.Errorf("--older-than %s would delete everything: give a duration such as 720h", *c.OlderThan)}
	case c.Days != nil:
		return time.Duration(*c.Days) * 24 * time.Hour, nil
	case c.OlderThan != nil:
		return *c.OlderThan, nil
	default:
		return retention, nil
	}
}

// maxDays keeps an age within what a duration can hold.
const maxDays = 36500
