package budget

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// DefaultLease is how long a reservation outlives the last word of the replica
// that holds it.
const DefaultLease = 30 * time.Second

// LedgerConfig says how a Ledger counts.
type LedgerConfig struct {
	Replica  string         // for people who look into the store; another is made unique
	Location *time.Location // whose days and months count; nil = UTC
	// AllowUnknown: when nobody knows what a scope has spent, its calls are served
	// as if it were only what the replicas have seen; else they are refused.
	AllowUnknown bool
	Lease        time.Duration // 0 = DefaultLease
}

// Ledger counts what scopes spend and what their calls may still spend, so that
// no limit is overshot, on one replica or many. Each scope's counters are one
// hash in the cache, and every change to them is one script. What a call may use
// is reserved before it goes and replaced by the truth when it has ended.
type Ledger struct {
	replica string // unlike any other, also of this process before
	lease   time.Duration
	leased  string // the same as the script takes it
	allow   bool
	books   Books
	log     *slog.Logger

	store   cache.Cache
	private *cache.Memory // the store, where none was given
	inside  bool          // the store is in this process: nothing waits for a network
	local   *cache.Memory // the counters while the store is away

	zone   atomic.Pointer[time.Location]
	today  atomic.Pointer[span] // the period that was asked for last
	purses sync.Map             // of *purse by llm.Scope
	keys   sync.Map             // of *purse by key
	runs   runIndex
	fleet  fleet

	away   atomic.Bool
	heard  atomic.Int64 // when the store last answered, in nanoseconds
	parted atomic.Int64 // scopes about which the store is silent, and about others not
	silent atomic.Int64 // until when failures are not logged, in milliseconds
	tokens atomic.Int64
	wake   chan struct{} // there is something to deliver
	probe  chan struct{} // the store has just gone away
	work   crew          // of rebuilding and telling
	fixed  func() int64  // the time for the scripts, in milliseconds; nil = the store's own

	found time.Time // when the store was found again; of the courier

	mu    sync.Mutex
	queue []*purse // that have messages for the store
	stop  context.CancelFunc
	over  chan struct{} // closed when the goroutines have ended
}

// span is a period with its beginning.
type span struct {
	Period
	zone  *time.Location
	began time.Time
}

// NewLedger returns a ledger on a cache; nil is one of its own, in this process.
// A nil Books knows of nothing. Until Start it tells other replicas nothing.
func NewLedger(cfg LedgerConfig, c cache.Cache, books Books, log *slog.Logger) *Ledger {
	l := &Ledger{
		replica: oneWord(cfg.Replica) + "-" + word(), lease: cfg.Lease, allow: cfg.AllowUnknown,
		books: books, log: log, store: c,
		local: cache.NewMemory(cache.MemoryConfig{}),
		wake:  make(chan struct{}, 1), probe: make(chan struct{}, 1),
	}
	if c == nil {
		l.private = cache.NewMemory(cache.MemoryConfig{})
		l.store = l.private
	}
	if _, l.inside = l.store.(*cache.Memory); l.lease <= 0 {
		l.lease = DefaultLease
	}
	l.leased = number(l.lease.Milliseconds())
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.SetZone(cfg.Location)
	l.fleet.self = l.replica
	return l
}

// oneWord is a name without what parts the words of a field.
func oneWord(name string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, name)
}

// word is a random word, different each time.
func word() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// token is a word by which a rebuilding of this replica is known.
func (l *Ledger) token() string { return number(l.tokens.Add(1)) }

func (l *Ledger) clock() string {
	if l.fixed == nil {
		return ""
	}
	return number(l.fixed())
}

// SetZone changes the zone whose days and months count, for calls from now on.
// What was counted on a day stays with its date.
func (l *Ledger) SetZone(zone *time.Location) {
	if zone == nil {
		zone = time.UTC
	}
	l.zone.Store(zone)
}

// Degraded reports whether the store is away, or silent about some scope: every
// replica then counts for itself, within its share of what was left.
func (l *Ledger) Degraded() bool { return l.away.Load() || l.parted.Load() > 0 }

// period is PeriodAt, which hardly ever changes from one call to the next.
func (l *Ledger) period(at time.Time) Period {
	zone := l.zone.Load()
	if s := l.today.Load(); s != nil && s.zone == zone && !at.Before(s.began) && at.Before(s.DayEnds) {
		return s.Period
	}
	p := PeriodAt(at, zone)
	year, month, day := at.In(zone).Date()
	l.today.Store(&span{Period: p, zone: zone, began: midnight(year, month, day, zone)})
	return p
}

// Governed is a scope and its limits.
type Governed struct {
	Scope  llm.Scope
	Limits llm.Limits
}

// Open returns the account of a run, on which nothing is reserved yet. The run
// counts in the period in which it was received. Scopes are asked in their order.
func (l *Ledger) Open(run uuid.UUID, received time.Time, governed []Governed) *Account {
	a := &Account{run: run, seats: make([]seat, len(governed))}
	period := l.period(received)
	for i, g := range governed {
		a.seats[i] = seat{
			purse: l.purse(g.Scope), caps: capsOf(g.Limits),
			holding: holding{run: run, name: runName(run), period: period},
		}
	}
	return a
}

// purse returns what is known here of a scope.
func (l *Ledger) purse(scope llm.Scope) *purse {
	if p, ok := l.purses.Load(scope); ok {
		return p.(*purse)
	}
	fresh := newPurse(l, scope)
	p, _ := l.purses.LoadOrStore(scope, fresh)
	l.keys.LoadOrStore(fresh.key, p)
	return p.(*purse)
}
