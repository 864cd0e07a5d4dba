package breaker

import "time"

// pack and unpackTransition carry a transition to those who tell of it.
func (t *transition) pack() string {
	var p packer
	p.byte(byte(t.from))
	p.byte(byte(t.to))
	p.numbers(float64(t.generation), float64(t.counts.Calls), float64(t.counts.Failures), float64(t.counts.Slow),
		float64(t.counts.ConsecutiveFailures), float64(t.expired), micros(t.openFor))
	exceeded := [2]string{}
	copy(exceeded[:], t.exceeded)
	p.words(t.reason, t.cause, exceeded[0], exceeded[1], t.actor, t.note)
	return string(p)
}

func (u *unpacker) transition() *transition {
	t := &transition{from: State(u.byte()), to: State(u.byte()), generation: u.whole()}
	t.counts = Counts{Calls: u.whole(), Failures: u.whole(), Slow: u.whole(), ConsecutiveFailures: int(u.whole())}
	t.expired, t.openFor = int(u.whole()), u.duration()
	t.reason, t.cause = u.word(), u.word()
	for range 2 {
		if word := u.word(); word != "" {
			t.exceeded = append(t.exceeded, word)
		}
	}
	t.actor, t.note = u.word(), u.word()
	return t
}

// pack and unpackDelta carry what a replica has seen.
func (d *delta) pack(closed bool, margin Rate) []string {
	var p packer
	p.numbers(float64(d.generation), float64(bit(closed)), float64(margin),
		float64(d.calls), float64(d.failures), float64(d.slow), float64(d.blamed), float64(d.tail), float64(d.row), float64(bit(d.broken)),
		micros(d.reach), micros(d.openFor), float64(bit(d.held)))
	return []string{string(p), d.cause, string(d.outcomes)}
}

func unpackDelta(args []string) (d *delta, closed bool, margin Rate, ok bool) {
	u := unpacker{rest: []byte(args[0])}
	d = &delta{generation: u.whole()}
	closed, margin = u.whole() == 1, Rate(u.whole())
	d.calls, d.failures, d.slow, d.blamed = u.whole(), u.whole(), u.whole(), u.whole()
	d.tail, d.row, d.broken = u.whole(), u.whole(), u.whole() == 1
	d.reach, d.openFor, d.held, d.cause, d.outcomes = u.duration(), u.duration(), u.whole() == 1, args[1], []byte(args[2])
	return d, closed, margin, !u.broken && len(u.rest) == 0
}

// pack and unpackPolicy carry the settings that govern a step.
func (s *Settings) pack() string {
	var p packer
	w, width := s.Window, 0.0
	switch {
	case w.Calls == 0 && w.Buckets == 0: // of settings that are not enabled: nothing is counted there
		w.Calls = 1
	case w.Calls == 0:
		width = micros(w.width() + time.Microsecond - 1)
	}
	p.numbers(float64(s.FailureThreshold), float64(s.FailureRate), float64(s.RateTest), float64(s.MinCalls), float64(s.SlowRate),
		float64(w.Calls), width, float64(w.Buckets),
		micros(s.Cooldown), s.CooldownMultiplier, micros(s.MaxCooldown), s.CooldownJitter, micros(max(s.StepDecay, time.Microsecond)), micros(s.MaxRetryAfter),
		float64(s.HalfOpenCalls), float64(s.SuccessThreshold), micros(s.MaxHalfOpen), micros(s.Lease), float64(s.MaxNeutral), micros(s.IdleTTL),
		float64(bit(s.Enabled)), float64(bit(s.Canary)), float64(bit(s.CanaryCloses)))
	return string(p)
}

func unpackPolicy(packed string) (*Settings, bool) {
	u := unpacker{rest: []byte(packed)}
	s := &Settings{FailureThreshold: int(u.whole()), FailureRate: Rate(u.whole()), RateTest: RateTest(u.whole()), MinCalls: int(u.whole()), SlowRate: Rate(u.whole())}
	s.Window.Calls = int(u.whole())
	width := u.duration()
	s.Window.Buckets = int(u.whole())
	s.Window.Span = width * time.Duration(s.Window.Buckets)
	s.Cooldown, s.CooldownMultiplier, s.MaxCooldown, s.CooldownJitter = u.duration(), u.number(), u.duration(), u.number()
	s.StepDecay, s.MaxRetryAfter = u.duration(), u.duration()
	s.HalfOpenCalls, s.SuccessThreshold, s.MaxHalfOpen, s.Lease, s.MaxNeutral = int(u.whole()), int(u.whole()), u.duration(), u.duration(), int(u.whole())
	s.IdleTTL, s.Enabled = u.duration(), u.whole() == 1
	s.Canary, s.CanaryCloses = u.whole() == 1, u.whole() == 1
	return s, !u.broken && len(u.rest) == 0 && s.StepDecay > 0 && s.HalfOpenCalls <= maxHalfOpenCalls && s.Window.countable(width)
}

// countable reports whether a window has a size to count in.
func (w Window) countable(width time.Duration) bool {
	if w.Calls > 0 {
		return w.Calls <= maxWindowCalls
	}
	return w.Buckets > 0 && w.Buckets <= maxBuckets && width > 0 && width <= forever/time.Duration(w.Buckets)
}
