// Package health tells how well providers and their targets have been doing,
// from the attempts that telemetry recorded: only those that reached a verdict
// count. It can put the candidates of a call in the order of their health. It
// must not know circuits, configurations or HTTP, and no call waits for its
// queries: they read a snapshot that one goroutine keeps fresh.
package health

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Settings are those of `health` in the configuration.
type Settings struct {
	Window          time.Duration // attempts that ended within it count
	Refresh         time.Duration // how often the snapshot is taken
	LatencyCeiling  time.Duration // a mean this long loses all that latency can lose
	ReorderFallback bool          // candidates after the first go in the order of their score
	ReorderPrimary  bool          // the first one, too; needs ReorderFallback
}

// Aggregate is what the attempts of a window sum up to.
type Aggregate struct {
	Providers map[string]Stats
	Targets   map[llm.Target]Stats
}

// finder is what the Service needs of the database.
type finder interface {
	Find(ctx context.Context, since time.Time) (Aggregate, error)
}

// Service keeps a snapshot of everyone's health.
type Service struct {
	repo     finder
	log      *slog.Logger
	declared atomic.Pointer[declared]
	snapshot atomic.Pointer[snapshot]

	start, stop sync.Once
	changed     chan struct{} // the settings are new
	done        chan struct{}
	ctx         context.Context
	cancel      context.CancelFunc
}

// declared is what a configuration says.
type declared struct {
	settings Settings
	targets  []llm.Target
}

// snapshot is what the last refresh that went well has found.
type snapshot struct {
	Aggregate
	at    time.Time // zero before the first
	stale bool      // a later refresh failed
}

// New returns a Service that knows nothing yet. The targets are those that
// reports show, whether they have been called or not.
func New(settings Settings, targets []llm.Target, repo finder, log *slog.Logger) *Service {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Service{
		repo: repo, log: log,
		changed: make(chan struct{}, 1), done: make(chan struct{}),
		ctx: ctx, cancel: cancel,
	}
	s.declared.Store(&declared{settings, targets})
	s.snapshot.Store(&snapshot{})
	return s
}

// Reconfigure replaces settings and targets; the snapshot follows soon.
func (s *Service) Reconfigure(settings Settings, targets []llm.Target) {
	s.declared.Store(&declared{settings, targets})
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Start starts keeping the snapshot fresh.
func (s *Service) Start() {
	s.start.Do(func() { go s.refresh() })
}

// Stop ends the refreshing. It may be called twice.
func (s *Service) Stop(ctx context.Context) error {
	s.stop.Do(s.cancel)
	s.start.Do(func() { close(s.done) }) // never started: nothing to wait for
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Score returns a target's score from the snapshot, and false when there is no
// data.
func (s *Service) Score(t llm.Target) (score float64, known bool) {
	return s.snapshot.Load().Targets[t].Score(s.declared.Load().settings.LatencyCeiling)
}

// Stale reports whether the last refresh failed, as it does while the database
// is away.
func (s *Service) Stale() bool { return s.snapshot.Load().stale }
