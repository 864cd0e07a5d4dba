package breaker

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// model is the circuit told as a story: what happened since the last
// transition, recounted whenever something must be decided.
type model struct {
	s           Settings
	now         time.Duration
	jitter      float64
	state       State
	story       int // counts transitions
	told        []string
	openUntil   time.Duration
	step        int
	closedAt    time.Duration
	past        []ending       // of the present closed time
	herds       []*herd        // of the present closed time
	probes      []*modelPermit // of the present episode, in the order they were given
	neutrals    int
	until       time.Duration // when what a person has said ends; 0: never
	page        int           // grows when the past is forgotten within one state
	muted       time.Duration // until when nothing would open it again
	healed      bool          // the last transition was that of probes
	idleMoments []span        // of the episode, without a live lease
	idleFrom    time.Duration

	counted  samples // what opened it, or the verdicts of the episode
	openedBy int     // failures in a row that opened it
}

type ending struct {
	at, took time.Duration
	kind     Kind
	slow     bool
	failed   bool // of one that was counted as slow while it ran: it has failed since
	news     bool // is in the window already, as another entry
}

// herd is the calls that become slow in one bucket of time.
type herd struct {
	due    time.Duration
	calls  []*modelPermit
	told   bool
	first  int // entry of the past
	page   int // in which it was told
	blamed int
}

type span struct{ from, to time.Duration }

type modelPermit struct {
	story       int
	probe       bool
	done, early bool
	outlasted   bool // an eviction
	verdict     Kind // of a probe; Neutral: none, or given back
	live        bool // holds a lease
	began       time.Duration
	after       time.Duration // that it may take; 0: nobody asks
	answered    bool
	late        bool
	herd        *herd // in which it counts or will count
	expires     time.Duration
	renewUntil  time.Duration
}

// outlast is what an eviction does to a permit.
func (p *modelPermit) outlast(m *model) {
	if p.outlasted || m.current(p) {
		p.outlasted, p.story = true, m.story
	}
	if m.s.Store != Local && p.herd != nil && p.herd.told {
		p.herd.page = -1 // a store remembers the sample
		return
	}
	p.herd = nil
}

func newModel(s Settings) *model { return &model{s: s} }

func (m *model) acquire() (*modelPermit, string) {
	switch {
	case m.state == Closed, m.state == Disabled, m.state == Shadow:
		return &modelPermit{story: m.story}, ""
	case m.state == ForcedOpen && m.until == 0:
		return nil, fmt.Sprintf("circuit %s is %s", walkKey, m.state)
	case m.state == ForcedOpen:
		return nil, m.refusal(m.until - m.now)
	case m.state == Open && m.now < m.openUntil:
		return nil, m.refusal(m.openUntil - m.now)
	case m.state == Open:
		m.move(HalfOpen, ReasonHalfOpen, 0)
	case m.lapsed():
		return nil, m.refusal(m.openUntil - m.now)
	}
	used := m.liveProbes() + m.verdicts(Success) + m.verdicts(Failure)
	if used >= m.s.HalfOpenCalls {
		return nil, m.refusal(m.shortestLease())
	}
	if m.liveProbes() == 0 {
		m.idleMoments = append(m.idleMoments, span{m.idleFrom, m.now})
	}
	p := &modelPermit{story: m.story, probe: true, live: true, expires: m.now + m.s.Lease, renewUntil: m.now + m.s.MaxHalfOpen}
	m.probes = append(m.probes, p)
	return p, ""
}

// watch begins to time a call.
func (m *model) watch(p *modelPermit, after time.Duration) {
	if m.s.SlowRate == 0 {
		return
	}
	m.sweep()
	p.began, p.after = m.now, after
	if p.probe || p.story != m.story || m.state != Closed && m.state != Shadow {
		return
	}
	width := time.Second
	if m.s.Window.Calls == 0 {
		width = bucketWidth(m.s.Window)
	}
	due := ((m.now+after)/width + 1) * width
	for _, h := range m.herds {
		if h.due == due {
			p.herd = h
		}
	}
	if p.herd == nil {
		p.herd = &herd{due: due}
		m.herds = append(m.herds, p.herd)
	}
	p.herd.calls = append(p.herd.calls, p)
}

