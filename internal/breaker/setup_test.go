package breaker_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

const key = "alpha/m1/r1"

// defaults are those of the contract, less the jitter.
func defaults() breaker.Settings {
	return breaker.Settings{
		Enabled: true, FailureThreshold: 5,
		FailureRate: breaker.All / 2, Window: breaker.Window{Span: 30 * time.Second, Buckets: 10}, MinCalls: 10,
		Cooldown: 30 * time.Second, CooldownMultiplier: 2, MaxCooldown: 5 * time.Minute, CooldownJitter: 0,
		MaxRetryAfter: time.Hour, HalfOpenCalls: 1, SuccessThreshold: 1,
		MaxHalfOpen: 2 * time.Minute, Lease: 30 * time.Second, StepDecay: time.Minute,
		MaxNeutral: breaker.DefaultMaxNeutral, IdleTTL: breaker.DefaultIdleTTL,
	}
}

// with changes the defaults.
func with(change func(*breaker.Settings)) breaker.Settings {
	s := defaults()
	if change != nil {
		change(&s)
	}
	return s
}

func always(s breaker.Settings) func(string) breaker.Settings {
	return func(string) breaker.Settings { return s }
}

func threshold(n int) func(*breaker.Settings) {
	return func(s *breaker.Settings) { s.FailureThreshold = n }
}

// halfOpen sets the slots of an episode and the successes it needs, with a
// threshold of one.
func halfOpen(calls, successes int) func(*breaker.Settings) {
	return func(s *breaker.Settings) {
		s.FailureThreshold, s.HalfOpenCalls, s.SuccessThreshold = 1, calls, successes
	}
}

// rig is a registry on a clock that only the test moves. It is not started.
type rig struct {
	*breaker.Registry
	config  breaker.Config
	t       *testing.T
	now     atomic.Int64
	chance  atomic.Int64  // of jitter, in thousandths
	slow    time.Duration // after which calls are; 0: they do not say
	permits map[string]*breaker.Permit
}

func setup(t *testing.T, s breaker.Settings) *rig {
	t.Helper()
	return setupOn(t, s, nil)
}

// setupOn is setup with a store, whose clock is that of the test, too.
func setupOn(t *testing.T, s breaker.Settings, store breaker.Store) *rig {
	t.Helper()
	if err := s.Validate(); err != nil {
		t.Fatalf("the settings of the test are invalid: %v", err)
	}
	g := &rig{t: t, permits: map[string]*breaker.Permit{}}
	g.chance.Store(500)
	g.config = breaker.Config{
		Settings:     always(s),
		Now:          func() time.Duration { return time.Duration(g.now.Load()) },
		Jitter:       func() float64 { return float64(g.chance.Load()) / 1000 },
		Store:        store,
		StoreTimeout: time.Minute,
		StoreClock:   func() int64 { return storeEpoch + time.Duration(g.now.Load()).Microseconds() },
	}
	g.Registry = breaker.New(g.config)
	return g
}

// remake begins anew with another configuration.
func (g *rig) remake(change func(*breaker.Config)) {
	change(&g.config)
	g.Registry = breaker.New(g.config)
}

// storeEpoch is what the clock of a store shows when a test begins: a time at
// which buckets of every width in the tests begin.
const storeEpoch = 3_333_334 * 540_000_000

func (g *rig) advance(d time.Duration) { g.now.Add(int64(d)) }
func (g *rig) elapsed() time.Duration  { return time.Duration(g.now.Load()) }

// quiet is how long a replica that was refused a probe does not ask again.
const quiet = 50 * time.Millisecond

func (g *rig) snapshot() breaker.Snapshot {
	g.t.Helper()
	s, ok := g.Circuit(key)
	if !ok {
		g.t.Fatal("there is no circuit")
	}
	return s
}

// acquire must be admitted.
func (g *rig) acquire() *breaker.Permit {
	g.t.Helper()
	p := &breaker.Permit{}
	if err := g.Acquire(key, p); err != nil {
		g.t.Fatalf("acquire: %v", err)
	}
	return p
}

// refused must not be admitted.
func (g *rig) refused() *breaker.Refusal {
	g.t.Helper()
	err := g.Acquire(key, &breaker.Permit{})
	refusal, ok := err.(*breaker.Refusal)
	if !ok {
		g.t.Fatalf("acquire: got %v, want a refusal", err)
	}
	return refusal
}

func outcome(letter byte) breaker.Outcome {
	switch letter {
	case 'S':
		return breaker.Outcome{Kind: breaker.Success}
	case 'F':
		return breaker.Outcome{Kind: breaker.Failure, Cause: "server_error"}
	case 'L':
		return breaker.Outcome{Kind: breaker.Neutral, GaveUp: true}
	default:
		return breaker.Outcome{Kind: breaker.Neutral}
	}
}

