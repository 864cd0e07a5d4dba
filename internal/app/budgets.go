package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/admin"
	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/credential"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
)

// newLedger makes the ledger, on the cache that replicas share if there is one.
func (g *gateway) newLedger(cfg *config.Config, books budget.Books) *budget.Ledger {
	return budget.NewLedger(budget.LedgerConfig{
		Replica:      g.writer.Node,
		Location:     cfg.Budget.Location(),
		AllowUnknown: cfg.Budget.OnUnknown == config.OnUnknownAllow,
	}, g.cache, books, g.log)
}

// newBudget holds the calls of a configuration to their limits, by the one ledger
// that outlives it.
func (g *gateway) newBudget(cfg *config.Config) *pipeline.Budget {
	return pipeline.NewBudget(cfg.Limits(), accounts{g.ledger}, bounds(cfg), g.metrics)
}

// accounts is the ledger as the pipeline asks it.
type accounts struct{ *budget.Ledger }

func (a accounts) Open(run uuid.UUID, received time.Time, governed []pipeline.Governed) pipeline.Account {
	asked := make([]budget.Governed, len(governed))
	for i, g := range governed {
		asked[i] = budget.Governed(g)
	}
	return a.Ledger.Open(run, received, asked)
}

// bounds says how much calls can use of each target.
func bounds(cfg *config.Config) *budget.Bounds {
	models := map[llm.Target]budget.Capacity{}
	for _, target := range cfg.AllTargets() {
		m := cfg.Providers[target.Provider].Models[target.Model]
		models[target] = budget.Capacity{ContextWindow: m.ContextWindow, MaxOutput: m.MaxOutput, Media: m.MediaTokens}
	}
	return budget.NewBounds(models, prices(cfg), cfg.Budget.DefaultMaxOutput)
}

// budgets shows operators how limits stand.
type budgets struct{ g *gateway }

// TimeZone is where days and months begin.
func (b budgets) TimeZone() string { return b.g.runtime.Load().cfg.Budget.TimeZone }

// Degraded reports whether this gateway counts by itself what it should count
// together with others.
func (b budgets) Degraded() bool { return b.g.ledger.Degraded() }

// Configurations lists those with limits, ordered by name.
func (b budgets) Configurations() []api.Limited {
	var all []api.Limited
	for name, limits := range b.g.runtime.Load().cfg.Limits() {
		all = append(all, api.Limited{Scope: llm.Scope{Kind: llm.ScopeConfiguration, ID: name}, Name: name, Limits: limits})
	}
	slices.SortFunc(all, byName)
	return all
}

// Keys lists the keys that may be used and have limits, ordered by name.
func (b budgets) Keys(ctx context.Context) ([]api.Limited, error) {
	kept, err := b.g.keys.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list keys with limits: %w", err)
	}
	var all []api.Limited
	for _, key := range kept {
		if key.State(time.Now()) == credential.StateLive && !key.Limits.IsZero() {
			all = append(all, api.Limited{Scope: llm.Scope{Kind: llm.ScopeKey, ID: key.ID.String()}, Name: key.Name, Limits: key.Limits})
		}
	}
	slices.SortFunc(all, byName)
	return all, nil
}

func byName(a, b api.Limited) int {
	switch {
	case a.Name < b.Name:
		return -1
	case a.Name > b.Name:
		return 1
	default:
		return 0
	}
}

// Standing is the ledger's.
func (b budgets) Standing(ctx context.Context, of api.Limited) ([]budget.State, error) {
	return b.g.ledger.Standing(ctx, of.Scope, of.Limits)
}

// standingLimit is how long a scrape waits for what is left of all limits.
const standingLimit = 500 * time.Millisecond

// left is what is left of the limits of configurations, for the metrics. What
// cannot be known in time is left out.
func (g *gateway) left() map[telemetry.Limit]float64 {
	ctx, cancel := context.WithTimeout(context.Background(), standingLimit)
	defer cancel()
	known := map[telemetry.Limit]float64{}
	shown := budgets{g}
	for _, of := range shown.Configurations() {
		states, err := shown.Standing(ctx, of)
		if err != nil {
			continue
		}
		for _, s := range states {
			known[telemetry.Limit{Configuration: of.Name, Name: s.Limit}] = s.Left().InexactFloat64()
		}
	}
	return known
}

// knownLimits names the limits of configurations, for the labels of metrics.
func knownLimits(cfg *config.Config) []telemetry.Limit {
	var all []telemetry.Limit
	for name, limits := range cfg.Limits() {
		for _, limit := range llm.LimitNames() {
			if _, limited := limits.Of(limit); limited {
				all = append(all, telemetry.Limit{Configuration: name, Name: limit})
			}
		}
	}
	return all
}

// stopLedger tells what is still to be told to whom the counters are shared with.
func (g *gateway) stopLedger(ctx context.Context) error {
	g.ledger.Stop(ctx)
	return nil
}

// limitHolders shows operators on a page how limits stand.
type limitHolders struct{ budgets }

// Holders lists the configurations, then the keys. Those of which nobody can tell
// how they stand say so.
func (l limitHolders) Holders(ctx context.Context) ([]admin.LimitHolder, error) {
	keys, err := l.Keys(ctx)
	var all []admin.LimitHolder
	for _, of := range slices.Concat(l.Configurations(), keys) {
		states, unknown := l.Standing(ctx, of)
		all = append(all, admin.LimitHolder{Scope: of.Scope, Name: of.Name, States: states, Err: unknown})
	}
	return all, err
}
