package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	goruntime "runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/breakwater-llm/breakwater/internal/admin"
	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/health"
	"github.com/breakwater-llm/breakwater/internal/idempotency"
	"github.com/breakwater-llm/breakwater/internal/keys"
	"github.com/breakwater-llm/breakwater/internal/operators"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/prober"
	"github.com/breakwater-llm/breakwater/internal/provider"
	"github.com/breakwater-llm/breakwater/internal/responses"
	"github.com/breakwater-llm/breakwater/internal/runs"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
	"github.com/breakwater-llm/breakwater/internal/telemetry/spool"
	"github.com/breakwater-llm/breakwater/internal/usage"
)

// gateway is the running process: what lives as long as it does, and the
// runtime that requests read.
type gateway struct {
	log   *slog.Logger
	level *slog.LevelVar

	db        *Database
	pool      *pgxpool.Pool
	schema    *schema
	metrics   *telemetry.Metrics
	rows      *telemetry.Repository
	recorder  *telemetry.Recorder
	started   time.Time
	spool     *spool.Spool // nil where its directory cannot be used
	cache     cache.Cache  // shared with other replicas; nil: with none
	ledger    *budget.Ledger
	memory    cache.Cache // what is transient: the same, or one in this process
	circuits  *breaker.Registry
	canaries  *prober.Canaries
	checks    *prober.HealthChecks
	responses *responses.Store

	cacheRefused atomic.Bool // it is there, and does not do what it is told
	tokens       *operators.Tokens
	keys         *keys.Keys
	overrides    *operators.Overrides
	bulkheads    *pipeline.Bulkheads
	flights      *pipeline.Flights
	idempotency  *idempotency.Store
	holds        *provider.Holds
	simulators   *simulators
	health       *health.Service

	runtime atomic.Pointer[runtime]
	refused atomic.Pointer[admin.Refusal] // of the last reload; nil while it was taken over

	writer      api.Writer
	feed        *api.Feed
	pages       *admin.Pages
	gate        *api.Gate
	data, admin *listener
	broken      chan error // what ends the process from inside
}

