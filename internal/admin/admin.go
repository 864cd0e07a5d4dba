// Package admin is the operators' interface: server-drawn pages, one file per
// page action, each a view model that web/templates draws. The pages work
// without scripts; with them, a stream of events keeps the overview live.
//
// It reads what the gateway knows through small interfaces and turns it into
// words. It must not know how calls are served or stored: the pipeline, the
// providers and the database are none of its business, and neither is who may
// reach it: that is checked by the listener it is mounted on.
package admin

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/health"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/runs"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
	"github.com/breakwater-llm/breakwater/web"
)

// Where the pages are, beside the overview at "/".
const (
	runsPath     = "/runs/"
	circuitsPath = "/circuits/"
	limitsPath   = "/limits"
	livePath     = "/live"
	usagePath    = "/usage"
)

// Circuits reads the circuits as they are now.
type Circuits interface {
	Circuits() []breaker.Snapshot
}

// Configuration is what clients may name in place of a model, and the targets
// that are tried for it, in that order.
type Configuration struct {
	Name    string
	Targets []llm.Target
	Need    Need
}

// Callers is what clients may name.
type Callers struct {
	Configurations []Configuration
	Direct         bool // and targets themselves, too
	DirectNeed     Need // of who names a target
}

// Policy is what governs a circuit: a profile of the configuration or its base,
// and the pattern that chose it, if one did.
type Policy struct {
	Name, Override string
	Canary         bool // a call of the gateway's own finds out whether its target is well again
}

// Health reads how well the targets have been doing. Its report names every
// target that is declared.
type Health interface {
	Report() health.Report
}

// Runs reads what was recorded of calls.
type Runs interface {
	List(ctx context.Context, f runs.Filter) (runs.Page, error)
	// Find returns runs.ErrNotFound when there is no such run.
	Find(ctx context.Context, id uuid.UUID) (runs.Run, []runs.Attempt, error)
	// LatestOwn returns the latest call that the gateway made on its own account,
	// or runs.ErrNotFound.
	LatestOwn(ctx context.Context, operation, correlationID string) (runs.Run, error)
	// KeyNames returns the names of API keys by id; one that is not known has none.
	KeyNames(ctx context.Context, ids []string) (map[string]string, error)
}

// History reads what has happened to a circuit.
type History interface {
	ListEvents(ctx context.Context, f runs.EventFilter) (runs.EventPage, error)
}

// Alarms reads what only a person can put right.
type Alarms interface {
	Alarms() []telemetry.Alarm
}

// Database is how the gateway stands with the database that keeps the records.
type Database struct {
	Away    bool
	Waiting int // records that wait for it in memory
	Room    int // how many of each kind may wait there
	Spool   Spool
}

// Spool is where records wait on disk while the database is away.
type Spool struct {
	Trouble    SpoolTrouble
	Since      time.Time // of the trouble
	Bytes, Max int64     // what waits, and what may
}

// SpoolTrouble is why nothing can wait on disk; empty while it can.
type SpoolTrouble string

// The troubles of a spool.
const (
	SpoolUnusable SpoolTrouble = "unusable" // its directory could not be used at the start
	SpoolFull     SpoolTrouble = "full"
	SpoolFailing  SpoolTrouble = "failing" // its disk does not take what is written
)

// Refusal is a changed configuration that the gateway did not take over.
type Refusal struct {
	Since  time.Time // from when on none was taken over
	Latest time.Time // the last time that one was refused
	Faults []string  // what is wrong with the last, one line each, without a secret; none: only the log says
}

// Deps are what the pages are drawn from.
type Deps struct {
	Circuits Circuits
	Policy   func(circuit string) Policy
	Callers  func() Callers
	Health   Health
	Runs     Runs
	Usage    Usage
	// Zone is the time zone in which the days of usage begin.
	Zone     func() *time.Location
	History  History
	Alarms   Alarms
	Database func() Database
	// CacheAway reports whether the gateways cannot reach what they share; nil
	// where they share nothing.
	CacheAway func() bool
	// Refused is the refusal that no reload has made good; nil where there is none,
	// or configurations are not reloaded.
	Refused  func() *Refusal
	Steering Steering // nil where circuits are only looked at
	Limits   Limits
	Log      *slog.Logger

	// Refresh is how often a live page is drawn anew when nothing happens; 0
	// means every two seconds.
	Refresh time.Duration
	// MaxLive is how many pages may be live at once; 0 means 32.
	MaxLive int
}

// Pages serves the interface.
type Pages struct {
	Deps
	files  *web.Files
	stream *stream
}

// New returns the pages.
func New(deps Deps) *Pages {
	if deps.Refresh == 0 {
		deps.Refresh = 2 * time.Second
	}
	if deps.MaxLive == 0 {
		deps.MaxLive = 32
	}
	return &Pages{Deps: deps, files: web.New(), stream: newStream(deps.MaxLive)}
}

// Register adds the routes of the interface, which are all there are.
func (p *Pages) Register(g *echo.Group) {
	g.GET("/", p.overview, secured, p.explained)
	g.GET(runsPath+":id", p.run, secured, p.explained)
	g.GET(circuitsPath+":key", p.circuit, secured, p.explained)
	if p.Steering != nil {
		g.GET(circuitsPath+":key/:action", p.askCommand, secured, p.explained)
		g.POST(circuitsPath+":key/:action", p.command, secured, p.explained)
	}
	g.GET(limitsPath, p.limitsPage, secured, p.explained)
	g.GET(usagePath, p.usage, secured, p.explained)
	g.GET(livePath, p.live, secured, p.explained)
	g.GET(web.Root+"*", echo.WrapHandler(p.files), secured)
	g.HEAD(web.Root+"*", echo.WrapHandler(p.files), secured)
}

// CircuitEvent tells the live pages that a circuit moved. It never blocks.
func (p *Pages) CircuitEvent(breaker.Event) { p.stream.wake() }

// Stop ends the live pages and waits until they are gone. It returns an error
// when ctx ends first, and may be called again. Whoever asks for a live page
// afterwards is refused.
func (p *Pages) Stop(ctx context.Context) error { return p.stream.stop(ctx) }
