package telemetry

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// AlarmKinds lists the classes of failure that only a person can put right:
// refused credentials, no credit left, a wrong set-up.
func AlarmKinds() []llm.FailureClass {
	return []llm.FailureClass{llm.ClassAuth, llm.ClassQuota, llm.ClassConfiguration}
}

// Alarm is a fault in how a provider is set up. It lasts until the targets that
// raised it answer again, or are no longer declared.
type Alarm struct {
	Provider string
	Kind     llm.FailureClass // one of AlarmKinds
	Since    time.Time        // of the first failure
	Count    uint64           // failures since then
}

// alarms keeps which targets have a fault of which kind. Most calls find none
// raised and take no lock.
type alarms struct {
	any atomic.Bool

	mu     sync.Mutex
	raised map[alarmKey]*Alarm
}

type alarmKey struct {
	target llm.Target
	kind   llm.FailureClass
}

// observe raises an alarm for a failure of one of its kinds, and ends those of
// a target that answered. It reports what changed.
func (a *alarms) observe(attempt *llm.Attempt) (raised, ended bool) {
	switch {
	case slices.Contains(AlarmKinds(), attempt.FailureClass):
		return a.raise(alarmKey{attempt.Target, attempt.FailureClass}, attempt.FinishedAt), false
	case attempt.Outcome == llm.OutcomeSuccess && a.any.Load():
		return false, a.end(func(k alarmKey) bool { return k.target == attempt.Target })
	default:
		return false, false
	}
}

func (a *alarms) raise(key alarmKey, at time.Time) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if alarm, ok := a.raised[key]; ok {
		alarm.Count++
		return false
	}
	if a.raised == nil {
		a.raised = map[alarmKey]*Alarm{}
	}
	a.raised[key] = &Alarm{Provider: key.target.Provider, Kind: key.kind, Since: at, Count: 1}
	a.any.Store(true)
	return true
}

func (a *alarms) end(over func(alarmKey) bool) (ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.raised {
		if over(key) {
			delete(a.raised, key)
			ended = true
		}
	}
	a.any.Store(len(a.raised) > 0)
	return ended
}

// list sums up the alarms of each provider, in the order of their names.
func (a *alarms) list() []Alarm {
	a.mu.Lock()
	defer a.mu.Unlock()
	type kindOf struct {
		provider string
		kind     llm.FailureClass
	}
	sums := map[kindOf]*Alarm{}
	for _, alarm := range a.raised {
		key := kindOf{alarm.Provider, alarm.Kind}
		sum, ok := sums[key]
		if !ok {
			sums[key] = new(*alarm)
			continue
		}
		sum.Count += alarm.Count
		if alarm.Since.Before(sum.Since) {
			sum.Since = alarm.Since
		}
	}
	all := make([]Alarm, 0, len(sums))
	for _, sum := range sums {
		all = append(all, *sum)
	}
	slices.SortFunc(all, func(x, y Alarm) int {
		return cmp.Or(cmp.Compare(x.Provider, y.Provider), cmp.Compare(x.Kind, y.Kind))
	})
	return all
}

// Alarms lists what only a person can put right, by provider.
func (m *Metrics) Alarms() []Alarm { return m.alarms.list() }

// observeAlarm keeps the alarms and says, once each, that one begins or ends.
func (m *Metrics) observeAlarm(attempt *llm.Attempt) {
	raised, ended := m.alarms.observe(attempt)
	target := slog.String("target", attempt.Target.Key())
	if raised {
		m.log.Error("provider needs a person", target, "kind", string(attempt.FailureClass), "reason", string(attempt.FailureReason))
	}
	if ended {
		m.log.Info("provider is in order again", target)
	}
}
