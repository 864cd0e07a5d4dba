package breaker

import "time"

// Why a circuit moved, as events, metrics and snapshots spell it.
const (
	ReasonConsecutive     = "consecutive"
	ReasonFailureRate     = "failure_rate"
	ReasonSlowRate        = "slow_rate"
	ReasonRetryAfter      = "retry_after"
	ReasonHalfOpen        = "half_open"
	ReasonProbeSuccess    = "probe_success"
	ReasonProbeFailure    = "probe_failure"
	ReasonProbeLost       = "probe_lost"
	ReasonHalfOpenTimeout = "half_open_timeout"
	ReasonCanary          = "canary"         // a probe of our own is to find out
	ReasonCanarySuccess   = "canary_success" // it went well
	ReasonCanaryFailure   = "canary_failure" // it did not
	ReasonCanaryUnable    = "canary_unable"  // it could not be made, so that calls probe after all
	ReasonOperator        = "operator"       // a person said so
	ReasonOverrideOver    = "override_over"  // the time of what a person said is up
	ReasonSharedState     = "shared_state"   // what all replicas know replaces what one had found alone
)

// patience is how long a limit that is only just passed waits for what the other
// replicas have not told yet.
const patience = 25 * time.Millisecond

// canaryAttempts is how many canaries in a row may fail to say anything until
// calls probe after all.
const canaryAttempts = 3

// youth is how long after a circuit has begun to count others may have told
// nothing yet, however many of their calls succeeded.
const youth = 2400 * time.Millisecond

// firstGeneration is the generation of a new circuit.
const firstGeneration = 1

// machine is the state of one circuit and the rules that move it. Its methods
// read no clock, take no lock and start nothing: everything they depend on is
// their receiver and their arguments. Each makes at most one transition (R4)
// and returns it, or nil.
type machine struct {
	state State
	// generation changes at every transition; an outcome counts only in the
	// generation its permit was given in.
	generation uint64
	probed     uint64        // while closed, the generation of the episode that led here
	since      time.Duration // of the state
	reason     string        // of the last transition
	cause      string        // of the failure that opened it; empty while closed

	backoff backoff
	// The rest of this group is of a closed circuit.
	streak streak
	window window
	blamed string // the cause of the latest failure
	// watched are the calls under way that will be slow, the soonest first.
	watched []*batch
	// windows is how many there were, for calls that were counted in one; those
	// that were counted in one since the shape was another are not counted again.
	windows, shape uint64

	openUntil time.Duration // while open
	openFor   time.Duration
	opened    Counts // what opened it

	episode *episode // nil unless half-open

	override override // while a person has set the state
	// muted is until when a shadow circuit does not tell again that it would
	// have opened: it would be open.
	muted time.Duration

	// The rest is of a circuit that replicas share.
	// near is since when a limit is passed by what has been heard, while others
	// may not have said everything; 0: it is not.
	near   time.Duration
	unsent *delta // what the others have not been told; nil where nobody is
	// newborn: no copy of the circuit was seen when it was made, so that the
	// first generation stands for the one that was found.
	newborn bool
}

// instant is the world as a transition sees it.
type instant struct {
	now      time.Duration
	jitter   float64 // in [0, 1)
	settings *Settings
	canary   bool   // it is the prober that asks, not a caller
	lease    uint64 // the name of a lease that is given; 0: the next number
	mint     uint64 // the generation that a transition begins; 0: the next number
	// margin is the share of successes that others may not have told yet, and
	// row how many failures in a row were seen by one alone; without a margin
	// what is known is all there is.
	margin Rate
	row    int
	held   bool // too many of its siblings are open for it to open by counts (R40)
}

// transition is one move of a machine, for those who are told about it.
type transition struct {
	from, to   State
	reason     string
	cause      string
	generation uint64
	counts     Counts   // of the state left
	exceeded   []string // the limits of rates that were passed
	expired    int      // leases whose end made it
	openFor    time.Duration
	actor      string // a person; empty: the circuit itself
	note       string // in that person's words
}

// decision is the answer to a call that asks to go.
type decision struct {
	admitted   bool
	probe      bool
	lease      uint64
	reason     string        // of a refusal
	retryAfter time.Duration // 0: nobody knows
}

// claim is what a permit holds against its circuit.
type claim struct {
	generation uint64
	probe      bool
	lease      uint64     // of a probe
	early      bool       // the first token was the verdict of this probe
	own        bool       // a replica gave it without the store
	timer      *stopwatch // nil: nobody asks whether the call is slow
}

func newMachine(s *Settings, now time.Duration) machine {
	return machine{generation: firstGeneration, windows: 1, shape: 1, since: now, backoff: backoff{healthySince: now}, window: newWindow(s.Window)}
}

