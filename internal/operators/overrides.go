package operators

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// Circuits are told what people decide, which a *breaker.Registry is.
type Circuits interface {
	Command(ctx context.Context, key string, c breaker.Command) (breaker.Snapshot, error)
	// Circuit returns false for one that is not in use.
	Circuit(key string) (breaker.Snapshot, bool)
}

// Override is an operator state of a circuit as it is kept. Times are by the
// database's clock.
type Override struct {
	Key    string
	State  string // forced_open, disabled or shadow
	Reason string // in the operator's words; may be empty
	Actor  string
	SetAt  time.Time  // of two decisions about one circuit the later one holds
	Until  *time.Time // nil = until somebody ends it
}

// overrideStore keeps overrides where every gateway of one database sees them.
type overrideStore interface {
	// Time is what the store's clock shows.
	Time(ctx context.Context) (time.Time, error)
	ListOverrides(ctx context.Context) ([]Override, error)
	// SaveOverride reports false when a later decision is kept already.
	SaveOverride(ctx context.Context, o Override) (bool, error)
	// DeleteOverride ends what was decided until then.
	DeleteOverride(ctx context.Context, key string, until time.Time) error
	DeleteExpiredOverrides(ctx context.Context) error
}

const (
	// followEvery is how often the decisions of other gateways are looked for.
	followEvery = 2 * time.Second
	// reassertEvery is how often circuits are told again what they know: a
	// shared cache forgets it after an hour.
	reassertEvery = 10 * time.Minute
	// storeTimeout bounds one piece of work with the database.
	storeTimeout = 2 * time.Second
	// buried is how long the end of an operator state is remembered, should a
	// write that was under way bring the state back.
	buried = 10 * time.Minute
)

// Overrides keeps what people decide about circuits: it tells the circuits at
// once, writes the decision down, now or when the database is back, and follows
// what is decided on other gateways. Of two decisions about one circuit the
// later one holds, by the database's clock; so a gateway that was cut off from
// the database never undoes what was decided meanwhile.
type Overrides struct {
	circuits Circuits
	store    overrideStore
	log      *slog.Logger

	telling chan struct{} // held while circuits are told
	writing chan struct{} // held while the store is at work; taken before telling

	mu      sync.Mutex
	clock   clock
	decided map[string]decision // by circuit key

	following atomic.Bool // false while the store cannot be read
	reassert  atomic.Bool
	wake      chan struct{}
	begin     sync.Once
	ctx       context.Context // of the loop
	cancel    context.CancelFunc
	done      chan struct{}
}

// decision is what was decided last about a circuit, as far as is known here.
type decision struct {
	command breaker.Command // what the circuit was told; For counts from made
	made    time.Time       // here
	setAt   time.Time       // by the store's clock; zero until that is known
	floor   time.Time       // of the decision it replaced: setAt is later
	saved   bool
}

// NewOverrides returns the overrides of a store, which a *Repository is.
// Nothing is read before Start; commands work at any time.
func NewOverrides(circuits Circuits, store overrideStore, log *slog.Logger) *Overrides {
	o := &Overrides{
		circuits: circuits, store: store, log: log,
		telling: make(chan struct{}, 1), writing: make(chan struct{}, 1),
		decided: map[string]decision{},
		wake:    make(chan struct{}, 1), done: make(chan struct{}),
	}
	o.following.Store(true)
	o.ctx, o.cancel = context.WithCancel(context.Background())
	return o
}

// Start takes over what is kept, before it returns where the database is there,
// and follows it from then on.
func (o *Overrides) Start() {
	o.begin.Do(func() {
		o.follow()
		go o.run()
	})
}

// Stop ends the following and writes what is not written yet. It returns an
// error that names the circuits whose last decision could not be kept; it may
// be called again.
func (o *Overrides) Stop(ctx context.Context) error {
	o.cancel()
	o.begin.Do(func() { close(o.done) }) // it was never started
	select {
	case <-o.done:
	case <-ctx.Done():
		return fmt.Errorf("stop following operator decisions: %w", context.Cause(ctx))
	}
	keys := o.unsaved()
	if len(keys) == 0 {
		return nil
	}
	err := o.flush(ctx)
	if keys = o.unsaved(); len(keys) == 0 {
		return nil
	}
	return fmt.Errorf("operator decisions are not kept over this restart: %s: %w; decide again then", strings.Join(keys, ", "), err)
}

// Reassert makes the circuits be told again, soon, what is decided about them,
// as when the cache that they share has lost it.
func (o *Overrides) Reassert() {
	o.reassert.Store(true)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Command tells a circuit what somebody has decided and keeps the decision. It
// reports false when that could not be written down yet: the circuit does as it
// was told, and the decision is written when the database is back.
func (o *Overrides) Command(ctx context.Context, key string, c breaker.Command) (circuit breaker.Snapshot, saved bool, err error) {
	circuit, err = o.decide(ctx, key, c)
	if err != nil {
		return breaker.Snapshot{}, false, err
	}
	// Who asked may leave; what was decided is to be kept all the same.
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	saved, err = o.save(saving, key)
	if err != nil {
		o.log.Warn("operator decision cannot be saved, it is kept in memory until it can", "circuit", key, "error", err)
	}
	return circuit, saved, nil
}

func (o *Overrides) decide(ctx context.Context, key string, c breaker.Command) (breaker.Snapshot, error) {
	if err := take(ctx, o.telling); err != nil {
		return breaker.Snapshot{}, fmt.Errorf("command circuit %s: %w", key, err)
	}
	defer give(o.telling)
	circuit, err := o.circuits.Command(ctx, key, c)
	if err != nil {
		return breaker.Snapshot{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.decided[key]
	made := decision{command: c, made: time.Now(), floor: latest(before.setAt, before.floor)}
	o.decided[key] = made.dated(o.clock)
	return circuit, nil
}

// save writes the last decision about a circuit, whoever made it, and reports
// whether it is what the store keeps.
func (o *Overrides) save(ctx context.Context, key string) (bool, error) {
	if err := take(ctx, o.writing); err != nil {
		return false, err
	}
	defer give(o.writing)
	if !o.readable() {
		if err := o.readClock(ctx); err != nil {
			return false, err
		}
	}
	return o.write(ctx, key)
}

// write is save for who holds writing and knows the time.
func (o *Overrides) write(ctx context.Context, key string) (kept bool, err error) {
	o.mu.Lock()
	d, ok := o.decided[key]
	d = d.dated(o.clock)
	if ok {
		o.decided[key] = d
	}
	o.mu.Unlock()
	switch {
	case !ok || d.saved:
		return true, nil
	case d.ended():
		kept, err = true, o.store.DeleteOverride(ctx, key, d.setAt)
	default:
		kept, err = o.store.SaveOverride(ctx, d.override(key))
	}
	if err != nil {
		return false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := o.decided[key]; now.setAt.Equal(d.setAt) {
		now.saved = true
		o.decided[key] = now
	}
	return kept, nil
}

// unsaved lists the circuits whose last decision is to be written.
func (o *Overrides) unsaved() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var keys []string
	for key, d := range o.decided {
		if !d.saved && !d.over(time.Now()) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// flush writes what is not written yet.
func (o *Overrides) flush(ctx context.Context) error {
	var faults []error
	for _, key := range o.unsaved() {
		_, err := o.save(ctx, key)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// take waits for a turn; give ends it.
func take(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func give(turn chan struct{}) { <-turn }