// newGateway makes everything and starts nothing.
func newGateway(ctx context.Context, cfg *config.Config, db *Database, opts Options) (*gateway, error) {
	pool, err := postgres.Open(ctx, db.URL, postgres.Options{MaxConns: cfg.Database.MaxConns})
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	governing := newCircuitPolicies(cfg)
	g := &gateway{
		log: opts.Log, level: opts.Level, db: db, pool: pool, started: time.Now(),
		schema:     &schema{url: db.URL, mode: cfg.Database.Migrate, log: opts.Log},
		bulkheads:  new(pipeline.Bulkheads),
		flights:    new(pipeline.Flights),
		holds:      provider.NewHolds(governing.hold),
		simulators: new(simulators),
		writer:     api.Writer{Node: nodeName(), Boot: uuid.New()},
		gate:       api.NewGate(),
		broken:     make(chan error, 1),
	}
	if g.level == nil {
		g.level = new(slog.LevelVar)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	g.metrics = telemetry.NewMetrics(registry, known(cfg), opts.Log)
	g.metrics.Build(opts.Version, opts.Commit, goruntime.Version())
	g.rows = telemetry.NewRepository(pool).Named(g.writer.Node, g.writer.Boot)
	g.rows.SetZone(cfg.Budget.Location())
	if g.spool, err = openSpool(cfg, g.metrics, opts.Log); err != nil {
		pool.Close()
		return nil, err
	}
	g.recorder = telemetry.New(telemetry.Config{
		Queue:         cfg.Telemetry.Queue,
		FlushInterval: cfg.Telemetry.FlushInterval,
		Node:          g.writer.Node,
		BootID:        g.writer.Boot,
		Written:       func(runs []uuid.UUID) { g.ledger.Written(runs) },
		Spool:         g.spool,
		Zone:          g.rows.Zone,
	}, g.rows, g.metrics, opts.Log)
	g.schema.ready = g.databaseReady
	if g.cache, err = openCache(cfg.Cache, opts.Log); err != nil {
		pool.Close()
		return nil, errors.Join(err, g.closeSpool())
	}
	g.ledger = g.newLedger(cfg, usage.NewRepository(pool))
	g.memory = orInProcess(g.cache, cfg.Cache)
	g.idempotency = idempotency.New(idempotency.Config{}, g.memory)
	g.responses = responses.New(g.memory)
	turns := prober.NewTurns(g.leases())
	g.canaries = prober.NewCanaries(g.canary, turns, opts.Log)
	g.circuits = g.newCircuits(cfg, governing)
	g.checks = prober.NewHealthChecks(g.circuits, g.checkHealth, turns, opts.Log)
	kept := operators.NewRepository(pool)
	g.tokens = operators.NewTokens(kept)
	g.keys = keys.New(keySettings(cfg), keys.NewRepository(pool), opts.Log)
	g.overrides = operators.NewOverrides(g.circuits, kept, opts.Log)
	g.health = health.New(health.Settings(cfg.Health), cfg.AllTargets(), health.NewProviderHealthRepository(pool), opts.Log)
	g.metrics.ReadFrom(telemetry.Sources{
		Circuits:         g.circuits.Circuits,
		EventsDropped:    g.circuits.EventsDropped,
		Health:           g.health.Score,
		DatabaseDegraded: g.databaseDegraded,
		Left:             g.left,
		Shared:           g.shared,
	})

	rt, err := g.newRuntime(cfg, nil)
	if err != nil {
		pool.Close()
		return nil, errors.Join(err, g.closeSpool())
	}
	g.runtime.Store(rt)
	g.checks.Follow(g.healthChecks(rt))
	g.data = newListener("listen", cfg.Server.Listen, api.NewData(api.Data{
		Snapshot: g.snapshot, Gate: g.gate, Degraded: g.degraded, Refusals: g.metrics, Keys: g.callersKeys(cfg.Auth), Log: opts.Log,
	}), opts.Log)
	g.feed = api.NewFeed(api.FeedConfig{Writer: g.writer})
	g.admin = newListener("admin_listen", cfg.Server.AdminListen, g.newAdmin(registry), opts.Log)
	return g, nil
}

func (g *gateway) newAdmin(registry *prometheus.Registry) http.Handler {
	recorded, used := runs.NewRepository(g.pool), usage.NewRepository(g.pool)
	circuits := declaredCircuits{g}
	g.pages = admin.New(admin.Deps{
		Circuits: circuits, Steering: g.overrides, Policy: g.pagePolicy, Callers: g.callers, Health: g.health,
		Runs: recorded, Usage: used, Zone: g.zone, Limits: limitHolders{budgets{g}}, History: recorded, Alarms: g.metrics, Database: g.database, CacheAway: g.sharedStateDegraded, Refused: g.refused.Load, Log: g.log,
	})
	return api.NewAdmin(api.Admin{
		Snapshot:     g.snapshot,
		Gate:         g.gate,
		Degraded:     g.degraded,
		Circuits:     circuits,
		Budgets:      budgets{g},
		Steering:     g.overrides,
		Tokens:       g.tokens,
		Keys:         g.keys,
		Events:       recorded,
		Writer:       g.writer,
		Feed:         g.feed,
		Runs:         recorded,
		Usage:        used,
		Zone:         g.zone,
		Health:       g.health,
		DatabaseAway: func(err error) bool { return errors.Is(err, postgres.ErrUnavailable) },
		Config:       g.maskedConfig,
		Responses:    keptResponses{g},
		Simulators:   g.simulators,
		Pages:        g.pages.Register,
		Nowhere:      g.pages.Nowhere,
		Metrics:      promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		Log:          g.log,
	})
}

// zone is where days and months of usage and budgets begin.
func (g *gateway) zone() *time.Location { return g.runtime.Load().cfg.Budget.Location() }

func (g *gateway) snapshot() *api.Snapshot { return g.runtime.Load().snapshot }

// pagePolicy is what governs a circuit, for the page.
func (g *gateway) pagePolicy(circuit string) admin.Policy {
	policy := g.runtime.Load().policies.of(circuit)
	return admin.Policy{Name: policy.Name, Override: policy.Override, Canary: policy.Settings.Canary}
}

// degraded names the helpers that are away while calls are served.
func (g *gateway) degraded() []string {
	var away []string
	if g.databaseDegraded() {
		away = append(away, "database")
	}
	if g.sharedStateDegraded() {
		away = append(away, "cache")
	}
	if g.spoolState().Trouble != "" {
		away = append(away, "spool")
	}
	return away
}

func (g *gateway) databaseDegraded() bool {
	return !g.schema.Settled() || g.recorder.Degraded() || g.health.Stale()
}

// database is how the gateway stands with its database, for the page.
func (g *gateway) database() admin.Database {
	return admin.Database{
		Away: g.databaseDegraded(), Waiting: g.recorder.Waiting(), Room: g.runtime.Load().cfg.Telemetry.Queue,
		Spool: g.spoolState(),
	}
}

// databaseReady begins what needs the schema: until then records wait in the
// spool, and what operators decide is kept in memory.
func (g *gateway) databaseReady() {
	g.recorder.Start()
	g.overrides.Start()
	g.keys.Start()
}

func keySettings(cfg *config.Config) keys.Settings {
	return keys.Settings{CacheTTL: cfg.Auth.CacheTTL, OutageTTL: cfg.Auth.OutageTTL}
}

// callersKeys knows who calls; nil while auth is open.
func (g *gateway) callersKeys(auth config.Auth) api.Keys {
	if auth.Mode == config.AuthOpen {
		return nil
	}
	return g.keys
}

// recordsOf is where runs and circuit events go under a configuration: into
// rows, or, with telemetry off, into metrics and usage alone.
func (g *gateway) recordsOf(cfg *config.Config) records {
	if cfg.Telemetry.Enabled {
		return g.recorder
	}
	return g.recorder.WithoutRows()
}

// records counts what happened, and keeps it where that is wanted.
type records interface {
	pipeline.Recorder
	CircuitEvent(e breaker.Event)
}

// known is what the labels of metrics are made of.
func known(cfg *config.Config) telemetry.Known {
	k := telemetry.Known{
		Targets:      cfg.AllTargets(),
		Helpers:      slices.Concat(cfg.ContextCircuits(), cfg.HealthChecks()),
		Canaries:     canaryTargets(cfg),
		Limits:       knownLimits(cfg),
		HealthChecks: cfg.HealthChecks(),
		Credentials:  map[string]int{},
		Direct:       cfg.DirectTargets,
		RefusalCodes: api.RefusalCodes(),
		Prices:       prices(cfg),
	}
	for name, p := range cfg.Providers {
		if n := len(p.Credentials()); n > 1 {
			k.Credentials[name] = n
		}
	}
	for name, c := range cfg.Configurations {
		k.Configurations = append(k.Configurations, telemetry.KnownConfiguration{
			Name: name, Targets: cfg.Targets(name), FallbackOn: c.Fallback(),
		})
	}
	return k
}

// maskedConfig is the effective configuration as JSON, without its secrets.
func (g *gateway) maskedConfig() ([]byte, error) { return g.runtime.Load().cfg.ShowJSON() }

// nodeName is under what name this process writes circuit events.
func nodeName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
