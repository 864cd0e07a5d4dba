package breaker

import (
	"math"
	"testing"
	"time"
)

func testSettings() Settings {
	return Settings{
		Enabled: true, FailureThreshold: 1,
		Window: Window{Span: 30 * time.Second, Buckets: 10}, MinCalls: 10,
		Cooldown: 30 * time.Second, CooldownMultiplier: 2, MaxCooldown: 5 * time.Minute,
		MaxRetryAfter: time.Hour, HalfOpenCalls: 1, SuccessThreshold: 1,
		MaxHalfOpen: 2 * time.Minute, Lease: 30 * time.Second, StepDecay: time.Minute,
		MaxNeutral: DefaultMaxNeutral, IdleTTL: DefaultIdleTTL,
	}
}

// inState returns a machine in a state, with every slot of an episode taken.
func inState(t *testing.T, s State, in instant) machine {
	t.Helper()
	m := newMachine(in.settings, 0)
	if s == Closed {
		return m
	}
	if s.operated() {
		m.command(Command{Action: map[State]Action{ForcedOpen: ActionOpen, Disabled: ActionDisable, Shadow: ActionShadow}[s]}, in)
		return m
	}
	m.settle(claim{generation: firstGeneration}, Outcome{Kind: Failure, Cause: "x"}, in)
	if s == HalfOpen {
		in.now = m.openUntil
		m.acquire(in)
	}
	if m.state != s {
		t.Fatalf("no way known into state %v", s)
	}
	return m
}

// C49: every state either admits or refuses for a reason, has a name, and is
// one that the fast path tells from the others. A new state fails here.
func TestEveryStateAdmitsOrRefuses(t *testing.T) {
	t.Parallel()
	settings := testSettings()
	in := instant{settings: &settings}
	want := map[State]decision{
		Closed:   {admitted: true},
		Open:     {reason: ReasonCircuitOpen, retryAfter: 30 * time.Second},
		HalfOpen: {reason: ReasonProbing, retryAfter: probingRetryAfter},

		ForcedOpen: {reason: ReasonCircuitOpen},
		Disabled:   {admitted: true},
		Shadow:     {admitted: true},
	}
	for s := range states {
		m := inState(t, s, in)
		at := in
		at.now = m.since
		got, _ := m.acquire(at)
		if got != want[s] {
			t.Errorf("%v: got %+v, want %+v", s, got, want[s])
		}
		if s.String() == states.String() {
			t.Errorf("state %d has no name", s)
		}
		if w := newWord(1<<50, s); w.state() != s || w.generation() != 1<<50 || w.admits() != want[s].admitted {
			t.Errorf("%v: the word says %v, generation %d, admits %v", s, w.state(), w.generation(), w.admits())
		}
	}
}

// The sweeper may come when a circuit has just left half-open.
func TestHeartbeatInEveryState(t *testing.T) {
	t.Parallel()
	settings := testSettings()
	for s := range states {
		m := inState(t, s, instant{settings: &settings})
		if transition := m.tend(instant{now: m.since, settings: &settings}); transition != nil || m.state != s {
			t.Errorf("%v: the heartbeat moved the circuit: %+v", s, transition)
		}
	}
}

// T9: a hint for a circuit that is open already makes it stay so longer, never
// shorter, in the same generation.
func TestHintForAnOpenCircuit(t *testing.T) {
	t.Parallel()
	settings := testSettings()
	in := instant{settings: &settings}
	m := inState(t, Open, in)
	generation := m.generation
	for _, tt := range []struct{ hint, want time.Duration }{
		{29 * time.Second, 30 * time.Second},
		{time.Minute, time.Minute},
		{10 * time.Second, time.Minute},
		{3 * time.Hour, time.Hour},
	} {
		if transition := m.hint(Outcome{OpenFor: tt.hint}, in); transition != nil || m.generation != generation {
			t.Fatalf("a hint of %v moved the circuit", tt.hint)
		}
		if m.remaining(0) != tt.want || m.openUntil != tt.want {
			t.Errorf("after a hint of %v: open until %v, want %v", tt.hint, m.openUntil, tt.want)
		}
	}
}

// R31: a wait is never below a second and never beyond the end of time.
func TestWholeSeconds(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]time.Duration{
		-time.Hour: time.Second, 0: time.Second, 1: time.Second, time.Second: time.Second,
		time.Second + 1: 2 * time.Second, math.MaxInt64: math.MaxInt64,
	} {
		if got := wholeSeconds(d); got != want {
			t.Errorf("%v: got %v, want %v", d, got, want)
		}
	}
}

// R45: settings that arrive late do not replace newer ones.
func TestOlderPolicyIsNotAdopted(t *testing.T) {
	t.Parallel()
	settings := testSettings()
	r := New(Config{Settings: func(string) Settings { return settings }})
	old := r.policy.Load()
	c := r.circuit("k")
	r.Reconfigure(func(string) Settings { return Settings{} })
	c.adopt(old)
	if !c.off {
		t.Error("the older policy is in force")
	}
}

// R4: no call makes more than one transition, whatever is due.
func TestOneTransitionAtATime(t *testing.T) {
	t.Parallel()
	settings := testSettings()
	m := inState(t, HalfOpen, instant{settings: &settings})
	d, transition := m.acquire(instant{now: 100 * time.Hour, settings: &settings})
	if d.admitted || transition == nil || transition.reason != ReasonProbeLost || m.state != Open {
		t.Errorf("got %+v and %+v, want a refusal and probe_lost", d, transition)
	}
}
