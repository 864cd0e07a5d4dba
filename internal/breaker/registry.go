package breaker

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Config is what a registry is made of.
type Config struct {
	// Settings returns the settings of a key; they must be valid. It is asked
	// once when a circuit is made and once per Reconfigure.
	Settings func(key string) Settings
	// OnEvent is told every transition, in order, from one goroutine and
	// outside of all locks, so that it may call back. While it is slow events
	// wait, and when too many do they are dropped and counted. May be nil.
	OnEvent func(Event)
	// Store is where circuits are shared with other replicas whose settings say
	// so; nil: nowhere.
	Store Store
	// StoreTimeout is the longest that a step of the store may take; 0 means
	// DefaultStoreTimeout. StoreClock replaces its clock, in microseconds; nil
	// means its own.
	StoreTimeout time.Duration
	StoreClock   func() int64
	// OnStoreRefuses is told when the store answers and does not do what it is
	// told, once until OnStoreBack is told; nil: nobody is. It must not block.
	OnStoreRefuses func(err error)
	// OnStoreBack is told when the store is there again after it was away; nil:
	// nobody is. It must not block.
	OnStoreBack func()
	// Group names the group of a key by the key of a circuit of its own, under
	// which it is shown (R40); empty: none. Siblings lists, per route that leads
	// to a key, all keys that it leads to. Both may be nil.
	Group    func(key string) string
	Siblings func(key string) [][]string
	// Canary makes a cheap call to what stands behind the key and ends the permit
	// by what came of it; a neutral end says that the call could not be made. It
	// is called from a goroutine of its own, for circuits whose settings want it;
	// nil: there is nobody to make one, and calls probe. ctx ends with Stop.
	Canary func(ctx context.Context, key string, p *Permit)
	// Now returns the monotonic time since some start; nil means the real one.
	Now func() time.Duration
	// Jitter returns a number in [0, 1); nil means a random one.
	Jitter func() float64
}

// Registry holds one circuit per key, made when the key is first used and let
// go when it is idle (R39). There is no goroutine and no timer per key.
type Registry struct {
	now     func() time.Duration
	jitter  func() float64
	onEvent func(Event)

	canary      func(ctx context.Context, key string, p *Permit)
	replica     *replica // nil: there is no store
	siblings    func(key string) [][]string
	groups      rollups
	onStoreBack func()
	onRefusal   func(error)

	policy   atomic.Pointer[policy]
	circuits sync.Map // string → *circuit
	kept     atomic.Pointer[map[string]bool]
	outbox   *outbox
	wake     chan struct{} // for the sweeper: an episode has begun, or calls are about to be slow
	sweepAt  atomic.Int64  // when the sweeper looks next; the end of time while it is looking

	mu      sync.Mutex
	stop    chan struct{}
	stopped bool
	running []<-chan struct{} // each closed when its goroutine has ended
	flock   flock
}

// policy is one version of the function that knows the settings. Circuits with
// equal settings share them.
type policy struct {
	version  uint64
	settings func(key string) Settings
	shared   sync.Map // Settings → *Settings
}

func (p *policy) of(key string) *Settings {
	s := p.settings(key)
	if known, ok := p.shared.Load(s); ok {
		return known.(*Settings)
	}
	kept := new(Settings)
	*kept = s
	known, _ := p.shared.LoadOrStore(s, kept)
	return known.(*Settings)
}

// New returns a registry without circuits. Until it is started it works, but
// delivers no events and renews no leases.
func New(cfg Config) *Registry {
	r := &Registry{
		now: cfg.Now, jitter: cfg.Jitter, onEvent: cfg.OnEvent, canary: cfg.Canary, siblings: cfg.Siblings, groups: rollups{of: cfg.Group, open: map[string]*rollup{}},
		outbox: newOutbox(queued),
		wake:   make(chan struct{}, 1), stop: make(chan struct{}),
	}
	if r.now == nil {
		start := time.Now()
		r.now = func() time.Duration { return time.Since(start) }
	}
	if r.jitter == nil {
		r.jitter = rand.Float64
	}
	if cfg.Store != nil {
		r.replica, r.onStoreBack, r.onRefusal = newReplica(r, cfg), cfg.OnStoreBack, cfg.OnStoreRefuses
	}
	r.sweepAt.Store(int64(forever))
	r.policy.Store(&policy{settings: cfg.Settings})
	return r
}

// Start begins to sweep (leases, idle circuits) and to deliver events.
func (r *Registry) Start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || len(r.running) > 0 {
		return
	}
	r.run(func() { r.sweepUntil(r.stop); r.flock.end() })
	if s := r.replica; s != nil {
		ctx, cancel := context.WithCancel(context.Background())
		s.listens = cancel
		r.run(func() { s.serve(r.stop) })
		r.run(func() { s.listen(ctx) })
	}
	if r.onEvent != nil {
		sources := slices.Clone(r.running)
		r.run(func() { r.outbox.deliver(r.onEvent, allOf(sources)) })
	}
}

