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
// raised it answer again, of several credentials to the one at fault, or are no
// longer declared.
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
	target     llm.Target
	credential int // counted from 1 where a provider has several, else 0
	kind       llm.FailureClass
}

// observe raises an alarm for a failure of one of its kinds, and ends those of
// a target that answered. It reports which failures raised one, and whether one
// ended.
func (a *alarms) observe(attempt *llm.Attempt) (raised []llm.CredentialRefusal, ended bool) {
	for _, r := range faults(attempt) {
		if a.raise(alarmKey{attempt.Target, r.Credential, r.Class}, attempt.FinishedAt) {
			raised = append(raised, r)
		}
	}
	if attempt.Outcome == llm.OutcomeSuccess && a.any.Load() {
		ended = a.end(func(k alarmKey) bool { return k.target == attempt.Target && k.answered(attempt.Credential) })
	}
	return raised, ended
}

// faults lists the failures of an attempt that only a person can put right:
// those of single credentials, which another may have made good, or its own.
func faults(attempt *llm.Attempt) []llm.CredentialRefusal {
	all := attempt.Refusals
	if len(all) == 0 && attempt.FailureClass != "" {
		all = []llm.CredentialRefusal{{Credential: attempt.Credential, Class: attempt.FailureClass, Reason: attempt.FailureReason}}
	}
	return slices.DeleteFunc(slices.Clone(all), func(r llm.CredentialRefusal) bool { return !slices.Contains(AlarmKinds(), r.Class) })
}

// answered reports whether the alarm is over when its target answered to a
// credential: that of another is not.
func (k alarmKey) answered(credential int) bool {
	return k.credential == 0 || credential == 0 || k.credential == credential
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
	for _, r := range raised {
		m.log.Error("provider needs a person", target, "kind", string(r.Class), "reason", string(r.Reason), "credential", r.Credential)
	}
	if ended {
		m.log.Info("provider is in order again", target)
	}
}