// play runs a script, word by word:
//
//	S F E      a call that succeeds, fails, is neutral; "F(2h)" carries a hint
//	SFE SFE/4  several calls in a row, four times over
//	S~5s       a call that takes that long; L is one that its caller gave up
//	a1 S1      acquire a permit named 1; end it (a word may name any letter or digit)
//	t1         the first token of the call named 1
//	x          a call is refused
//	+30s       time passes
//	!open !open(10m)   a person commands, perhaps for a time
//	closed …   the circuit is in that state (open, eligible, half_open)
//	n=2 f=1 w=1 c=1 r=3   calls, failures, slow calls, consecutive failures, rejected calls
//	rate=0.333 rate=? the failure rate, to three digits; not known; slow=0.4 that of slow calls
//	sweep      the sweeper looks
//	by=retry_after    the reason of the last transition
func (g *rig) play(script string) {
	g.t.Helper()
	for i, word := range strings.Fields(script) {
		if err := g.step(word); err != nil {
			g.t.Fatalf("step %d (%s) of %q: %v", i+1, word, script, err)
		}
		breaker.Flush(g.Registry)
	}
}

func (g *rig) step(word string) error {
	switch {
	case word[0] == '!':
		return g.command(word[1:])
	case word[0] == '+':
		d, err := time.ParseDuration(word[1:])
		g.advance(d)
		return err
	case strings.HasPrefix(word, "rate="), strings.HasPrefix(word, "slow="), strings.HasPrefix(word, "by="):
		return g.compareText(word)
	case strings.Contains(word, "="):
		return g.compare(word)
	case slices.Contains([]string{"closed", "open", "eligible", "half_open", "forced_open", "disabled", "shadow"}, word):
		return g.inState(word)
	case word == "sweep":
		breaker.Sweep(g.Registry)
		return nil
	case word == "x":
		if err := g.Acquire(key, &breaker.Permit{}); err == nil {
			return fmt.Errorf("admitted")
		}
		return nil
	case word[0] == 'a':
		g.permits[word[1:]] = &breaker.Permit{}
		return g.admit(g.permits[word[1:]])
	case word[0] == 't':
		g.permits[word[1:]].FirstToken()
		return nil
	case strings.Trim(word, "SFEL") == "" && len(word) > 1, strings.Contains(word, "/"):
		return g.calls(word)
	case len(word) == 2:
		g.permits[word[1:]].Done(outcome(word[0]))
		return nil
	default:
		return g.call(word)
	}
}

// call makes a whole call: "S", "F", "E" or with a hint "F(2h)".
func (g *rig) call(word string) error {
	var p breaker.Permit
	if err := g.admit(&p); err != nil {
		return err
	}
	o := outcome(word[0])
	word, took, timed := strings.Cut(word, "~")
	if timed {
		d, err := time.ParseDuration(took)
		if err != nil {
			return err
		}
		g.advance(d)
	}
	if len(word) > 1 {
		d, err := time.ParseDuration(strings.Trim(word[1:], "()"))
		if err != nil {
			return err
		}
		o.OpenFor = d
	}
	p.Done(o)
	return nil
}

// admit acquires a permit and says when the call is slow.
func (g *rig) admit(p *breaker.Permit) error {
	err := g.Acquire(key, p)
	if err == nil && g.slow > 0 {
		p.SlowAfter(g.slow)
	}
	return err
}

// command is that of a person: "open", or with a time "open(10m)".
func (g *rig) command(word string) error {
	action, rest, timed := strings.Cut(word, "(")
	c := breaker.Command{Action: breaker.Action(action), Actor: "ann", Note: "because"}
	if timed {
		d, err := time.ParseDuration(strings.TrimSuffix(rest, ")"))
		if err != nil {
			return err
		}
		c.For = d
	}
	_, err := g.Command(g.t.Context(), key, c)
	return err
}

// calls makes a row of calls, some times over.
func (g *rig) calls(word string) error {
	row, times, again := strings.Cut(word, "/")
	n := 1
	if again {
		var err error
		if n, err = strconv.Atoi(times); err != nil {
			return err
		}
	}
	for i, letter := range strings.Repeat(row, n) {
		if err := g.call(string(letter)); err != nil {
			return fmt.Errorf("call %d: %w", i+1, err)
		}
	}
	return nil
}

func (g *rig) inState(want string) error {
	s, _ := g.Circuit(key)
	got := s.State.String()
	if s.Eligible {
		got = "eligible"
	}
	if got != want {
		return fmt.Errorf("state is %s", got)
	}
	return nil
}

func (g *rig) compare(word string) error {
	name, number, _ := strings.Cut(word, "=")
	want, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return err
	}
	s, _ := g.Circuit(key)
	got := map[string]uint64{
		"n": s.Calls, "f": s.Failures, "w": s.Slow, "c": uint64(s.ConsecutiveFailures), "r": s.Rejected, "e": s.Neutral,
		"stale": s.Stale, "double": s.DoubleDone, "lost": s.LeaseExpired, "probes": s.Probes,
	}[name]
	if got != want {
		return fmt.Errorf("%s is %d", name, got)
	}
	return nil
}

func (g *rig) compareText(word string) error {
	name, want, _ := strings.Cut(word, "=")
	s, _ := g.Circuit(key)
	got := s.Reason
	switch name {
	case "rate":
		got = shareText(s.FailureRate)
	case "slow":
		got = shareText(s.SlowRate)
	}
	if got != want {
		return fmt.Errorf("%s is %s", name, got)
	}
	return nil
}

func shareText(share *float64) string {
	if share == nil {
		return "?"
	}
	return strconv.FormatFloat(*share, 'g', 3, 64)
}