// allOf is closed when all are.
func allOf(all []<-chan struct{}) <-chan struct{} {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for _, one := range all {
			<-one
		}
	}()
	return closed
}

func (r *Registry) run(work func()) {
	ended := make(chan struct{})
	r.running = append(r.running, ended)
	go func() {
		defer close(ended)
		work()
	}()
}

// Stop delivers the events that wait and ends what Start began. It returns an
// error when ctx ends first, and may be called again.
func (r *Registry) Stop(ctx context.Context) error {
	r.mu.Lock()
	if !r.stopped {
		r.stopped = true
		close(r.stop)
		if r.replica != nil && r.replica.listens != nil {
			r.replica.listens()
		}
	}
	running := r.running
	r.mu.Unlock()

	for _, ended := range running {
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("stop the circuit breakers: %w", context.Cause(ctx))
		}
	}
	return nil
}

// Reconfigure replaces the settings of every circuit, from its next evaluation
// on. States, counters and open times stay.
func (r *Registry) Reconfigure(settings func(key string) Settings) {
	p := r.nextPolicy(settings)
	for _, c := range r.circuits.Range {
		c.(*circuit).adopt(p)
	}
	signal(r.wake) // leases may have become shorter
}

// Keep names the keys whose shared circuits stay also while nobody calls here:
// so the registry always knows what other replicas have found, and the first
// call is decided by it. It replaces what was named before. Without a store it
// does nothing.
func (r *Registry) Keep(keys []string) {
	if r.replica == nil {
		return
	}
	kept := make(map[string]bool, len(keys))
	for _, key := range keys {
		kept[key] = true
	}
	r.kept.Store(&kept)
	for _, key := range keys {
		r.circuit(key)
	}
}

// keeps reports whether a circuit stays while nobody calls.
func (r *Registry) keeps(key string) bool {
	kept := r.kept.Load()
	return kept != nil && (*kept)[key]
}

func (r *Registry) nextPolicy(settings func(key string) Settings) *policy {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &policy{version: r.policy.Load().version + 1, settings: settings}
	r.policy.Store(p)
	return p
}

// Acquire asks for a permit to call what stands behind the key. It returns nil
// and fills p, or returns a *Refusal and leaves p without a right. A permit of
// a key that is not enabled is granted without bookkeeping.
func (r *Registry) Acquire(key string, p *Permit) error {
	c := r.circuit(key)
	w := c.look()
	if w.admits() {
		*p = Permit{circuit: c, word: w.granted()}
		return nil
	}
	return c.acquire(w, p)
}

// Command obeys a person and returns the circuit as it is then. Returns an
// *IllegalTransition when the command has no meaning in the circuit's state.
func (r *Registry) Command(_ context.Context, key string, cmd Command) (Snapshot, error) {
	if !cmd.Action.known() {
		return Snapshot{}, fmt.Errorf("command circuit %s: there is no action %q", key, cmd.Action)
	}
	for {
		c := r.circuit(key)
		if done, err := c.command(cmd); done || err != nil {
			return c.snapshot(), err
		}
	}
}

// EventsDropped counts the events that a slow hook has cost.
func (r *Registry) EventsDropped() uint64 { return r.outbox.lost() }

// circuit returns the circuit of a key, and makes it when there is none.
func (r *Registry) circuit(key string) *circuit {
	if c, ok := r.circuits.Load(key); ok {
		return c.(*circuit)
	}
	p := r.policy.Load()
	fresh := newCircuit(r, key, p, r.now())
	made, found := r.circuits.LoadOrStore(key, fresh)
	c := made.(*circuit)
	if !found {
		c.share()
	}
	// A Reconfigure since then may have walked past before it was stored.
	if latest := r.policy.Load(); latest != p {
		c.adopt(latest)
	}
	return c
}

// Now reads the clock of the circuits.
func (r *Registry) Now() time.Duration { return r.now() }

// instant reads the clock, outside of any lock.
func (r *Registry) instant() instant { return instant{now: r.now(), jitter: r.jitter()} }

// tell queues the event of a transition.
func (r *Registry) tell(key string, t *transition) {
	if r.onEvent == nil {
		return
	}
	r.outbox.add(Event{
		Key: key, From: t.from, To: t.to, Reason: t.reason, Cause: t.cause, Counts: t.counts, Exceeded: t.exceeded,
		OpenFor: t.openFor, At: time.Now().UTC(), Generation: t.generation, Actor: cmp.Or(t.actor, ActorBreaker), Note: t.note,
	})
}