// acquire decides whether a call may go.
func (m *machine) acquire(in instant) (decision, *transition) {
	switch m.state {
	case Open:
		if in.now < m.openUntil || in.settings.Canary != in.canary {
			return m.refuse(in), nil
		}
		t := m.recover(in)
		return m.probe(in), t
	case HalfOpen:
		if t := m.lapse(in); t != nil {
			return m.refuse(in), t
		}
		if m.episode.canary != in.canary {
			return m.refuse(in), nil
		}
		return m.probe(in), nil
	case ForcedOpen:
		return m.refuse(in), nil
	default:
		return decision{admitted: !in.canary}, nil
	}
}

// recover begins to find out whether the target is well again (T6, T7).
func (m *machine) recover(in instant) *transition {
	if !in.canary {
		return m.halfOpen(ReasonHalfOpen, in)
	}
	t := m.move(HalfOpen, ReasonCanary, in)
	m.episode = newCanaryEpisode(in.now)
	t.cause = m.cause
	return t
}

// settle takes the end of a call. The outcome of an older generation changes
// nothing (R8, R9, T8).
func (m *machine) settle(c claim, o Outcome, in instant) (Settlement, *transition) {
	if !m.current(c) {
		return Stale, nil
	}
	switch m.state {
	case Closed, Shadow:
		return Applied, m.record(c, o, in)
	case Disabled:
		return Applied, nil
	case HalfOpen:
		slot, held := m.episode.held(c.lease)
		expired := held && m.episode.ran(slot, in.now)
		if t := m.lapse(in); t != nil {
			return lateness(expired), t
		}
		if !held && !c.early {
			return Stale, nil
		}
		return Applied, m.judge(slot, c, o, in)
	default: // an open circuit gives no permits
		return Stale, nil
	}
}

// lateness names an outcome that came when its episode was over: by its own
// lease, or by another's.
func lateness(expired bool) Settlement {
	if expired {
		return Expired
	}
	return Stale
}

// current reports whether a claim still counts. A probe that gave its verdict
// at its first token goes on as an ordinary call of the closed generation that
// its episode led to, so that a stream that breaks later is seen (R18).
func (m *machine) current(c claim) bool {
	if c.generation == m.generation || m.newborn && c.generation == firstGeneration {
		return true
	}
	return c.early && m.state == Closed && c.generation == m.probed
}

// judge counts the verdict of a probe (T12–T15, R35).
func (m *machine) judge(slot int, c claim, o Outcome, in instant) *transition {
	e := m.episode
	if c.slow(o, in) {
		o.Kind = Failure // R34
	}
	switch {
	case !c.early:
		e.count(slot, o.Kind, in.now)
	case o.Kind == Failure:
		e.recant()
	}
	switch {
	case o.OpenFor > 0:
		return m.hint(o, in)
	case e.failed():
		m.backoff.grow()
		return m.cool(e.why(ReasonProbeFailure, ReasonCanaryFailure), o.Cause, in)
	case e.won() && e.canary && !in.settings.CanaryCloses:
		return m.halfOpen(ReasonCanarySuccess, in) // T18
	case e.won():
		return m.close(e.why(ReasonProbeSuccess, ReasonCanarySuccess), in)
	case e.canary && e.neutrals >= canaryAttempts:
		return m.halfOpen(ReasonCanaryUnable, in)
	case e.neutrals >= in.settings.MaxNeutral:
		return m.cool(ReasonHalfOpenTimeout, m.cause, in)
	default:
		return nil
	}
}

// within sets how long the lease of a probe is renewed.
func (m *machine) within(c claim, until time.Duration) {
	if m.state != HalfOpen || c.generation != m.generation {
		return
	}
	if slot, ok := m.episode.held(c.lease); ok {
		m.episode.slots[slot].renewUntil = until
	}
}

// tend is the heartbeat of a half-open circuit: it ends an episode that is over
// and renews the leases of one that is not. In other states it does nothing.
func (m *machine) tend(in instant) *transition {
	if m.state != HalfOpen {
		return nil
	}
	if t := m.lapse(in); t != nil {
		return t
	}
	m.episode.renew(in.now, in.settings.Lease)
	return nil
}

// lapse ends an episode whose probe was lost (T16) or that nobody has probed
// for too long (T17). The back-off step stays, for nothing is known to have
// failed. What follows is our own cooldown even when a hint had opened the
// circuit: that hint has been obeyed.
func (m *machine) lapse(in instant) *transition {
	if expired := m.episode.lost(in.now); expired > 0 {
		t := m.cool(ReasonProbeLost, m.cause, in)
		t.expired = expired
		return t
	}
	if m.episode.idleFor(in.now) >= in.settings.MaxHalfOpen {
		return m.cool(ReasonHalfOpenTimeout, m.cause, in)
	}
	return nil
}