// sweep counts the calls under way whose bucket has passed.
func (m *model) sweep() {
	slices.SortFunc(m.herds, func(a, b *herd) int { return cmp.Compare(a.due, b.due) })
	counted := false
	for len(m.herds) > 0 && m.herds[0].due <= m.now {
		h := m.herds[0]
		m.herds = m.herds[1:]
		h.calls = slices.DeleteFunc(h.calls, func(p *modelPermit) bool { return p.done || p.answered })
		if len(h.calls) == 0 {
			continue
		}
		counted, h.told, h.first, h.page = true, true, len(m.past), m.page
		for range h.calls {
			m.past = append(m.past, ending{at: m.now, slow: true})
		}
	}
	if counted {
		m.judge(Outcome{Kind: Success})
	}
}

// isSlow reports whether a call was slow to its first token or its end.
func (m *model) isSlow(p *modelPermit) bool {
	if p.answered {
		return p.late
	}
	return p.after > 0 && m.now-p.began > p.after
}

// slowness is whether an outcome is that of a slow call.
func (m *model) slowness(p *modelPermit, o Outcome) bool {
	return m.s.SlowRate > 0 && m.isSlow(p) && (o.Kind != Neutral || o.GaveUp && m.s.SlowCancels)
}

func (m *model) refusal(left time.Duration) string {
	if m.state == HalfOpen {
		left = min(left, 5*time.Second)
	}
	wait := time.Duration(max(1, math.Ceil(left.Seconds()))) * time.Second
	return fmt.Sprintf("circuit %s is %s: retry after %v", walkKey, m.state, wait)
}

func (m *model) done(p *modelPermit, o Outcome) Settlement {
	if p.done {
		return Ignored
	}
	if p.after > 0 {
		m.sweep()
	}
	p.done = true
	return m.settle(p, o)
}

func (m *model) firstToken(p *modelPermit) {
	if p.after > 0 && !p.done && !p.answered {
		m.sweep()
		p.late = m.isSlow(p)
		p.answered = true
		if p.herd != nil && !p.herd.told {
			p.herd = nil
		}
	}
	if p.probe && !p.done && !p.early && !p.late {
		p.early = m.settle(p, Outcome{Kind: Success}) == Applied
	}
}

func (m *model) settle(p *modelPermit, o Outcome) Settlement {
	switch {
	case (m.state == Closed || m.state == Shadow) && m.current(p):
		m.recordClosed(p, o)
		return Applied
	case m.state == Disabled && m.current(p):
		return Applied
	case p.story != m.story || m.state != HalfOpen:
		return Stale
	}
	mine := p.live && m.now >= p.expires
	if m.lapsed() {
		if mine {
			return Expired
		}
		return Stale
	}
	m.recordProbe(p, o)
	return Applied
}

// current reports whether a permit counts in a closed circuit.
func (m *model) current(p *modelPermit) bool {
	return p.story == m.story || p.early && m.healed && p.story == m.story-1
}

func (m *model) recordClosed(p *modelPermit, o Outcome) {
	slow, told := m.slowness(p, o), p.herd != nil && p.herd.told
	e := ending{at: m.now, took: o.Took, kind: o.Kind, slow: slow}
	switch {
	case o.Kind == Neutral && (!slow || told):
	case !told:
		m.past = append(m.past, e)
	case o.Kind == Success:
		e.news = true
		m.past = append(m.past, e)
	default:
		n := p.herd.first + p.herd.blamed
		p.herd.blamed++
		e.news, e.slow = p.herd.page == m.page && m.isShown(n), false
		if e.news {
			m.past[n].failed = true
		}
		m.past = append(m.past, e)
	}
	if slow && o.Kind == Neutral {
		o.Kind = Success // is evaluated as one
	}
	m.judge(o)
}

// command is a person's. It returns false for one that means nothing.
func (m *model) command(c Command) bool {
	m.sweep()
	to := map[Action]State{ActionOpen: ForcedOpen, ActionDisable: Disabled, ActionShadow: Shadow, ActionHalfOpen: HalfOpen}[c.Action]
	switch {
	case c.Action == ActionReset, to == Closed && m.state != Closed:
		m.step = 0
		m.move(Closed, ReasonOperator, 0)
	case to == Closed, to == HalfOpen && m.state == HalfOpen:
	case to == HalfOpen && m.state == Open:
		m.move(HalfOpen, ReasonOperator, 0)
	case to == HalfOpen:
		return false
	default:
		if to != m.state {
			m.move(to, ReasonOperator, 0)
		}
		m.until = 0
		if c.For > 0 {
			m.until = m.now + c.For
		}
	}
	return true
}

// expire ends what a person has said.
func (m *model) expire() {
	switch {
	case m.until == 0 || m.now < m.until:
	case m.state == ForcedOpen:
		m.move(HalfOpen, ReasonOverrideOver, 0)
	default:
		m.move(Closed, ReasonOverrideOver, 0)
	}
}

