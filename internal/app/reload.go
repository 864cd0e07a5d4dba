package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-llm/breakwater/internal/admin"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/health"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
)

// reload takes over a configuration that may have changed. With a fault in it
// the running one stays, whole. It returns when ctx ends, even from a file system
// that does not answer: that must not keep the gateway from going.
func (g *gateway) reload(ctx context.Context, load func() (*config.Config, error), why string) {
	read, err := loadWhile(ctx, load)
	if ctx.Err() != nil {
		return
	}
	result := telemetry.ReloadRefused
	if err == nil {
		result, err = g.takeOver(read, why)
	}
	g.refused.Store(g.refusal(err))
	if err != nil {
		g.log.Error("configuration was not reloaded, the running one stays", "trigger", why, "error", err)
	}
	g.metrics.ConfigReloaded(result) // last: who sees it counted finds the rest
}

// refusal is what operators see of a configuration that is not taken over; nil
// where it is. What may hold a secret is left to the log: values as they are
// written, and errors of anything but the file's text.
func (g *gateway) refusal(err error) *admin.Refusal {
	if err == nil {
		return nil
	}
	now := time.Now()
	refused := &admin.Refusal{Since: now, Latest: now}
	if before := g.refused.Load(); before != nil {
		refused.Since = before.Since
	}
	var faults config.Faults
	if errors.As(err, &faults) {
		for _, fault := range faults {
			refused.Faults = append(refused.Faults, fault.WithoutValue())
		}
	}
	return refused
}

// loadWhile loads as long as ctx lasts.
func loadWhile(ctx context.Context, load func() (*config.Config, error)) (*config.Config, error) {
	loaded := make(chan struct{})
	var read *config.Config
	var err error
	go func() {
		defer close(loaded)
		read, err = load()
	}()
	select {
	case <-loaded:
		return read, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g *gateway) takeOver(read *config.Config, why string) (telemetry.Reload, error) {
	running := g.runtime.Load()
	next, waiting := running.cfg.Adopt(read)
	if len(waiting) > 0 {
		g.log.Warn("changed keys of the configuration need a restart, the rest is taken over", "keys", waiting)
	}
	if next.Equal(running.cfg) {
		g.log.Info("configuration is as it was", "trigger", why)
		return telemetry.ReloadUnchanged, nil
	}
	if err := g.swap(next, running); err != nil {
		return telemetry.ReloadRefused, err
	}
	g.log.Info("configuration reloaded", "trigger", why, "providers", len(next.Providers), "configurations", len(next.Configurations))
	return telemetry.ReloadApplied, nil
}

// swap makes next the configuration that requests read from now on. What
// outlives a configuration learns of it first, so that nothing of the new one
// is called before it is known; calls in flight end by the old one.
func (g *gateway) swap(next *config.Config, running *runtime) error {
	rt, err := g.newRuntime(next, running)
	if err != nil {
		return fmt.Errorf("build the pipeline: %w", err)
	}
	if err := g.simulators.declare(next); err != nil {
		return fmt.Errorf("set the simulated providers: %w", err)
	}
	g.circuits.Reconfigure(rt.policies.settings)
	g.circuits.Keep(circuitKeys(next))
	g.holds.Reconfigure(rt.policies.hold)
	g.keys.Reconfigure(keySettings(next))
	g.rows.SetZone(next.Budget.Location())
	g.health.Reconfigure(health.Settings(next.Health), next.AllTargets())
	g.metrics.Learn(known(next))
	g.ledger.SetZone(next.Budget.Location())
	g.level.Set(next.Log.SlogLevel())
	g.runtime.Store(rt)
	g.checks.Follow(g.healthChecks(rt))
	running.calls.replace()
	return nil
}
