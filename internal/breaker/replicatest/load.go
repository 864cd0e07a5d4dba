package replicatest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// Load is callers that call one after the other.
type Load struct {
	Key     string
	Keys    int // more than 1: the callers take turns on Key/0, Key/1, …
	Callers int
	Pause   time.Duration // of a caller between its calls, give or take a half

	// Upstream is the address of an Upstream that answers the calls. Without one
	// a call takes its time here, and fails with a chance.
	Upstream string
	Took     time.Duration
	Failing  float64 // of all calls, in [0, 1]
}

// Tally is what came of a load.
type Tally struct {
	Calls, Failures uint64 // that were admitted; of them, those that failed
	Refused         uint64
	Probes          uint64
	Settled         map[string]uint64 // by what became of their ends
	// Faults are answers that no circuit may give, the first of them.
	Faults []string
	// Acquire and Done are how long callers waited for the breaker.
	Acquire, Done Spread
	// ProbeAcquire and ProbeDone are the same of probes alone.
	ProbeAcquire, ProbeDone Spread
	// Late is how long after its time a caller went on after a pause: what the
	// machine does to every wait, whoever is waited for.
	Late Spread
}

// Spread is a distribution of times.
type Spread struct {
	N                        int
	P50, P90, P99, P999, Max time.Duration
}

func (s Spread) String() string {
	return fmt.Sprintf("p50 %v p90 %v p99 %v p99.9 %v max %v of %d", s.P50, s.P90, s.P99, s.P999, s.Max, s.N)
}

// SpreadOf sorts the times.
func SpreadOf(all []time.Duration) Spread {
	if len(all) == 0 {
		return Spread{}
	}
	slices.Sort(all)
	at := func(share float64) time.Duration { return all[min(len(all)-1, int(share*float64(len(all))))] }
	return Spread{N: len(all), P50: at(.5), P90: at(.9), P99: at(.99), P999: at(.999), Max: all[len(all)-1]}
}

// load is one that is under way.
type load struct {
	Load
	registry *breaker.Registry
	cancel   context.CancelFunc
	callers  sync.WaitGroup

	mu            sync.Mutex
	tally         Tally
	acquire, done []time.Duration

	probeAcquire, probeDone []time.Duration
	late                    []time.Duration
}

func (l Load) begin(r *breaker.Registry) (*load, error) {
	ctx, cancel := context.WithCancel(context.Background())
	begun := &load{Load: l, registry: r, cancel: cancel}
	begun.tally.Settled = map[string]uint64{}
	for i := range l.Callers {
		c := &caller{load: begun, key: l.Key, number: i, took: l.Took}
		if l.Upstream != "" {
			line, err := dial(l.Upstream)
			if err != nil {
				cancel()
				return nil, err
			}
			c.line = line
		}
		begun.callers.Go(func() { c.work(ctx) })
	}
	return begun, nil
}

// rest waits for the calls that are under way.
func (l *load) rest() Tally {
	l.cancel()
	l.callers.Wait()
	l.tally.Acquire, l.tally.Done = SpreadOf(l.acquire), SpreadOf(l.done)
	l.tally.ProbeAcquire, l.tally.ProbeDone = SpreadOf(l.probeAcquire), SpreadOf(l.probeDone)
	l.tally.Late = SpreadOf(l.late)
	return l.tally
}

// caller is one goroutine of a load.
type caller struct {
	load   *load
	key    string
	number int
	took   time.Duration
	line   *line // nil: the call takes its time here
}

// work calls once at least, however soon the load is to rest.
func (c *caller) work(ctx context.Context) {
	if c.line != nil {
		defer c.line.close()
	}
	for n := c.number; ; n++ {
		key := c.key
		if c.load.Keys > 1 {
			key = fmt.Sprintf("%s/%d", c.key, n%c.load.Keys)
		}
		c.call(key)
		if !c.pause(ctx) {
			return
		}
	}
}

// pause returns false when the load is to rest.
func (c *caller) pause(ctx context.Context) bool {
	d := c.load.Pause/2 + time.Duration(rand.Int64N(int64(c.load.Pause)+1))
	due := time.Now().Add(d)
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
	}
	late := time.Since(due)
	c.load.mu.Lock()
	defer c.load.mu.Unlock()
	c.load.late = append(c.load.late, late)
	return ctx.Err() == nil
}

func (c *caller) call(key string) {
	var p breaker.Permit
	asked := time.Now()
	err := c.load.registry.Acquire(key, &p)
	waited := time.Since(asked)
	if err != nil {
		c.load.refused(key, err, waited)
		return
	}
	failed, err := c.through(&p)
	o := breaker.Outcome{Kind: breaker.Success}
	switch {
	case err != nil:
		o.Kind = breaker.Neutral
	case failed:
		o = breaker.Outcome{Kind: breaker.Failure, Cause: "server_error"}
	}
	ended := time.Now()
	settled := p.Done(o)
	c.load.admitted(&p, o, settled.String(), err, waited, time.Since(ended))
}

// through makes the call and reports whether it failed.
func (c *caller) through(p *breaker.Permit) (bool, error) {
	if c.line != nil {
		return c.line.call(Call{Probe: p.Probe(), Generation: p.Generation()})
	}
	if c.took > 0 {
		<-time.After(c.took)
	}
	return rand.Float64() < c.load.Failing, nil
}

func (l *load) admitted(p *breaker.Permit, o breaker.Outcome, settled string, fault error, acquire, done time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acquire, l.done = append(l.acquire, acquire), append(l.done, done)
	if fault != nil {
		l.fault("the upstream did not answer: %v", fault)
	}
	l.tally.Calls++
	if o.Kind == breaker.Failure {
		l.tally.Failures++
	}
	if p.Probe() {
		l.tally.Probes++
		l.probeAcquire, l.probeDone = append(l.probeAcquire, acquire), append(l.probeDone, done)
		settled = "probe " + settled
	}
	l.tally.Settled[settled]++
}

// refused holds refusals to what they have to say: a state that refuses, and a
// wait in whole seconds, one at least (R31), unless a person has said no time.
func (l *load) refused(key string, err error, waited time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acquire = append(l.acquire, waited)
	l.tally.Refused++
	r, ok := errors.AsType[*breaker.Refusal](err)
	switch {
	case !ok:
		l.fault("%s: refused with another error: %v", key, err)
	case r.Key != key:
		l.fault("%s: refused in the name of %s", key, r.Key)
	case r.State != breaker.Open && r.State != breaker.HalfOpen && r.State != breaker.ForcedOpen:
		l.fault("%s: refused, although it is %s", key, r.State)
	case r.State == breaker.ForcedOpen && r.RetryAfter == 0:
	case r.RetryAfter < time.Second || r.RetryAfter%time.Second != 0:
		l.fault("%s: refused, being %s, with a wait of %v", key, r.State, r.RetryAfter)
	}
}

// fault keeps the first few.
func (l *load) fault(format string, args ...any) {
	if len(l.tally.Faults) < 10 {
		l.tally.Faults = append(l.tally.Faults, fmt.Sprintf(format, args...))
	}
}