// imagine is an opening that does not happen.
func (m *model) imagine(reason string, d time.Duration) {
	m.told = append(m.told, fmt.Sprintf("%v→%v %s %v", Shadow, Shadow, reason, d))
	m.muted, m.closedAt = m.now+d, m.now
	m.page++
	m.past = nil
	m.counted, m.openedBy = samples{}, 0
}

// judge opens a closed circuit when there is a reason to.
func (m *model) judge(o Outcome) {
	if m.state == Shadow && m.now < m.muted {
		return
	}
	streak, _ := m.recount()
	reason := m.verdict(o, streak)
	if reason == "" {
		return
	}
	m.openedBy, m.counted = streak, m.inWindow(m.past, m.now)
	d := min(o.OpenFor, m.s.MaxRetryAfter)
	if m.state == Closed || reason != ReasonRetryAfter {
		m.decay()
	}
	if reason != ReasonRetryAfter {
		d = m.cooldown()
	}
	if m.state == Shadow {
		m.imagine(reason, d)
	} else {
		m.move(Open, reason, d)
	}
}

// isShown reports whether the window shows an entry of the past, or would once
// it has slid on to the present.
func (m *model) isShown(entry int) bool {
	after := 0
	for _, e := range m.past[entry:] {
		if !e.news {
			after++
		}
	}
	return visible(m.s.Window, after, m.past[entry].at, m.now)
}

// verdict is why an outcome opens a closed circuit; empty when it does not.
func (m *model) verdict(o Outcome, streak int) string {
	switch {
	case o.OpenFor > 0:
		return ReasonRetryAfter
	case o.Kind == Neutral:
		return ""
	case m.s.FailureThreshold > 0 && streak >= m.s.FailureThreshold:
		return ReasonConsecutive
	case m.s.FailureRate > 0 && overLimit(m.s, m.inWindow(m.past, m.now)):
		return ReasonFailureRate
	case m.s.SlowRate > 0 && m.tooSlow():
		return ReasonSlowRate
	default:
		return ""
	}
}

// tooSlow judges the rate of slow calls as if it were one of failures.
func (m *model) tooSlow() bool {
	n, s := m.inWindow(m.past, m.now), m.s
	s.FailureRate = s.SlowRate
	return overLimit(s, samples{calls: n.calls, failures: n.slow})
}

func (m *model) recordProbe(p *modelPermit, o Outcome) {
	if m.slowness(p, o) {
		o.Kind = Failure
	}
	switch {
	case p.early && o.Kind == Failure:
		p.verdict = Failure
	case !p.early:
		p.verdict, p.live = o.Kind, false
		m.neutrals++
		if o.Kind != Neutral {
			m.neutrals = 0
		}
		if m.liveProbes() == 0 {
			m.idleFrom = m.now
		}
	}
	m.counted = samples{uint64(m.verdicts(Success) + m.verdicts(Failure)), uint64(m.verdicts(Failure)), 0}
	switch {
	case o.OpenFor > 0:
		m.reopen(ReasonRetryAfter, min(o.OpenFor, m.s.MaxRetryAfter))
	case m.verdicts(Failure) > m.s.HalfOpenCalls-m.s.SuccessThreshold:
		m.step++
		m.reopen(ReasonProbeFailure, m.cooldown())
	case m.verdicts(Success) >= m.s.SuccessThreshold:
		m.move(Closed, ReasonProbeSuccess, 0)
	case m.neutrals >= m.s.MaxNeutral:
		m.reopen(ReasonHalfOpenTimeout, m.cooldown())
	}
}

// lapsed re-opens an episode that is over.
func (m *model) lapsed() bool {
	if m.state != HalfOpen {
		return false
	}
	for _, p := range m.probes {
		if p.live && m.now >= p.expires {
			m.reopen(ReasonProbeLost, m.cooldown())
			return true
		}
	}
	idle := time.Duration(0)
	for _, s := range m.idleMoments {
		idle += s.to - s.from
	}
	if m.liveProbes() == 0 {
		idle += m.now - m.idleFrom
	}
	if idle >= m.s.MaxHalfOpen {
		m.reopen(ReasonHalfOpenTimeout, m.cooldown())
		return true
	}
	return false
}

func (m *model) heartbeat() {
	if m.lapsed() || m.state != HalfOpen {
		return
	}
	for _, p := range m.probes {
		if p.live && m.now < p.renewUntil {
			p.expires = m.now + m.s.Lease
		}
	}
}

func (m *model) within(p *modelPermit, d time.Duration) {
	if p.live && !p.done && p.story == m.story {
		p.renewUntil = m.now + d
	}
}