// hint obeys "leave me alone for d": exactly that long, without growth and
// without jitter (T4). A circuit that is open already only ever stays so
// longer (T9).
func (m *machine) hint(o Outcome, in instant) *transition {
	d := min(o.OpenFor, in.settings.MaxRetryAfter)
	if m.state == Open {
		if until := later(in.now, d); until > m.openUntil {
			m.openUntil, m.openFor = until, d
		}
		return nil
	}
	switch m.state {
	case Shadow:
		return m.imagine(ReasonRetryAfter, o.Cause, d, in)
	case Closed:
		m.settleBackoff(in)
	}
	return m.open(ReasonRetryAfter, o.Cause, d, in)
}

// trip opens a closed circuit for its own cooldown.
func (m *machine) trip(reason, cause string, in instant) *transition {
	m.settleBackoff(in)
	if m.state == Shadow {
		return m.imagine(reason, cause, m.backoff.cooldown(in.settings, in.jitter), in)
	}
	return m.cool(reason, cause, in)
}

// cool opens the circuit for its own cooldown at the present step.
func (m *machine) cool(reason, cause string, in instant) *transition {
	return m.open(reason, cause, m.backoff.cooldown(in.settings, in.jitter), in)
}

func (m *machine) open(reason, cause string, d time.Duration, in instant) *transition {
	t := m.move(Open, reason, in)
	m.cause, m.openFor, m.openUntil, m.opened = cause, d, later(in.now, d), t.counts
	t.cause, t.openFor = cause, d
	return t
}

func (m *machine) halfOpen(reason string, in instant) *transition {
	t := m.move(HalfOpen, reason, in)
	m.episode = newEpisode(in.settings, in.now)
	t.cause = m.cause
	return t
}

func (m *machine) close(reason string, in instant) *transition {
	probed := m.generation
	t := m.move(Closed, reason, in)
	m.cause, m.probed = "", probed
	return t
}

// move enters a state with everything counted in the old one cleared (R29).
func (m *machine) move(to State, reason string, in instant) *transition {
	t := &transition{from: m.state, to: to, reason: reason, generation: m.generation + 1, counts: m.counts(in.now)}
	if in.mint > 0 {
		t.generation = in.mint
	}
	m.generation, m.state, m.reason, m.since = t.generation, to, reason, in.now
	m.streak, m.episode, m.blamed, m.watched = streak{}, nil, "", nil
	m.window.clear()
	m.windows++
	m.near, m.newborn = 0, false
	if to.counts() {
		m.backoff.healthySince = in.now
		m.unsent.restart(m.generation)
	}
	m.openUntil, m.openFor, m.muted, m.probed, m.override = 0, 0, 0, 0, override{}
	return t
}

// probe leases a slot, or refuses when there is none (T10, T11).
func (m *machine) probe(in instant) decision {
	if lease, ok := m.episode.take(in.lease, in.settings, in.now); ok {
		return decision{admitted: true, probe: true, lease: lease}
	}
	return m.refuse(in)
}

func (m *machine) refuse(in instant) decision {
	if m.state == HalfOpen {
		left, leased := m.episode.leaseLeft(in.now)
		if !leased {
			left = probingRetryAfter
		}
		return decision{reason: ReasonProbing, retryAfter: min(left, probingRetryAfter)}
	}
	if m.state == ForcedOpen {
		return decision{reason: ReasonCircuitOpen, retryAfter: m.override.remaining(in.now)}
	}
	return decision{reason: ReasonCircuitOpen, retryAfter: m.remaining(in.now)}
}

// remaining is how long an open circuit still refuses; 0 in other states.
func (m *machine) remaining(now time.Duration) time.Duration {
	return min(max(0, m.openUntil-now), m.openFor)
}

// eventful reports whether something was counted or found.
func (m *machine) eventful() bool {
	return m.state == Open || m.state == Closed && (m.streak.failures > 0 || m.window.counts(0).calls > 0)
}

// pristine reports whether a circuit has nothing to remember: one made anew
// would behave the same (R39). It works on a copy.
func (m machine) pristine(in instant) bool {
	if m.state != Closed || len(m.watched) > 0 || !m.window.forgotten(in.now) {
		return false
	}
	m.fade(0, in)
	if m.streak.failures > 0 {
		return false
	}
	if m.backoff.step > 0 {
		m.settleBackoff(in)
	}
	return m.backoff.step == 0
}
