package operators_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/operators"
)

// shelf keeps overrides for several nodes. Its clock is not theirs.
type shelf struct {
	mu   sync.Mutex
	rows map[string]operators.Override
}

const ahead = 47 * time.Minute

func newShelf() *shelf { return &shelf{rows: map[string]operators.Override{}} }

func (s *shelf) now() time.Time { return time.Now().Add(ahead).UTC().Truncate(time.Microsecond) }

// keys lists what is kept as "key state".
func (s *shelf) keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := []string{}
	for _, o := range s.rows {
		keys = append(keys, o.Key+" "+o.State)
	}
	slices.Sort(keys)
	return keys
}

// way is one node's way to a shelf, which can be cut, and frozen: then what was
// sent is not answered, and done when it thaws.
type way struct {
	*shelf
	mu    sync.Mutex
	away  bool
	stuck []func()
	froze bool
}

var errAway = errors.New("the way is cut")

// pass does work, now, or late when nobody waits for it any more.
func (w *way) pass(ctx context.Context, work, late func()) error {
	w.mu.Lock()
	away, froze := w.away, w.froze
	if froze {
		w.stuck = append(w.stuck, late)
	}
	w.mu.Unlock()
	switch {
	case froze:
		<-ctx.Done()
		return context.Cause(ctx)
	case away:
		return errAway
	}
	w.shelf.mu.Lock()
	defer w.shelf.mu.Unlock()
	work()
	return nil
}

func (w *way) cut(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = away
}

func (w *way) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.froze = true
}

// thaw lets it go on, with what was sent last done first, as sessions that do
// not know of each other may.
func (w *way) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.froze = false
	w.shelf.mu.Lock()
	defer w.shelf.mu.Unlock()
	for _, work := range slices.Backward(w.stuck) {
		work()
	}
	w.stuck = nil
}

func nothing() {}

func (w *way) Time(ctx context.Context) (now time.Time, err error) {
	err = w.pass(ctx, func() { now = w.now() }, nothing)
	return now, err
}

func (w *way) ListOverrides(ctx context.Context) (all []operators.Override, err error) {
	err = w.pass(ctx, func() { all = slices.Collect(maps.Values(w.rows)) }, nothing)
	return all, err
}

func (w *way) SaveOverride(ctx context.Context, o operators.Override) (kept bool, err error) {
	err = w.pass(ctx, func() { kept = w.put(o) }, func() { w.put(o) })
	return kept, err
}

func (w *way) put(o operators.Override) bool {
	if w.rows[o.Key].SetAt.After(o.SetAt) {
		return false
	}
	w.rows[o.Key] = o
	return true
}

func (w *way) DeleteOverride(ctx context.Context, key string, until time.Time) error {
	remove := func() {
		if !w.rows[key].SetAt.After(until) {
			delete(w.rows, key)
		}
	}
	return w.pass(ctx, remove, remove)
}

func (w *way) DeleteExpiredOverrides(ctx context.Context) error {
	remove := func() {
		maps.DeleteFunc(w.rows, func(_ string, o operators.Override) bool { return o.Until != nil && !o.Until.After(w.now()) })
	}
	return w.pass(ctx, remove, remove)
}

// told counts what a node's circuits are told.
type told struct {
	*breaker.Registry
	mu       sync.Mutex
	commands []string
}

func (c *told) Command(ctx context.Context, key string, command breaker.Command) (breaker.Snapshot, error) {
	c.mu.Lock()
	if command.Reassert {
		c.commands = append(c.commands, key+" "+string(command.Action))
	}
	c.mu.Unlock()
	return c.Registry.Command(ctx, key, command)
}

// taken returns what was told again, and forgets it.
func (c *told) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	commands := c.commands
	c.commands = nil
	slices.Sort(commands)
	return commands
}

// reporter is a test, or one run of a property.
type reporter interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
}

// node is a gateway with circuits of its own, in a bubble of fake time.
type node struct {
	t         reporter
	circuits  *told
	overrides *operators.Overrides
	way       *way
	events    []string
	logs      *strings.Builder
}

func newNode(t reporter, s *shelf) *node {
	t.Helper()
	n := &node{t: t, way: &way{shelf: s}, logs: &strings.Builder{}}
	settings := breaker.Settings{
		Enabled: true, FailureThreshold: 5, Window: breaker.Window{Calls: 10}, MinCalls: 10,
		Cooldown: 30 * time.Second, CooldownMultiplier: 2, MaxCooldown: 5 * time.Minute, MaxRetryAfter: time.Hour,
		HalfOpenCalls: 1, SuccessThreshold: 1, MaxHalfOpen: 2 * time.Minute, Lease: 30 * time.Second,
		StepDecay: time.Minute, MaxNeutral: breaker.DefaultMaxNeutral, IdleTTL: breaker.DefaultIdleTTL,
	}
	n.circuits = &told{Registry: breaker.New(breaker.Config{
		Settings: func(string) breaker.Settings { return settings },
		OnEvent:  func(e breaker.Event) { n.events = append(n.events, e.Key+" "+e.To.String()+" "+e.Reason) },
		Jitter:   func() float64 { return 0 },
	})}
	n.circuits.Start()
	n.overrides = operators.NewOverrides(n.circuits, n.way, slog.New(slog.NewTextHandler(n.logs, nil)))
	return n
}

func start(t reporter, s *shelf) *node {
	t.Helper()
	n := newNode(t, s)
	n.overrides.Start()
	return n
}

func (n *node) stop() error {
	return errors.Join(n.overrides.Stop(context.Background()), n.circuits.Stop(context.Background()))
}

// end stops a node that has nothing left to write.
func (n *node) end() {
	n.t.Helper()
	if err := n.stop(); err != nil {
		n.t.Error(err)
	}
}

func (n *node) command(key string, action breaker.Action, d time.Duration) (saved bool) {
	n.t.Helper()
	_, saved, err := n.overrides.Command(context.Background(), key, breaker.Command{Action: action, For: d, Note: "because", Actor: "ada"})
	if err != nil {
		n.t.Errorf("%s %s: %v", action, key, err)
	}
	return saved
}

func (n *node) state(key string) string {
	s, ok := n.circuits.Circuit(key)
	if !ok {
		return breaker.Closed.String()
	}
	return s.State.String()
}

func (n *node) want(key, state string) {
	n.t.Helper()
	if got := n.state(key); got != state {
		n.t.Errorf("circuit %s is %s, want %s", key, got, state)
	}
}

func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// settle is long enough for every node to have looked.
func settle() { wait(5 * time.Second) }

func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

func wantKept(t reporter, s *shelf, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), s.keys()); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}