func (m *model) reopen(reason string, d time.Duration) {
	m.openedBy = 0
	m.move(Open, reason, d)
}

func (m *model) move(to State, reason string, openFor time.Duration) {
	m.told = append(m.told, fmt.Sprintf("%v→%v %s %v", m.state, to, reason, openFor))
	m.state, m.openUntil = to, m.now+openFor
	m.story++
	m.past, m.herds, m.probes, m.neutrals = nil, nil, nil, 0
	m.until, m.muted, m.healed = 0, 0, reason == ReasonProbeSuccess
	m.idleMoments, m.idleFrom, m.closedAt = nil, m.now, m.now
	if to != Open { // an open circuit shows what opened it
		m.counted, m.openedBy = samples{}, 0
	}
}

// recount goes through the closed time behind and returns the failures in a row
// at its end, and how much of it was healthy.
func (m *model) recount() (streak int, healthy time.Duration) {
	memory := m.memory()
	var began, last, ill time.Duration
	for _, e := range m.past {
		if e.kind == Neutral {
			continue
		}
		if e.kind == Failure && streak > 0 && e.at-e.took-last > memory {
			ill += last - began
			streak = 0
		}
		switch {
		case e.kind == Failure && streak == 0:
			streak, began, last = 1, e.at, e.at
		case e.kind == Failure:
			streak, last = streak+1, e.at
		case streak > 0:
			ill += e.at - began
			streak = 0
		}
	}
	end := m.now
	if streak > 0 {
		end = began
	}
	return streak, end - m.closedAt - ill
}

func (m *model) memory() time.Duration {
	if m.s.Window.Calls > 0 {
		return 2 * m.s.Cooldown
	}
	return 2 * max(m.s.Cooldown, m.s.Window.Span)
}

// shown are the counts as a reader sees them.
func (m *model) shown() samples {
	if m.state == Closed || m.state == Shadow {
		return m.inWindow(m.past, m.now)
	}
	return m.counted
}

func (m *model) inWindow(past []ending, now time.Duration) samples {
	return recountWindow(m.s.Window, past, now)
}

// rateNow is the rate as a reader sees it.
func (m *model) rateNow(n samples, some uint64) string {
	least := leastCalls(m.s)
	if m.state == HalfOpen {
		least = min(least, m.s.HalfOpenCalls)
	}
	if n.calls < uint64(least) {
		return "unknown"
	}
	return fmt.Sprint(float64(some) / float64(n.calls))
}

// streakNow is the streak as a reader sees it.
func (m *model) streakNow() int {
	if m.state != Closed && m.state != Shadow {
		return m.openedBy
	}
	streak, _ := m.recount()
	if streak > 0 && m.now-m.lastSaid() > m.memory() {
		return 0
	}
	return streak
}

// lastSaid is when the last outcome came that says something about a streak.
func (m *model) lastSaid() time.Duration {
	for _, e := range slices.Backward(m.past) {
		if e.kind != Neutral {
			return e.at
		}
	}
	return m.closedAt
}

func (m *model) decay() {
	_, healthy := m.recount()
	for n := 1; healthy >= m.s.StepDecay; n++ {
		healthy -= m.s.StepDecay
		m.step = max(0, m.step-1)
		if n == 10 {
			m.step = 0
			return
		}
	}
}

// forgettable reports whether a new circuit would behave as this one.
func (m *model) forgettable() bool {
	if m.state != Closed || m.streakNow() > 0 {
		return false
	}
	if m.s.Window.Calls == 0 && m.inWindow(m.past, m.now).calls > 0 {
		return false
	}
	then := *m
	if n := len(m.past); n > 0 { // the streak, if any, is over
		then.past = append(m.past[:n:n], ending{at: m.lastSaid(), kind: Success})
	}
	then.decay()
	return then.step == 0
}

func (m *model) cooldown() time.Duration {
	d := m.s.Cooldown
	for range m.step {
		d = min(m.s.MaxCooldown, time.Duration(float64(d)*m.s.CooldownMultiplier))
	}
	return d + time.Duration(float64(d)*m.s.CooldownJitter*m.jitter)
}

func (m *model) liveProbes() int {
	n := 0
	for _, p := range m.probes {
		if p.live {
			n++
		}
	}
	return n
}

func (m *model) verdicts(k Kind) int {
	n := 0
	for _, p := range m.probes {
		if p.verdict == k {
			n++
		}
	}
	return n
}

func (m *model) shortestLease() time.Duration {
	least := 5 * time.Second
	for _, p := range m.probes {
		if p.live {
			least = min(least, p.expires-m.now)
		}
	}
	return least
}
